"""`python -m fault_suite`: all cases of the catalogue, or cases by chance for some minutes; prints the totals.

Writes nothing but into a temporary folder. The exit code is 1 if anything was not as promised.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fault_suite import catalogue, totals
from fault_suite.catalogue import Case
from fault_suite.site import Outcome, Site
from local_cloud import Cloud

SITES = 3
"""Clouds at once: runs wait much of their time."""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="fault_suite", description=__doc__)
    parser.add_argument("--minutes", type=float, help="cases by chance for so long, instead of the catalogue")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the cases by chance")
    parser.add_argument("--only", default="", help="only cases whose name holds this")
    parser.add_argument("--sites", type=int, default=SITES, help="local clouds at once")
    options = parser.parse_args()
    cases = by_chance(options.seed, options.minutes) if options.minutes else iter(catalogue.everything())
    if options.minutes:
        print(f"Cases by chance, --seed {options.seed}", flush=True)
    outcomes = run(itertools.filterfalse(lambda case: options.only not in case.name, cases), options.sites)
    print(f"\n{totals.by_kind(outcomes)}\n\n{totals.by_load(outcomes)}")
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    sys.exit(1 if wrong or not outcomes else 0)


def by_chance(seed: int, minutes: float) -> Iterator[Case]:
    """Cases by chance, until the time is over."""
    chance, end = random.Random(seed), time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        yield catalogue.chosen(chance)


def run(cases: Iterator[Case], sites: int) -> list[Outcome]:
    """Try out cases, several at once; what is wrong is told as it happens."""
    outcomes: list[Outcome] = []
    lock, started = threading.Lock(), time.monotonic()

    def work(folder: Path) -> None:
        with Cloud() as cloud, cloud.redshift_connection() as redshift:
            site = Site(cloud, folder, {"bigquery": cloud.bigquery_client(), "redshift": redshift})
            try:
                while True:
                    with lock:
                        case = next(cases, None)
                    if case is None:
                        return
                    outcome = site.try_out(case)
                    with lock:
                        outcomes.append(outcome)
                        tell(outcome, len(outcomes), time.monotonic() - started)
            finally:
                site.close()

    with tempfile.TemporaryDirectory(prefix="faults-") as root:
        folders = [Path(root) / str(number) for number in range(sites)]
        for folder in folders:
            folder.mkdir()
        with ThreadPoolExecutor(sites) as pool:
            list(pool.map(work, folders))
    return outcomes


def tell(outcome: Outcome, number: int, seconds: float) -> None:
    """Say what is wrong with a case, and now and then how far it is."""
    for words in outcome.wrong:
        print(f"NOT AS PROMISED: {outcome.case.name}: {words}\n{outcome.said[-30000:]}", flush=True)
    if number % 50 == 0:
        print(f"{number} cases in {seconds:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
