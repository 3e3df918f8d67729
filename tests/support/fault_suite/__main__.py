"""Run all cases of the catalogues, or random cases for some minutes, and print the totals.

Usage: `python -m fault_suite`. It writes only into a temporary folder. The exit code is 1 if any case failed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from forked_programs import ForkedPrograms
from tap_source import TapBucket

from fault_suite import catalogue, histories, pipe, runs, sequences, tap_catalogue, totals, walks
from fault_suite.catalogue import Case
from fault_suite.histories import History, HistorySite
from fault_suite.pipe import PipeCase, PipeSite
from fault_suite.runs import RunCase, RunSite
from fault_suite.sequences import Sequence as Changes
from fault_suite.sequences import SequenceSite
from fault_suite.site import Outcome, Site
from fault_suite.tap_catalogue import Walk
from fault_suite.tap_site import TapSite
from local_cloud import Cloud
from local_cloud.s3 import setup

SITES = 3
"""Number of sites used at once; runs spend much of their time waiting."""
SEQUENCES = 100
"""Number of random sequences of changes in addition to those of the catalogue."""
HISTORIES, LAKES = 600, 200
"""Numbers of random histories of files, and of tables of a lake."""
WALKS = 400
"""Number of random walks in addition to those of the catalogue."""
TARGETS, PIPES, TAP, CHANGES, RUN = PARTS = ("targets", "pipes", "tap", "changes", "run")
C = TypeVar("C", Case, PipeCase, Walk, Changes, History, RunCase)
TryOut = Callable[[C], Outcome]


def main() -> None:
    """Parse the command line and run the suite."""
    parser = argparse.ArgumentParser(prog="fault_suite", description=__doc__)
    parser.add_argument(
        "--part",
        choices=PARTS,
        action="append",
        help="only this part; may be repeated",
    )
    parser.add_argument("--minutes", type=float, help="cases by chance for so long, instead of the catalogues")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the cases by chance")
    parser.add_argument("--only", default="", help="only cases whose name holds this")
    parser.add_argument("--sites", type=int, default=SITES, help="sites at once")
    options = parser.parse_args()
    suite = Suite(options.only, options.sites, options.part or PARTS)
    if options.minutes:
        print(f"Cases by chance, --seed {options.seed}", flush=True)
        suite.by_chance(options.seed, options.minutes)
    else:
        suite.everything()
    print(f"\n{totals.by_kind(suite.outcomes)}\n\n{totals.by_way(suite.outcomes)}")
    wrong = [outcome for outcome in suite.outcomes if outcome.wrong]
    sys.exit(1 if wrong or not suite.outcomes else 0)


class Suite:
    """Runs cases in several threads and prints each failure at once.

    Args:
        only: Run only cases whose name contains this text.
        sites: Number of sites used at once.
        parts: The parts of the suite to run.

    Attributes:
        outcomes: Outcomes of all cases so far.
    """

    def __init__(self, only: str, sites: int, parts: Sequence[str]) -> None:
        self._only, self._sites, self._parts = only, sites, parts
        self._lock, self._started = threading.Lock(), time.monotonic()
        self.outcomes: list[Outcome] = []

    def everything(self) -> None:
        """Run all cases."""
        if TARGETS in self._parts:
            self._run(iter(catalogue.everything()), target_site)
        if PIPES in self._parts:
            self._run(iter(list(pipe.cases())), pipe_site)
        if TAP in self._parts:
            self._run(iter(tap_walks()), tap_site)
        if CHANGES in self._parts:
            chance = random.Random(0)
            by_chance = (sequences.chosen(chance) for _ in range(SEQUENCES))
            self._run(iter([*sequences.everything(), *by_chance]), sequence_site)
            self._run(iter(histories.everything(HISTORIES, LAKES)), history_site)
        if RUN in self._parts:
            self._run(runs.cases(), run_site)

    def by_chance(self, seed: int, minutes: float) -> None:
        """Run random cases, evenly from all parts, until the time is over."""
        share = minutes / len(self._parts)
        if TARGETS in self._parts:
            self._run(_by_chance(seed, share, catalogue.chosen), target_site)
        if PIPES in self._parts:
            known = list(pipe.cases())
            self._run(_by_chance(seed, share, lambda chance: chance.choice(known)), pipe_site)
        if TAP in self._parts:
            self._run(_by_chance(seed, share, lambda chance: walks.walk(chance.randrange(1 << 30))), tap_site)
        if CHANGES in self._parts:
            self._run(_by_chance(seed, share / 2, sequences.chosen), sequence_site)
            self._run(_by_chance(seed, share / 2, histories.chosen), history_site)
        if RUN in self._parts:
            broken = list(runs.cases())
            self._run(_by_chance(seed, share, lambda chance: chance.choice(broken)), run_site)

    def _run(self, cases: Iterator[C], site: Callable[[Path], AbstractContextManager[TryOut[C]]]) -> None:
        chosen_cases = (case for case in cases if self._only in case.name)

        def work(folder: Path) -> None:
            with self._lock:
                case = next(chosen_cases, None)
            if case is None:
                return
            with site(folder) as try_out:
                while case is not None:
                    self._note(try_out(case))
                    with self._lock:
                        case = next(chosen_cases, None)

        with tempfile.TemporaryDirectory(prefix="faults-") as root:
            folders = [Path(root) / str(number) for number in range(self._sites)]
            for folder in folders:
                folder.mkdir()
            with ThreadPoolExecutor(self._sites) as pool:
                list(pool.map(work, folders))

    def _note(self, outcome: Outcome) -> None:
        """Record an outcome, print its failures, and print the progress from time to time."""
        with self._lock:
            self.outcomes.append(outcome)
            number = len(self.outcomes)
            for words in outcome.wrong:
                print(f"NOT AS PROMISED: {outcome.case.name}: {words}\n{outcome.log[-30000:]}", flush=True)
            if number % 50 == 0:
                seconds = time.monotonic() - self._started
                print(f"{number} cases in {seconds:.0f} s", file=sys.stderr, flush=True)


def _by_chance(seed: int, minutes: float, choose: Callable[[random.Random], C]) -> Iterator[C]:
    chance, end = random.Random(seed), time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        yield choose(chance)


def tap_walks() -> list[Walk]:
    """Return the catalogue's walks and some random ones; the same on each call."""
    with tempfile.TemporaryDirectory(prefix="faults-") as root:
        site = TapSite(Path(root))
        try:
            found = tap_catalogue.everything(site.points, may_mount=site.may_mount())
        finally:
            site.close()
    return [*found, *map(walks.walk, range(WALKS))]


@contextmanager
def target_site(folder: Path) -> Iterator[TryOut[Case]]:
    """Create a local cloud, with a site for targets."""
    with Cloud() as cloud, cloud.redshift_connection() as redshift:
        site = Site(cloud, folder, {"bigquery": cloud.bigquery_client(), "redshift": redshift})
        try:
            yield site.try_out
        finally:
            site.close()


@contextmanager
def pipe_site(folder: Path) -> Iterator[TryOut[PipeCase]]:
    """Create a local cloud, with a site for pipes."""
    with Cloud() as cloud, cloud.redshift_connection() as redshift:
        site = Site(cloud, folder, {"bigquery": cloud.bigquery_client(), "redshift": redshift})
        both = PipeSite(site, folder / "tap")
        try:
            yield both.try_out
        finally:
            both.close()
            site.close()


@contextmanager
def tap_site(folder: Path) -> Iterator[TryOut[Walk]]:
    """Create an S3 server, with a site for the tap."""
    site = TapSite(folder)
    try:
        yield site.try_out
    finally:
        site.close()


@contextmanager
def sequence_site(folder: Path) -> Iterator[TryOut[Changes]]:
    """Create a local cloud, with a site for sequences of changes."""
    with Cloud() as cloud, cloud.redshift_connection() as redshift:
        source = TapBucket(setup.client("s3", cloud.s3_url), "source", ForkedPrograms(cloud.environ(), folder))
        yield SequenceSite(cloud, folder, {"bigquery": cloud.bigquery_client(), "redshift": redshift}, source).try_out


@contextmanager
def history_site(folder: Path) -> Iterator[TryOut[History]]:
    """Create a local cloud, with a site for histories."""
    with Cloud() as cloud, cloud.redshift_connection() as redshift:
        source = TapBucket(setup.client("s3", cloud.s3_url), "source", ForkedPrograms(cloud.environ(), folder))
        yield HistorySite(cloud, folder, {"bigquery": cloud.bigquery_client(), "redshift": redshift}, source).try_out


@contextmanager
def run_site(folder: Path) -> Iterator[TryOut[RunCase]]:
    """Create a local cloud, with a site for runs of `singer-arrow run`."""
    with Cloud() as cloud, cloud.redshift_connection() as redshift:
        yield RunSite(cloud, folder, {"bigquery": cloud.bigquery_client(), "redshift": redshift}).try_out


if __name__ == "__main__":
    main()
