"""The command line of the benchmarks."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine, page, report
from benchmarks.cases import CASES, ON_REQUEST
from benchmarks.harness import BenchmarkError
from benchmarks.peers import PEERS
from benchmarks.rounds import run_case
from benchmarks.workbench import DATA, Workbench

RESULTS = page.RESULTS


def main() -> int:
    """Run cases, print their tables, write their results; 1 if a case could not be run."""
    given = _parser().parse_args()
    # Images set them: every run would compile what it imports, and write each record by a call of its own.
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        os.environ.pop(name, None)
    if given.install:
        return _install(given.data_dir)
    names = given.cases or [name for name in CASES if name not in ON_REQUEST]
    if unknown := [name for name in names if name not in CASES]:
        print(f"unknown case {', '.join(unknown)}; there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    failed = []
    with (
        Workbench(scale=given.scale, data=given.data_dir, log=_log) as bench,
        tempfile.TemporaryDirectory(dir=bench.data) as folder,
    ):
        for name in names:
            _log(f"== {name}")
            try:
                case = CASES[name](bench)
                runs = run_case(case, folder=Path(folder), rounds=given.rounds, log=_log)
            except BenchmarkError as error:
                _log(f"{name} failed: {error}")
                failed.append(name)
                continue
            found = report.result(case, runs, machine=machine.describe(), scale=given.scale)
            _log(f"written to {report.write(found, given.results_dir)}\n\n{report.markdown(found)}")
    if given.scale == 1 and given.results_dir == RESULTS:
        page.write(page.ROOT, page.files(page.ROOT, given.results_dir))
    if failed:
        _log(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _install(data: Path) -> int:
    with Workbench(data=data, log=_log) as bench:
        there = [bench.peer(name) for name in PEERS]
        bench.s3()
    return 0 if all(there) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=f"Cases: {', '.join(CASES)}.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"all but {', '.join(sorted(ON_REQUEST))} by default")
    parser.add_argument("--install", action="store_true", help="install the peers and the local S3, and end")
    parser.add_argument("--scale", type=float, default=1.0, help="multiply the rows, to try a case quickly")
    parser.add_argument("--rounds", type=int, help="instead of each case's own number")
    parser.add_argument("--data-dir", type=Path, default=DATA, help="where input data is made and kept")
    parser.add_argument("--results-dir", type=Path, default=RESULTS, help="where results are written")
    return parser


def _log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
