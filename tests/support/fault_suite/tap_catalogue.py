"""Catalogue of tap cases: setups, interrupted runs, and the steps after them. Pure.

A case is a walk: a sequence of steps that starts from an empty bucket. To add a setup, add a line to `SETUPS`; to add a
beginning, a line to `SCENARIOS`; to add a continuation, a line to `TAILS` or `OTHERS`.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Any

from fault_suite.catalogue import HTTP as KINDS
from fault_suite.lake import LARGE_CSV
from fault_suite.small_s3 import FITS, Faults
from fault_suite.tap_steps import Break, Empty, Limit, Objects, Run, Step, Wake, keys

SMALL_FILE_MB = 0.0001


@dataclass(frozen=True)
class Setup:
    """Settings that all runs of a case share.

    Attributes:
        plan: Limits of bundles and segments, by their names in `tap_s3_files.plan_model`.
        large: Whether there is an object that is cut into several batch files.
        queue: Whether new objects are announced by a queue; each is announced twice.
        catalog: Whether runs get a catalog, as shards must.
        range_mb: Size of the ranges into which large objects are divided; 0: they are not.
    """

    plan: Mapping[str, int]
    large: bool = False
    queue: bool = False
    catalog: bool = False
    range_mb: float = 0


_FEW = {"BUNDLE_OBJECTS": 2, "SEGMENT_OBJECTS": 4}
SETUPS = {
    "several segments": Setup(_FEW),
    "one segment": Setup({"BUNDLE_OBJECTS": 2, "SEGMENT_OBJECTS": 1000}),
    "a large object": Setup(_FEW | {"SMALL_OBJECT": 1000}, large=True),
    "a queue": Setup(_FEW, queue=True),
    "many segments": Setup({"BUNDLE_OBJECTS": 2, "SEGMENT_OBJECTS": 2}),
    "ranges": Setup(_FEW | {"SMALL_OBJECT": 1000}, large=True, range_mb=0.02),
    "shards": Setup(_FEW | {"BUNDLE_OBJECTS": 1, "SMALL_OBJECT": 1000}, large=True, catalog=True, range_mb=0.02),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "": {},
    "columns": {"stream": {"columns": ["id", "amount"]}},
    "no metadata": {"metadata_columns": False},
    "other files": {"batch": {"target_file_mb": 1}},
    "jsonl": {"batch": {"encoding": {"format": "jsonl", "compression": "gzip"}}},
    "fail": {"stream": {"on_bad_row": "fail"}},
    "rescue": {"stream": {"on_bad_row": "rescue"}},
    "dead letter": {"stream": {"on_bad_row": "dead_letter"}},
    "passthrough": {"passthrough": True, "metadata_columns": False},
}
"""Settings that may change between two runs: of the stream, of `batch_config`, and of the tap."""


@dataclass(frozen=True)
class Walk:
    """A case.

    Attributes:
        kind: Kind of the fault, for the totals.
        setup: A name of `SETUPS`.
        steps: The steps; the last run has no fault.
        way, victim: Columns of the totals.
    """

    kind: str
    name: str
    setup: str
    steps: tuple[Step, ...] = field(repr=False)
    victim: str = "tap-s3-files"

    @property
    def way(self) -> str:
        """The line of the totals that counts the case."""
        return f"tap, {self.setup}: {self.kind}"


FIRST = (Objects(keys("bc")), Objects(keys("de")), Objects(keys("fg")))
NEW = (Objects(keys("hi")), Objects(keys("j"), at=0))
LATE, LATER = Objects(keys("a"), at=-70), Objects(keys("y"), at=-30)
SAME_SECOND, BETWEEN = Objects(keys("bz")), Objects(keys("c"), at=0)
AGAIN = Objects(keys("d"))
LARGE = Objects(keys("l", ".parquet"))
TEXT = Objects(keys("t", LARGE_CSV))
MANY = tuple(Objects(tuple(f"in/{n:03}.csv" for n in range(first, first + 10))) for first in range(0, 150, 10))
USUAL, FRESH = Run(), Run(state=False)
TAILS: tuple[tuple[Step, ...], ...] = (
    (Run(),),
    (FRESH,),
    (LATE, Run()),
    (LATER, FRESH),
    (Run(), LATE, Run(), FRESH),
    (FRESH, LATE, Run()),
    (AGAIN, Run(), FRESH),
    (LATER, Run(most=2), Run()),
)
OTHERS: tuple[tuple[Step, ...], ...] = (
    (Run(),),
    (FRESH,),
    (LATE, Run()),
    (Run(), LATER, Run()),
    (AGAIN, Run(), FRESH),
    (FRESH, LATE, Run(), Run()),
)


@dataclass(frozen=True)
class Scenario:
    """Steps without faults, then the run that is interrupted, and what follows it.

    Attributes:
        tails: Steps after an interrupted run. Even positions start from the last STATE, odd ones without STATE.
        others: Steps while the run is stopped.
    """

    name: str
    setup: str
    before: tuple[Step, ...]
    run: Run = USUAL
    tails: tuple[tuple[Step, ...], ...] = field(default=TAILS, repr=False)
    others: tuple[tuple[Step, ...], ...] = field(default=OTHERS, repr=False)


SCENARIOS = (
    Scenario("first run", "several segments", FIRST),
    Scenario("first run", "one segment", FIRST),
    Scenario("first run", "a large object", (LARGE, *FIRST)),
    Scenario("first run", "a queue", FIRST),
    Scenario("new objects", "several segments", (*FIRST, Run(), *NEW)),
    Scenario("new objects", "one segment", (*FIRST, Run(), *NEW)),
    Scenario("new objects", "a large object", (*FIRST, Run(), LARGE, *NEW)),
    Scenario("new objects", "a queue", (*FIRST, Run(), *NEW)),
    Scenario("late objects", "several segments", (*FIRST, Run(), LATE, *NEW)),
    Scenario("objects of one second", "one segment", (SAME_SECOND, Run(), BETWEEN)),
    Scenario("overwritten object", "several segments", (*FIRST, Run(), AGAIN)),
    Scenario("full refresh", "several segments", (*FIRST, Run(), *NEW), FRESH),
    Scenario("full refresh", "a large object", (*FIRST, LARGE, Run(), *NEW), FRESH),
    Scenario("first run", "ranges", (LARGE, TEXT, *FIRST)),
    Scenario("full refresh", "ranges", (TEXT, *FIRST, Run(), *NEW), FRESH),
    Scenario("full refresh", "a queue", (*FIRST, Run(), *NEW), FRESH),
    Scenario("full refresh after late objects", "one segment", (SAME_SECOND, Run(), BETWEEN, Run()), FRESH),
)
MANY_SEGMENTS = Scenario("late objects", "many segments", (*MANY, Run(), Run(), LATE))
PLAN, HALVES = Run(plans=True), (Run(shard="0/2"), Run(shard="1/2"))
THIRDS = tuple(Run(shard=f"{n}/3") for n in range(3))
SHARD_TAILS: tuple[tuple[Step, ...], ...] = (
    HALVES,
    (Run(),),
    (LATE, PLAN, *HALVES),
    THIRDS,
    (replace(HALVES[0], most=2), *HALVES),
    tuple(replace(run, state=False) for run in HALVES),
    (AGAIN, *HALVES, PLAN, *HALVES),
    (LATER, Run(), *HALVES),
)
PLAN_TAILS = ((PLAN, *HALVES), (Run(),), (LATE, PLAN, *HALVES), (PLAN, *THIRDS))
SHARDED = (
    Scenario("first shard", "shards", (TEXT, *FIRST, PLAN), HALVES[0], SHARD_TAILS, SHARD_TAILS),
    Scenario("last shard", "shards", (LARGE, *FIRST, PLAN, HALVES[0]), HALVES[1], SHARD_TAILS, SHARD_TAILS),
    Scenario("new objects", "shards", (*FIRST, PLAN, *HALVES, LARGE, *NEW, PLAN), HALVES[1], SHARD_TAILS, SHARD_TAILS),
    Scenario("the plan", "shards", (TEXT, *FIRST), PLAN, PLAN_TAILS, PLAN_TAILS),
)
HTTP = tuple(KINDS)
WRONG = tuple(FITS)
GONE = ("503", "reset", "answer lost", *WRONG)
LIMITS = (
    *(Limit("FSIZE", most) for most in (12_288, 14_336)),
    *(Limit("TMP", most) for most in (4_096, 16_384)),
    *(Limit("NOFILE", most) for most in (*range(8, 24, 2), 28, 32)),
    *(Limit("AS", most << 20) for most in (1, 8, 32, 64, 128, 192, 256, 512)),
)
"""Limits of file size, TMPDIR, open files and memory, from almost nothing to just enough."""
TURNS = 12
SETTINGS_CHANGE_IN = (SCENARIOS[0], SCENARIOS[2], SCENARIOS[4])
_QUEUE = 3
CHANGES = tuple(name for name in SETTINGS if name not in ("", "passthrough"))


def everything(probe: Callable[[Scenario], tuple[Sequence[str], int]], *, may_mount: bool) -> list[Walk]:
    """Return all walks except random ones, expensive and cheap ones mixed; the same on each call.

    Args:
        probe: Returns the points and the number of requests of the run that a scenario interrupts.
        may_mount: Whether runs may mount a small disk.
    """
    walks = [*reloads()]
    for scenario in (*SCENARIOS, *SHARDED, MANY_SEGMENTS):
        points, requests = probe(scenario)
        walks += kills(scenario, points)
        if scenario == MANY_SEGMENTS:
            continue
        walks += sleepers(scenario, points)
        walks += answers(scenario, requests, turns=TURNS)
        if SETUPS[scenario.setup].queue:
            walks += lost_visibility(scenario, requests)
        if scenario in SETTINGS_CHANGE_IN:
            walks += changed_settings(scenario, points)
        if scenario.setup == "a large object":
            walks += limited(scenario, may_mount=may_mount)
    random.Random(0).shuffle(walks)
    return walks


def few(probe: Callable[[Scenario], tuple[Sequence[str], int]]) -> list[Walk]:
    """Return one walk for each scenario, of alternating kinds: the sample of `make test-all`."""
    walks, chance = list(islice(reloads(), 1)), random.Random(5)
    walks += [walk for walk in limited(SCENARIOS[2], may_mount=False) if walk.kind == "limit FSIZE"]
    kinds = cycle(("kills", "sleepers", "answers", "kills", "changed_settings", "kills"))
    for number, scenario in enumerate((*SCENARIOS, *SHARDED, MANY_SEGMENTS)):
        points, requests = probe(scenario)
        match next(kinds):
            case "sleepers":
                some = sleepers(scenario, points)
            case "answers":
                some = answers(scenario, requests, turns=1)
            case "changed_settings" if not SETUPS[scenario.setup].catalog:
                some = changed_settings(scenario, points)
            case _:
                some = kills(scenario, points)
        walks.append(chance.choice(list(some)))
        if number == _QUEUE:
            walks.append(chance.choice(list(lost_visibility(scenario, requests))))
    return walks


def kills(scenario: Scenario, points: Sequence[str]) -> Iterator[Walk]:
    """Return walks with SIGKILL before and after every point, and SIGTERM at some points.

    SIGKILL before a point is followed by a run from the last STATE and by one without STATE.
    """
    tails = (cycle(scenario.tails[0::2]), cycle(scenario.tails[1::2]))
    for nth, point in enumerate(points, 1):
        for when in ("before", "middle", "after") if point == "write" else ("before", "after"):
            for tail in tails if when == "before" else tails[nth % 2 : nth % 2 + 1]:
                yield _broken(scenario, "SIGKILL", Break(nth, when), f"{when} {point} {nth}", next(tail))
        if nth % 2:
            fault = Break(nth, ("before", "after")[nth // 2 % 2], signal.SIGTERM)
            yield _broken(scenario, "SIGTERM", fault, f"{fault.when} {point} {nth}", next(tails[nth // 2 % 2]))


def changed_settings(scenario: Scenario, points: Sequence[str]) -> Iterator[Walk]:
    """Return walks with SIGKILL at every point, followed by runs with other settings."""
    settings = cycle(CHANGES)
    for nth, point in enumerate(points, 1):
        other, another = islice(settings, 2)
        tail = (Run(settings=other), LATE, Run(state=bool(nth % 2), settings=another), Run(), FRESH)
        name = f"{point} {nth}, then {other} and {another}"
        yield _broken(scenario, "SIGKILL, settings changed", Break(nth), name, tail)


def sleepers(scenario: Scenario, points: Sequence[str]) -> Iterator[Walk]:
    """Return walks in which a run stops before or after every point and continues after other steps."""
    others = cycle(enumerate(scenario.others))
    for nth, point in enumerate(points, 1):
        number, meanwhile = next(others)
        when = ("before", "after")[nth // len(scenario.others) % 2]
        wake = (Wake(keeps=nth % 3 > 0), Run(), *((FRESH,) if nth % 2 else ()))
        fault = Break(nth, when, signal.SIGSTOP)
        yield _broken(scenario, "asleep", fault, f"{when} {point} {nth}, others {number}", (*meanwhile, *wake))


def answers(scenario: Scenario, requests: int, *, turns: int) -> Iterator[Walk]:
    """Return walks with a fault at every third request, or with a service that is down from some request on."""
    tails, every = cycle(scenario.tails), (*HTTP, *WRONG)
    for turn in range(turns):
        kinds = every[turn % len(every) :] + every[: turn % len(every)]
        for first in range(3):
            name = f"at every third request from {first} on, turn {turn}"
            yield _broken(scenario, "wrong answers", Faults(first, 3, kinds), name, next(tails))
    for first in range(0, requests, 2):
        kind = GONE[first // 2 % len(GONE)]
        fault = Faults(first, 1, (kind,), lasting=True)
        yield _broken(scenario, "service gone", fault, f"from request {first} on, {kind}", next(tails))


def lost_visibility(scenario: Scenario, requests: int) -> Iterator[Walk]:
    """Return walks in which all queue messages become visible again at every request."""
    tails = cycle(TAILS)
    for first in range(requests):
        fault = Faults(first, requests, ("visibility lost",))
        yield _broken(scenario, "visibility lost", fault, f"at request {first}", next(tails))


def limited(scenario: Scenario, *, may_mount: bool) -> Iterator[Walk]:
    """Return walks with limited resources."""
    tails = cycle(TAILS)
    for limit in LIMITS:
        if limit.name == "TMP" and not may_mount:
            continue
        yield _broken(scenario, f"limit {limit.name}", limit, str(limit.most), next(tails))


def reloads() -> Iterator[Walk]:
    """Return walks in which a table is emptied and reloaded with other settings, by runs that may be killed."""
    for number, settings in enumerate(CHANGES):
        fresh = replace(FRESH, settings=settings)
        steps = (*FIRST, Run(), Empty(), replace(fresh, fault=Break(8 + 3 * number)), Empty(), fresh, FRESH)
        yield Walk("SIGKILL, settings changed", f"table emptied, then {settings}", "several segments", steps)


def _broken(scenario: Scenario, kind: str, fault: Break | Faults | Limit, name: str, tail: tuple[Step, ...]) -> Walk:
    run = replace(scenario.run, fault=fault)
    steps = (*scenario.before, run, *tail)
    return Walk(kind, f"tap, {scenario.setup}, {scenario.name}: {kind}, {name}; {_words(tail)}", scenario.setup, steps)


def _words(steps: Sequence[Step]) -> str:
    """Return a short description of the steps."""
    words = {LATE: "late", LATER: "later", AGAIN: "again"}
    return ", ".join(_run_words(s) if isinstance(s, Run) else words.get(s, type(s).__name__.lower()) for s in steps)


def _run_words(run: Run) -> str:
    what = "plan" if run.plans else f"shard {run.shard}" if run.shard else "run"
    return f"{what}{'' if run.state else ' without STATE'}"
