"""Catalogue of target cases: load variants, kill steps and service faults. Pure.

To add a load variant, add a line to `LOADS`; to add a step, a line to `STEPS`; to add a fault, an entry to one of the
dicts.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

RuleDict = Mapping[str, Any]
APPEND, UPSERT, OVERWRITE = METHODS = ("append-only", "upsert", "overwrite")
BATCH, RECORD = FORMS = ("BATCH", "RECORD")
SHARED = (APPEND, BATCH)
"""Method and form of loads that shards may do."""
BIGQUERY, REDSHIFT = TARGETS = ("bigquery", "redshift")
STREAMED, GCS_STAGE = "storage_write", "gcs_stage"
SERVICES = {"bigquery": "BigQuery", "redshift": "Redshift", "s3": "S3", "gcs": "Google Cloud Storage"}


@dataclass(frozen=True)
class Load:
    """A load variant.

    Attributes:
        target: `bigquery` or `redshift`.
        method: The setting `load_method`.
        form: Whether rows come in BATCH files on S3 or as RECORD messages.
        settings: Further settings.
        via: A one-word name of what the settings select.
    """

    target: str
    method: str
    form: str
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    via: str = ""

    @property
    def name(self) -> str:
        """The display name."""
        return " ".join(filter(None, (self.target, self.method, self.form, self.via)))

    @property
    def services(self) -> tuple[str, ...]:
        """The services that a run sends requests to."""
        s3 = ("s3",) if self.target == REDSHIFT or self.form == BATCH else ()
        return (self.target, *s3, *(("gcs",) if self.via == GCS_STAGE else ()))


LOADS = (
    *(Load(target, method, form) for target in TARGETS for method in METHODS for form in FORMS),
    *(Load(BIGQUERY, m, BATCH, {GCS_STAGE: "gs://stage/faults"}, GCS_STAGE) for m in (APPEND, UPSERT)),
    # one line for each load variant
    *(Load(BIGQUERY, method, BATCH, {"load_via": STREAMED}, STREAMED) for method in (APPEND, UPSERT)),
)


@dataclass(frozen=True)
class Step:
    """A step of a run at which it can be killed.

    Attributes:
        name: The display name.
        at: `module:name` of a function that the run calls; `stdout` is the writing of a STATE.
        when: `before` or `after` the call; `middle` when half a STATE is written.
        match: Regular expression that one of the text arguments must match.
        once: Whether the step occurs once in a run, not once for each load.
        target, methods, forms: Where the step occurs; empty: everywhere.
    """

    name: str
    at: str
    when: Literal["before", "middle", "after"]
    match: str = ""
    once: bool = False
    target: str = ""
    methods: tuple[str, ...] = METHODS
    forms: tuple[str, ...] = FORMS
    via: str | None = None

    def comes_in(self, load: Load) -> bool:
        """Whether the step occurs in runs of this load variant."""
        return (
            self.target in ("", load.target)
            and load.method in self.methods
            and load.form in self.forms
            and self.via in (None, load.via)
        )


_EMIT = "singer_arrow.load.run:StateOutput.write"
_ENTER = "target_bigquery.ledger:StreamLedger.enter"
_REMOVE = "singer_arrow.load.staging:Remover.remove"
_LOAD, _QUERY, _COPY = (
    "target_bigquery.client:BigQuery.load",
    "target_bigquery.client:BigQuery.query",
    "target_bigquery.client:BigQuery.copy",
)
_WRITES, _CLAIM = "target_bigquery.storage_write.client:WriteApi", "target_bigquery.client:BigQuery.claim"
_STAGING = "target_bigquery.tables:create_staging_table"
_STAGE = "target_redshift.uploads:S3StagingFolder"
_EXECUTE = "target_redshift.connection:Session.execute"
_SWAP = "target_redshift.load:OverwriteStaging.replace"
_DELETED = "^DELETE FROM (?!.*_sdc_batches)"
STEPS = (
    Step("rows ready", "singer_arrow.load.method:LoadMethod.prepare", "after"),
    Step("before STATE", _EMIT, "before", once=True),
    Step("while STATE is written", "stdout", "middle", once=True),
    Step("after STATE", _EMIT, "after", once=True),
    Step("ledger entry made", "target_bigquery.ledger:StreamLedger.begin", "after", target=BIGQUERY, methods=(APPEND,)),
    Step("entries made", _ENTER, "after", target=BIGQUERY, methods=(UPSERT,)),
    Step("entries of swap made", _ENTER, "after", target=BIGQUERY, methods=(OVERWRITE,), once=True),
    Step("staging table made", _STAGING, "after", target=BIGQUERY, methods=(UPSERT, OVERWRITE), once=True),
    Step("before job insert", _LOAD, "before", target=BIGQUERY, via=""),
    Step("after job insert", "google.cloud.bigquery:Client.load_table_from_file", "after", target=BIGQUERY, via=""),
    Step("after load job", _LOAD, "after", target=BIGQUERY, via=""),
    Step("before rows are sent", f"{_WRITES}.append", "before", target=BIGQUERY, via=STREAMED),
    Step("before write stream ends", f"{_WRITES}.finalize", "before", target=BIGQUERY, via=STREAMED),
    Step("after write stream is claimed", _CLAIM, "after", target=BIGQUERY, methods=(APPEND,), via=STREAMED),
    Step("after write stream is committed", f"{_WRITES}.commit", "after", target=BIGQUERY, via=STREAMED),
    Step("file staged", "singer_arrow.load.staging:StagingFolder.put", "after", target=BIGQUERY, via=GCS_STAGE),
    Step("before insert", _LOAD, "before", target=BIGQUERY, via=GCS_STAGE),
    Step("after insert", "google.cloud.bigquery:Client.load_table_from_uri", "after", target=BIGQUERY, via=GCS_STAGE),
    Step("after load", _LOAD, "after", target=BIGQUERY, via=GCS_STAGE),
    Step("before removal", _REMOVE, "before", target=BIGQUERY, via=GCS_STAGE),
    Step("after removal", "singer_arrow.load.staging:remove", "after", target=BIGQUERY, via=GCS_STAGE, once=True),
    Step("before MERGE", _QUERY, "before", match="^MERGE", target=BIGQUERY, methods=(UPSERT,)),
    Step("after MERGE", _QUERY, "after", match="^MERGE", target=BIGQUERY, methods=(UPSERT,)),
    Step("before swap", _COPY, "before", target=BIGQUERY, methods=(OVERWRITE,), once=True),
    Step("after swap", _COPY, "after", target=BIGQUERY, methods=(OVERWRITE,), once=True),
    Step("after upload", f"{_STAGE}.upload", "after", target=REDSHIFT, forms=(RECORD,)),
    Step("before removal", _REMOVE, "before", target=REDSHIFT),
    Step("after manifest", f"{_STAGE}.put_manifest", "after", target=REDSHIFT),
    Step("after COPY", _EXECUTE, "after", match="^COPY", target=REDSHIFT),
    Step("ledger locked", _EXECUTE, "after", match="^LOCK", target=REDSHIFT),
    Step("before commit", _EXECUTE, "before", match="^COMMIT", target=REDSHIFT),
    Step("after commit", _EXECUTE, "after", match="^COMMIT", target=REDSHIFT),
    Step("within swap", _EXECUTE, "after", match=_DELETED, target=REDSHIFT, methods=(OVERWRITE,), once=True),
    Step("before swap", _SWAP, "before", target=REDSHIFT, methods=(OVERWRITE,), once=True),
    Step("after swap", _SWAP, "after", target=REDSHIFT, methods=(OVERWRITE,), once=True),
)

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

HTTP: dict[str, RuleDict] = {
    "503": {"action": "error", "status": 503},
    "reset": {"action": "reset"},
    "answer lost": {"action": "reset", "forward": True},
    "truncated": {"action": "truncate", "keep": 0.5},
    "stalled": {"action": "stall", "keep": 0.5, "stall_s": 60},
    "timed out": {"action": "hang", "forward": True, "stall_s": 60},
}
"""Faults of HTTP services; see `local_cloud.faults.rules.Rule`."""
_CANCELLED = {"code": "57014", "message": "canceling statement due to statement timeout"}
FAULTS: dict[str, dict[str, RuleDict]] = {
    "bigquery": {name: {**rule, "code": "backendError"} for name, rule in HTTP.items()},
    "s3": HTTP,
    "gcs": HTTP,
    "redshift": {
        "503": {"action": "error"},  # 1023, the serialization error, is the answer of a busy server
        "reset": {"action": "kill", "at": "before"},
        "truncated": {"action": "kill", "at": "middle"},
        "answer lost": {"action": "kill", "at": "after"},
        "stalled": {"action": "none", "delay_s": 0.2},
        "timed out": {"action": "error", **_CANCELLED},
    },
}
"""Faults by service and name; for Redshift see `local_cloud.redshift.faults.Rule`."""
OUTAGES = ("503", "reset", "answer lost")
_MOST_REQUESTS = 200


@dataclass(frozen=True)
class Kill:
    """A signal at the nth occurrence of a step, or after some seconds if there is no step."""

    step: Step | None
    signal: signal.Signals
    nth: int = 1
    after_s: float = 0.0


class Named(Protocol):
    """Common interface of cases: name, line in the totals, and the program that is interrupted."""

    @property
    def name(self) -> str:
        """The display name."""

    @property
    def way(self) -> str:
        """The line of the totals that counts the case."""

    @property
    def victim(self) -> str:
        """The executable that is interrupted."""


@dataclass(frozen=True)
class Case:
    """A run with faults, followed by a second run.

    Attributes:
        load: The load variant.
        name: The display name.
        from_state: Whether the second run starts from the last STATE that was written, or without STATE.
        kill: How the first run is killed, if it is.
        rules: The fault rules, by service and by name of the fault, in order.
        lasting: Whether the faults last until the run ends; this counts as one fault.
        beside: Batches that another run loads into the table at the same time; the runs with faults send the rest.
    """

    load: Load
    name: str
    from_state: bool = True
    kill: Kill | None = None
    rules: Mapping[str, Sequence[tuple[str, RuleDict]]] = field(default_factory=dict, compare=False)
    lasting: bool = False
    beside: tuple[int, ...] = ()

    @property
    def way(self) -> str:
        """The line of the totals that counts the case."""
        return f"{self.load.name}, shards" if self.beside else self.load.name

    @property
    def victim(self) -> str:
        """The executable that is interrupted."""
        return f"target-{self.load.target}"


def kills(load: Load) -> Iterator[Case]:
    """Return cases with every signal at every step; if a step repeats, at its first three occurrences."""
    for number, step in enumerate(step for step in STEPS if step.comes_in(load)):
        for turn, sent in enumerate(SIGNALS):
            nth = 1 if step.once else 1 + (number + turn) % 3
            yield _kill(load, Kill(step, sent, nth), from_state=(number + turn) % 2 == 0)


def shards(load: Load) -> Iterator[Case]:
    """Return cases with SIGKILL at every step of a shard while another one loads the table."""
    for number, step in enumerate(step for step in STEPS if step.comes_in(load)):
        killed = _kill(load, Kill(step, signal.SIGKILL), from_state=number % 2 == 0)
        yield replace(killed, name=f"{load.name}, shards: {step.name}", beside=(1,))


def blips(load: Load, *, stride: int, turns: int) -> Iterator[Case]:
    """Return cases with a fault at every nth request, of alternating kinds, S3 included."""
    for turn in range(turns):
        for first in range(stride):
            of = 2 * LOADS.index(load) + turn
            rules = {
                service: _sparse(service, first, stride if service == load.target else 3, of)
                for service in load.services
            }
            where = f"faults at every {stride}th request from {first} on, the {turn + 1}. time"
            yield Case(load, f"{load.name}: {where}", _keeps_state(load, turn + first), rules=rules)


def _sparse(service: str, first: int, stride: int, turn: int) -> list[tuple[str, RuleDict]]:
    kinds = list(FAULTS[service])
    found = []
    for number, skip in enumerate(range(first % stride, _MOST_REQUESTS, stride)):
        kind = kinds[(number + turn) % len(kinds)]
        found.append((kind, {"match": "", **FAULTS[service][kind], "skip": skip, "times": 1}))
    return found


def outages(load: Load, service: str, *, places: Sequence[int]) -> Iterator[Case]:
    """Return cases in which a service is down from some request on."""
    for number, skip in enumerate(places):
        kind = OUTAGES[(number + LOADS.index(load)) % len(OUTAGES)]
        rule = {"match": "", **FAULTS[service][kind], "skip": skip}
        name = f"{load.name}: {service} gone from request {skip} on, {kind}"
        yield Case(load, name, _keeps_state(load, number), rules={service: [("gone", rule)]}, lasting=True)


def everything() -> list[Case]:
    """Return all cases, expensive and cheap ones mixed; the same order on each call."""
    cases = [case for load in LOADS for case in _of(load)]
    random.Random(0).shuffle(cases)
    return cases


def _of(load: Load) -> Iterator[Case]:
    yield from kills(load)
    if (load.method, load.form) == SHARED:
        yield from shards(load)
    yield from _blips(load)
    for service in load.services:
        yield from outages(load, service, places=(0, 2) if service in ("s3", "gcs") else (0, 4, 9, 15, 22))


def _blips(load: Load) -> Iterator[Case]:
    """Return cases with faults, at fewer requests for Redshift.

    Redshift loads a group with a dozen statements in one session, and starts again when one fails.
    """
    return blips(load, stride=16, turns=1) if load.target == REDSHIFT else blips(load, stride=4, turns=3)


def few() -> list[Case]:
    """Return one case for each load variant, for a fast suite."""
    chance, cases = random.Random(5), []
    tried = [load for load in LOADS if load.via != STREAMED]  # test_storage_write_once.py has the others
    for number, load in enumerate(tried):
        deadly = [case for case in kills(load) if case.kill and case.kill.signal == signal.SIGKILL]
        cases.append(chance.choice(deadly if number % 2 else list(_blips(load))))
    return [*cases, *(chance.choice(list(shards(load))) for load in tried if (load.method, load.form) == SHARED)]


def chosen(chance: random.Random) -> Case:
    """Return a random case, possibly one that is not in the catalogue."""
    load = chance.choice(LOADS)
    if chance.random() < 0.5:
        steps = [step for step in STEPS if step.comes_in(load)]
        step = chance.choice([None, *steps])
        nth = 1 if step is None or step.once else chance.randint(1, 3)
        sent = chance.choice(SIGNALS) if step else signal.SIGKILL  # needs no handler, so it can come at any time
        kill = Kill(step, sent, nth, round(chance.uniform(0.0, 1.5), 3))
        return _kill(load, kill, from_state=chance.random() < 0.5)
    rules = {}
    for service in load.services:
        skips = sorted(chance.sample(range(60), chance.randint(1, 8)))
        kinds = [chance.choice(list(FAULTS[service])) for _ in skips]
        rules[service] = [
            (kind, {"match": "", **FAULTS[service][kind], "skip": skip, "times": 1})
            for skip, kind in zip(skips, kinds, strict=True)
        ]
    faults = [f"{service} {kind} at {rule['skip']}" for service, listed in rules.items() for kind, rule in listed]
    return Case(load, f"{load.name}: {', '.join(faults)}", _keeps_state(load, chance.randint(0, 1)), rules=rules)


def _kill(load: Load, kill: Kill, *, from_state: bool) -> Case:
    where = f"{kill.step.name}, time {kill.nth}" if kill.step else f"after {kill.after_s} s"
    return Case(load, f"{load.name}: {kill.signal.name}, {where}", _keeps_state(load, int(not from_state)), kill=kill)


def _keeps_state(load: Load, number: int) -> bool:
    """Whether the second run of a random case keeps its STATE.

    Every other run after a fault has lost it, except with RECORD messages: they are delivered at least once after it.
    """
    return number % 2 == 0 or (load.method, load.form) == (APPEND, RECORD)
