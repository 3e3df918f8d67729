"""`python -m acceptance`: the command."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from acceptance import cost, report, site

if TYPE_CHECKING:
    from acceptance.scenario import Scenario


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m acceptance", description="Scenarios of the connectors on your accounts."
    )
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="names that begin so; repeatable")
    parser.add_argument("--list", action="store_true", help="print the scenarios, and what is missing for each")
    parser.add_argument(
        "--report", metavar="FILE", type=Path, default=Path("acceptance.md"), help="FILE.md and FILE.json"
    )
    parser.add_argument("--at-once", metavar="N", type=int, default=2, help="scenarios at the same time (2)")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        own = site.environment(os.environ)
        is_started = not arguments.list and "ACCEPTANCE_BUCKET" not in own
        if is_started:
            try:
                from local_cloud import Cloud
            except ImportError:
                return _end(
                    "Set ACCEPTANCE_BUCKET and TARGET_BIGQUERY_PROJECT or TARGET_REDSHIFT_HOST: docs/real-clouds.md"
                )
            print("No account is named in the environment: starting the local cloud", flush=True)
            own = site.environment(stack.enter_context(Cloud()).environ())
        os.environ.clear()
        os.environ.update(own)
        return _run(arguments, ask=not (is_started or arguments.yes))


def _run(arguments: argparse.Namespace, *, ask: bool) -> int:
    from acceptance import scenario, scenarios  # noqa: F401 - which declares them, by the environment

    chosen = scenario.chosen(arguments.only)
    if arguments.list:
        for one in chosen:
            print(f"{one.name:<38} {one.description}" + (f" (not run: {one.reason})" if one.reason else ""))
        return 0
    runnable = [one for one in chosen if not one.reason]
    if not runnable:
        return _end(f"No scenario can run: {chosen[0].reason}" if chosen else f"No scenario is named {arguments.only}")
    if ask and not sys.stdin.isatty():
        return _end("This costs money on a real account, and there is no terminal to ask on; add --yes")
    print(cost.estimate(runnable), flush=True)
    place = site.Site(sorted({one.warehouse for one in runnable}))
    print(f"All that it makes is named {place.name}, and is removed at the end.")
    for line in place.leftovers():
        print(f"Left behind by an earlier run: {line}")
    if ask and input("Run? [y/N] ").strip().lower() not in ("y", "yes"):
        return 0
    return _run_in(place, chosen, arguments)


def _run_in(place: site.Site, chosen: Sequence[Scenario], arguments: argparse.Namespace) -> int:
    from acceptance import scenario

    caught: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if not caught:
            print("\nStopping; what was made is being removed", flush=True)
            threading.Thread(target=place.stop).start()
        caught.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)

    def show(result: scenario.Result) -> None:
        print(f"{result.outcome:<9} {result.seconds:6.1f} s  {result.name}  {result.reason}", flush=True)

    results: list[scenario.Result] = []
    try:
        for warehouse in place.warehouses.values():
            warehouse.create()
        results = scenario.run_all(place, chosen, arguments.at_once, show)
    finally:
        place.stop()
        left = place.remove()
    files = report.write(arguments.report, results, name=place.name, left=left)
    counts = {o: sum(r.outcome == o for r in results) for o in (scenario.HELD, scenario.NOT_HELD, scenario.NOT_RUN)}
    for line in left:
        print(f"Not removed: {line}")
    print(", ".join(f"{n} {o}" for o, n in counts.items()) + f"; {files[0]}, {files[1]}", flush=True)
    if caught:
        return 128 + caught[0]
    return int(bool(counts[scenario.NOT_HELD] or left))


def _end(text: str) -> int:
    print(text, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
