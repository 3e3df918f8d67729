"""Random walks: three to six runs of the tap, killed, stopped, or with other settings. Pure."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Sequence

from fault_suite.small_s3 import Faults
from fault_suite.tap_catalogue import CHANGES, FRESH, HTTP, LARGE, WRONG, Walk
from fault_suite.tap_steps import Break, Objects, Run, Step, Wake, keys

MOST_RUNS, MOST_POINTS, MOST_LATE_S = 6, 45, 300
_SETUPS = ("several segments", "one segment", "a large object", "a queue")
_LETTERS = "abcdefghijkmnopqrstuvwxyz"


def walk(seed: int) -> Walk:
    """Return the walk of a seed; the same on each call."""
    chance = random.Random(seed)
    setup = chance.choice(_SETUPS)
    passes = setup == "a large object" and chance.random() < 0.5
    steps = tuple(_steps(chance, passes=passes, has_large=setup == "a large object"))
    return Walk("walk", f"tap, {setup}: walk {seed}: {_words(steps)}", setup, steps)


def _steps(chance: random.Random, *, passes: bool, has_large: bool) -> Iterator[Step]:
    free = list(_LETTERS)
    chance.shuffle(free)
    taken: list[str] = []
    if has_large:
        yield LARGE
    yield from _objects(chance, free, taken, overwrites=False)
    if not (taken or has_large):  # a stream without any object is an error
        taken.append(free.pop())
        yield Objects(keys(taken[0]))
    is_asleep = False
    for _ in range(chance.randint(3, MOST_RUNS)):
        yield from _objects(chance, free, taken, overwrites=not passes)
        run = _run(chance, passes=passes, may_sleep=not is_asleep)
        yield run
        if is_asleep and chance.random() < 0.6:
            yield Wake(keeps=chance.random() < 0.6)
            is_asleep = False
        is_asleep = is_asleep or (isinstance(run.fault, Break) and run.fault.signal == signal.SIGSTOP)
    if is_asleep:
        yield Run()
        yield Wake(keeps=chance.random() < 0.6)
    yield Run()
    if chance.random() < 0.5:
        yield FRESH


def _objects(chance: random.Random, free: list[str], taken: list[str], *, overwrites: bool) -> Iterator[Objects]:
    for _ in range(chance.choice((0, 1, 1, 2))):
        new = [free.pop() for _ in range(min(len(free), chance.randint(1, 3)))]
        if new:
            at = chance.choice((1, 1, 0, -chance.randint(1, MOST_LATE_S)))
            yield Objects(keys("".join(new)), at=at, is_bad=chance.random() < 0.15)
            taken += new
    if overwrites and taken and chance.random() < 0.25:
        yield Objects(keys(chance.choice(taken)))


def _run(chance: random.Random, *, passes: bool, may_sleep: bool) -> Run:
    settings = chance.choice(CHANGES) if chance.random() < 0.35 else ""
    if passes and chance.random() < 0.4:
        settings = "passthrough"
    nth, when = chance.randint(1, MOST_POINTS), chance.choice(("before", "middle", "after"))
    faults = [
        *[Break(nth, when, signal.SIGKILL)] * 8,
        *[Break(nth, when, signal.SIGTERM)] * 2,
        *[Break(nth, when, signal.SIGSTOP)] * (4 if may_sleep else 0),
        *[Faults(chance.randint(0, 6), chance.randint(3, 6), _mixed(chance))] * 4,
        None,
    ]
    fault = chance.choice(faults)
    most = chance.randint(1, 10) if fault is None or chance.random() < 0.15 else None
    return Run(state=chance.random() < 0.65, fault=fault, settings=settings, most=most)


def _mixed(chance: random.Random) -> tuple[str, ...]:
    kinds = [*HTTP, *WRONG]
    chance.shuffle(kinds)
    return tuple(kinds)


def _words(steps: Sequence[Step]) -> str:
    """Return a short description of the steps."""
    found = []
    for step in steps:
        match step:
            case Objects():
                found.append(f"{''.join(key[3:4] for key in step.keys)}{step.at:+}{'!' if step.is_bad else ''}")
            case Run(fault=Break() as fault):
                found.append(f"{fault.signal.name} {fault.when} {fault.nth}{_more(step)}")
            case Run(fault=Faults()):
                found.append(f"faults{_more(step)}")
            case Run():
                found.append(f"run{_more(step)}")
            case Wake():
                found.append("woken")
    return ", ".join(found)


def _more(run: Run) -> str:
    words = [*([] if run.state else ["no STATE"]), *([run.settings] if run.settings else [])]
    words += [f"target killed after {run.most} lines"] if run.most is not None else []
    return f" ({', '.join(words)})" if words else ""
