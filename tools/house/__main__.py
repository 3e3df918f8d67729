"""`python -m house` prints the table; `--check` enforces the limits; `--list AREA` prints the lines that count."""

from __future__ import annotations

import argparse
import sys

from house import limits


def main() -> int:
    parser = argparse.ArgumentParser(prog="house", description=__doc__)
    parser.add_argument("--check", action="store_true", help="print what breaks a limit and fail")
    parser.add_argument("--lower", action="store_true", help="lower the limits to what is measured")
    parser.add_argument("--list", metavar="AREA", help="print every line that counts, of one package or folder")
    arguments = parser.parse_args()
    if arguments.list:
        print(*limits.lines_of(arguments.list), sep="\n")
        return 0
    if arguments.lower:
        limits.lower()
        return 0
    if arguments.check:
        found = list(limits.faults())
        print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
        return bool(found)
    from house import report

    for measured, figure, goal in report.rows():
        print(f"{measured:<84} {figure:<44} goal {goal}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
