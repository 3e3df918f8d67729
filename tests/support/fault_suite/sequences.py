"""Sequences of changes that a user makes between runs: settings, roots, files, tables, logs and STATEs.

After each run the table is what its load method promises, or the run ended with one line and the table is as before. A
change that a run refuses is undone then, and the next run must be right again.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from forked_programs import ForkedPrograms
from tap_source import TapBucket
from warehouses import WAREHOUSES, Warehouse

from fault_suite.site import Outcome
from fault_suite.source import Comparison
from local_cloud import Cloud
from local_cloud.programs import Ran

Rows = Counter[tuple[int, str]]
APPEND, UPSERT, OVERWRITE = METHODS = ("append-only", "upsert", "overwrite")
STATES = ("kept", "dropped", "older")
START = datetime(2024, 5, 1, 10, tzinfo=UTC)
ROWS = 4
"""Rows of an object."""


@dataclass(frozen=True)
class Sequence:
    """Two days, then changes, each with what becomes of the STATE, then a day more for each.

    Attributes:
        service: bigquery or redshift.
        method: The load method; `overwrite` is with FULL_TABLE.
        changes: Names of functions of `CHANGES`, each with one of `STATES`.
    """

    service: str
    method: str
    changes: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The display name."""
        return f"sequence, {self.way.removeprefix('sequence, ')}: " + ", ".join(
            f"{change} (STATE {state})" for change, state in self.changes
        )

    @property
    def way(self) -> str:
        """The line of the totals that counts the case."""
        return f"sequence, {self.service}, {self.method}"

    victim = "a user's change"


@dataclass(frozen=True)
class Version:
    """An object as it is now: its content, and when it was last changed."""

    content: str
    ids: range
    at: datetime

    @property
    def rows(self) -> Rows:
        return Rows((n, self.content) for n in self.ids)

    @property
    def text(self) -> str:
        return "".join(f'{{"id": {n}, "v": "{self.content}"}}\n' for n in self.ids)


@dataclass
class World:
    """A bucket, a pipeline over it, and what its table must hold."""

    sequence: Sequence
    source: TapBucket
    run: ForkedPrograms
    warehouse: Warehouse
    objects: dict[str, Version] = field(default_factory=dict)
    loaded: dict[str, Version] = field(default_factory=dict)
    """Of each object, the version that a run has read last."""
    table: Rows = field(default_factory=Rows)
    """What append-only has loaded."""
    versions: list[tuple[datetime, str, Version]] = field(default_factory=list)
    """What upsert has loaded."""
    states: list[Any] = field(default_factory=list)
    root: str = "stage"
    plan_root: str = ""
    prefix: str = field(default_factory=lambda: f"sequences/{uuid.uuid4().hex[:10]}")
    more: dict[str, Any] = field(default_factory=dict)
    stream: dict[str, Any] = field(default_factory=dict)
    place: str = "in/{}.jsonl"
    """Of an object, by its name."""
    undo: Callable[[], None] | None = None
    now: int = 0
    problems: list[str] = field(default_factory=list)
    log: str = ""

    def put(self, name: str, version: Version) -> None:
        """Write an object."""
        self.objects[name] = version
        self.source.put(f"{self.prefix}/{self.place.format(name)}", version.text, at=version.at)

    def url(self, name: str) -> str:
        return f"s3://{self.source.bucket}/{self.prefix}/{self.place.format(name)}"

    def delete(self, name: str) -> None:
        """Delete an object."""
        del self.objects[name]
        self.source.s3.delete_object(Bucket=self.source.bucket, Key=f"{self.prefix}/{self.place.format(name)}")

    def new(self, seconds: int = 0) -> Version:
        """Return a version with new rows; `seconds`: how late it comes."""
        self.now += 1
        return Version(f"v{self.now}", range(10 * self.now, 10 * self.now + ROWS), self.moment(seconds))

    def moment(self, seconds: int = 0) -> datetime:
        return START + timedelta(minutes=self.now, seconds=-seconds)

    # The log, as a user sees it

    def files(self, below: str = "_plans/rows/") -> dict[str, bytes]:
        """Return the files of the plan log below the root that holds it, by key."""
        prefix = f"{self.prefix}/{self.plan_root or self.root}/{below}"
        found = self.source.s3.list_objects_v2(Bucket=self.source.bucket, Prefix=prefix).get("Contents", [])
        return {o["Key"]: self.get(o["Key"]) for o in found}

    def get(self, key: str) -> bytes:
        body: bytes = self.source.s3.get_object(Bucket=self.source.bucket, Key=key)["Body"].read()
        return body

    def set_files(self, files: dict[str, bytes]) -> None:
        """Make the plan log hold these files alone."""
        for key in self.files().keys() - files.keys():
            self.source.s3.delete_object(Bucket=self.source.bucket, Key=key)
        for key, data in files.items():
            self.source.s3.put_object(Bucket=self.source.bucket, Key=key, Body=data)

    def remove(self, *wanted: int) -> None:
        """Remove files of the plan log by their places in the order of names; undo brings them back.

        A run of all objects (FULL_TABLE) keeps none.
        """
        before = self.files()
        names = sorted(before)
        gone = {names[n] for n in wanted if names} if wanted else set(names)
        self.set_files({key: data for key, data in before.items() if key not in gone})
        self.undo = lambda: self.set_files(before)

    # Runs

    def config(self) -> dict[str, Any]:
        base = f"s3://{self.source.bucket}/{self.prefix}"
        stream = {
            "name": "rows",
            "path": self.url("*"),
            "schema": {"id": "integer", "v": "string"},
            "key_properties": ["id"] if self.sequence.method == UPSERT else [],
            **({"replication_method": "FULL_TABLE"} if self.sequence.method == OVERWRITE else {}),
            **self.stream,
        }
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"{base}/{self.root}"}}
        plans = {"plan_root": f"{base}/{self.plan_root}"} if self.plan_root else {}
        found = {"streams": [stream], "batch_config": batches, **plans, **self.more}
        return {name: value for name, value in found.items() if value is not None}

    def tap(self, *arguments: str, state: Any = None) -> Ran:
        given = {"state": state} if state is not None else {}
        return self.run("tap-s3-files", *arguments, config=self.config(), **given)

    def pipe(self, state: Any, cut: int | None = None, **settings: Any) -> bool:
        """Run tap and target once; check the table; return whether both ended well.

        Args:
            state: For the tap.
            cut: The target reads so many lines alone, and is killed then, as the tap is.
            settings: Of the target.
        """
        tap = self.tap(state=state)
        lines = tap.stdout.splitlines(keepends=True)
        text = "".join(lines if cut is None else lines[:cut])
        settings = {**self.warehouse.config, "load_method": self.sequence.method, **settings}
        before = self.rows()
        target = self.run(self.warehouse.program, config=settings, stdin=text)
        self.log += f"--- tap {tap.code}, target {target.code}\n{tap.stderr[-3000:]}{target.stderr[-3000:]}"
        errors = [line for ran in (tap, target) for line in ran.stderr.splitlines() if "| ERROR" in line]
        codes = (tap.code, target.code)
        if "Traceback" in tap.stderr + target.stderr:
            self.problems.append("a traceback")
        if codes != (0, 0):
            if len(errors) != 1:
                self.problems.append(f"exit codes {codes} with {len(errors)} lines of error")
            if self.rows() != before:
                self.problems.append(f"a refused run changed the table: {self.difference(before)}")
            return False
        if cut is None:
            self.states += [json.loads(line) for line in target.stdout.splitlines()][-1:]
            self.read_all()
            self.check()
        return True

    def read_all(self) -> None:
        """Note that a run has read what is new."""
        for name, version in sorted(self.objects.items(), key=lambda item: (item[1].at, item[0])):
            last = self.loaded.get(name)
            if last is None or last.content != version.content:
                self.table += version.rows
            self.versions.append((version.at, name, version))
        self.loaded = dict(self.objects)

    def expected(self) -> Rows:
        if self.sequence.method == APPEND:
            return self.table
        if self.sequence.method == OVERWRITE:
            return sum((v.rows for v in self.objects.values()), Rows())
        found: dict[int, str] = {}
        for _, _, version in sorted(self.versions, key=lambda item: item[:2]):
            found |= dict.fromkeys(version.ids, version.content)
        return Rows(found.items())

    def rows(self) -> Rows:
        """Return what is in the table."""
        if not self.log or "rows" not in self.warehouse.tables():
            return Rows()
        return Rows((row["id"], row["v"]) for row in self.warehouse.query("SELECT id, v FROM {rows}"))

    def difference(self, expected: Rows) -> str:
        there = self.rows()
        return f"lost {sorted((expected - there).elements())}, too many {sorted((there - expected).elements())}"

    def check(self) -> None:
        if self.rows() != self.expected() and "its table is empty, and the tap sends only what is new" not in self.log:
            self.problems.append(f"the table is wrong without a word: {self.difference(self.expected())}")

    def empty(self, statement: str) -> None:
        """Remove all rows of the table, and expect what a run without STATE brings."""
        self.warehouse.query(statement)
        self.table, self.versions, self.loaded = Rows(), [], {}

    def state(self, choice: str) -> Any:
        return {"kept": self.states[-1], "older": self.states[0], "dropped": None}[choice]


def _set(world: World, **values: Any) -> None:
    """Set attributes of a world; undo brings the former ones back."""
    former = {name: getattr(world, name) for name in values}

    def undo() -> None:
        for name, value in former.items():
            setattr(world, name, value)

    for name, value in values.items():
        setattr(world, name, value)
    world.undo = undo


def nothing(_: World) -> None:
    pass


def root_changed(world: World) -> None:
    _set(world, root="stage-2")


def plan_root_set(world: World) -> None:
    _set(world, plan_root="plans")


def log_removed(world: World) -> None:
    world.remove()


def beginning_removed(world: World) -> None:
    world.remove(0)


def identity_removed(world: World) -> None:
    world.remove(-1)


def end_removed(world: World) -> None:
    world.remove(-2)


def log_of_another_stream(world: World) -> None:
    before = world.files()
    other = {
        key: data.replace(b'"rows"', b'"other"') if key.endswith("000001.json") else data
        for key, data in before.items()
    }
    world.set_files(other)
    world.undo = lambda: world.set_files(before)


def refresh_killed(world: World) -> None:
    """Remove the log; a run without STATE plans everything, and is killed before the target has it."""
    before = world.files()
    world.set_files({})
    world.tap()
    world.undo = lambda: world.set_files(before)


def log_anew_from_state(world: World) -> None:
    world.tap("--new-plan-log", state=world.states[-1])


def table_and_log_anew(world: World) -> None:
    world.empty("DROP TABLE IF EXISTS {rows}")
    world.tap("--new-plan-log")
    world.states.append(None)


def cuts_removed(world: World) -> None:
    for key in world.files("_plans/rows.cuts/"):
        world.source.s3.delete_object(Bucket=world.source.bucket, Key=key)


def batch_files_removed(world: World) -> None:
    for key in world.files(""):
        if "/_plans/" not in key:
            world.source.s3.delete_object(Bucket=world.source.bucket, Key=key)


def overwritten(world: World) -> None:
    name = min(world.objects)
    world.now += 1
    world.put(name, Version(f"v{world.now}", world.objects[name].ids, world.moment()))


def overwritten_and_back(world: World) -> None:
    name = min(world.objects)
    old = world.objects[name]
    overwritten(world)
    if not world.pipe(world.states[-1]):
        world.problems.append("an ordinary run was refused")
    world.now += 1
    world.put(name, replace(old, at=world.moment()))


def written_again(world: World) -> None:
    name = min(world.objects)
    world.now += 20
    world.put(name, replace(world.objects[name], at=world.moment()))


def late(world: World) -> None:
    world.put("late", world.new(seconds=200))


def late_of_known_keys(world: World) -> None:
    """An older object with rows of a newer one comes late."""
    if world.sequence.method == UPSERT:
        newer = world.objects[min(world.objects)]
        world.put("late", Version("older", newer.ids, newer.at - timedelta(seconds=30)))


def source_deleted(world: World) -> None:
    world.delete(min(world.objects))


def cleaned_up(world: World) -> None:
    """Have what is loaded deleted; an object is replaced before that."""
    if world.sequence.method != OVERWRITE:
        world.stream["after_load"] = {"delete": True}
        world.put("1", world.new())
        world.pipe(world.states[-1])


def metadata_off(world: World) -> None:
    world.more["metadata_columns"] = not world.more.get("metadata_columns", True)


def smaller_files(world: World) -> None:
    world.more["max_workers"] = 1
    world.stream["columns"] = ["id", "v"]


def killed_target(world: World) -> None:
    world.put("killed", world.new())
    world.pipe(world.states[-1], cut=2)


def killed_after_rows(world: World) -> None:
    world.put("killed", world.new())
    before = len(world.states)
    world.pipe(world.states[-1])
    del world.states[before:]  # its STATE was lost


def dropped(world: World) -> None:
    world.empty("DROP TABLE {rows}")


def emptied(world: World) -> None:
    world.empty("TRUNCATE TABLE {rows}")


def dataset_changed_and_back(world: World) -> None:
    _load_elsewhere(world, default_target_schema=f"{world.warehouse.schema}_other")


def table_changed_and_back(world: World) -> None:
    _load_elsewhere(world, streams={"rows": {"table": "other"}})


def _load_elsewhere(world: World, **settings: Any) -> None:
    """Load a day into another table, with the same STATE; without one, and with FULL_TABLE, the next run has it too."""
    world.put("elsewhere", world.new())
    tap = world.tap(state=world.states[-1])
    method = {"load_method": world.sequence.method}
    target = world.run(world.warehouse.program, config=world.warehouse.config | method | settings, stdin=tap.stdout)
    world.log += target.stderr[-3000:]
    if (tap.code, target.code) != (0, 0):
        world.problems.append("a run into another table was refused")
    world.states += [json.loads(line) for line in target.stdout.splitlines()][-1:]


def moved(world: World) -> None:
    """Move the objects to another prefix, and have the path follow: they are other objects then."""
    objects = dict(world.objects)
    for name in objects:
        world.delete(name)
    world.now += 1
    world.place = f"moved-{world.now}/{{}}.jsonl"
    world.stream["path"] = world.url("*")
    for name, version in objects.items():
        world.put(name, replace(version, at=world.moment()))
    world.loaded = {}


def narrowed_and_back(world: World) -> None:
    """Read some of the new objects alone for a day; with FULL_TABLE the table would be these."""
    world.put("wide", world.new())
    world.put("narrow", world.new())
    if world.sequence.method != OVERWRITE:
        path = world.stream.get("path")
        world.stream["path"] = world.url("narrow*")
        _without(world, "wide")
        world.stream["path"] = path or world.url("*")


def planned_and_narrowed(world: World) -> None:
    """Have a run fail that has planned an object, and read others alone for a day."""
    world.put("planned", world.new())
    if world.sequence.method != OVERWRITE:
        world.tap(state=world.states[-1])
        world.put("narrow", world.new())
        path = world.stream.get("path")
        world.stream["path"] = world.url("narrow*")
        _without(world, "planned")
        world.stream["path"] = path or world.url("*")


def window_and_back(world: World) -> None:
    """Set an end of the window for a day, and remove it."""
    world.put("before", world.new())
    world.put("after", world.new())
    if world.sequence.method != OVERWRITE:
        world.more["end_date"] = world.moment(30).isoformat()
        _without(world, "after")
        world.more["end_date"] = None


def _without(world: World, name: str) -> None:
    """Run once, with settings by which an object is not read.

    A STATE with `left_out` refuses another path: planned objects were passed over by its own.
    """
    objects, world.objects = world.objects, {each: v for each, v in world.objects.items() if each != name}
    former = world.loaded.get(name)
    if not world.pipe(world.states[-1]) and '"left_out": []' in json.dumps(world.states[-1]):
        world.problems.append("an ordinary run was refused")
    world.objects = objects
    if former is not None:
        world.loaded[name] = former


def records_between(world: World, *, has_log: bool = True, **settings: Any) -> None:
    """Have a day come by RECORD messages, under the same plan log or none; with settings of the target."""
    world.put("records", world.new())
    root, more = world.plan_root or world.root, dict(world.more)
    world.more |= {"batch_config": None}
    if has_log:
        world.more |= {"plan_root": f"s3://{world.source.bucket}/{world.prefix}/{root}"}
    if not world.pipe(world.states[-1], **settings):
        world.problems.append("an ordinary run was refused")
    world.more = more


def upserted_between(world: World) -> None:
    """Have a day come by upsert."""
    if world.sequence.method == APPEND:
        world.put("upserted", world.new())
        world.stream["key_properties"] = ["id"]
        if not world.pipe(world.states[-1], load_method=UPSERT):
            world.problems.append("an ordinary run was refused")
        del world.stream["key_properties"]


def rebuilt(world: World) -> None:
    """Copy the table, drop it, and give the copy its name, as to change a key of distribution."""
    if world.warehouse.name == "bigquery":
        world.warehouse.query("CREATE OR REPLACE TABLE {rows} AS SELECT * FROM {rows}")
        return
    world.warehouse.query("CREATE TABLE {copied} AS SELECT * FROM {rows}")
    world.warehouse.query("DROP TABLE {rows}")
    world.warehouse.query("ALTER TABLE {copied} RENAME TO rows")


def states_of_another_tap(world: World) -> None:
    _set(world, states=[{"bookmarks": {"rows": {"replication_key": "id", "replication_key_value": 7}}}])


CHANGES: dict[str, Callable[[World], None]] = {
    change.__name__: change
    for change in (
        *(nothing, root_changed, plan_root_set, log_removed, beginning_removed, identity_removed, end_removed),
        *(log_of_another_stream, refresh_killed, log_anew_from_state, table_and_log_anew, cuts_removed),
        *(batch_files_removed, overwritten, overwritten_and_back, written_again, late, late_of_known_keys),
        *(
            source_deleted,
            cleaned_up,
            metadata_off,
            smaller_files,
            killed_target,
            killed_after_rows,
            dropped,
            emptied,
            moved,
            narrowed_and_back,
            planned_and_narrowed,
            window_and_back,
            records_between,
            upserted_between,
            rebuilt,
            dataset_changed_and_back,
            table_changed_and_back,
        ),
        states_of_another_tap,
    )
}
NEEDS_FULL_REFRESH = {"dropped", "emptied", "table_and_log_anew"}
"""Changes after which only a run without STATE brings the rows back."""
UNKNOWN = {"end_removed"}
"""Without the STATE of the end, nothing shows that the end of a log is gone: outside the promise."""


def is_promised(method: str, change: str, state: str) -> bool:
    """Return whether a table is promised after a change, with such a STATE."""
    if change in NEEDS_FULL_REFRESH:
        return state == "dropped" or method == OVERWRITE
    return not (change in UNKNOWN and state != "kept" and method == APPEND)


def everything() -> list[Sequence]:
    """Return a sequence for each change, each STATE, each load method and each warehouse."""
    return [
        Sequence(service, method, ((change, state),))
        for change in CHANGES
        for state in STATES
        for method in METHODS
        for service in WAREHOUSES
        if is_promised(method, change, state)
    ]


def chosen(chance: random.Random) -> Sequence:
    """Return a sequence of some changes by chance."""
    method = chance.choice(METHODS)
    found: list[tuple[str, str]] = []
    while len(found) < chance.randint(2, 5):
        change, state = chance.choice(list(CHANGES)), chance.choice(STATES)
        can_be_undone = change != cleaned_up.__name__
        if can_be_undone and is_promised(method, change, state):
            found.append((change, state))
    return Sequence(chance.choice(list(WAREHOUSES)), method, tuple(found))


class SequenceSite:
    """Runs sequences in a local cloud."""

    def __init__(self, cloud: Cloud, folder: Path, clients: dict[str, Any], source: TapBucket) -> None:
        self._cloud, self._clients, self._source = cloud, clients, source
        self._run = ForkedPrograms(cloud.environ(), folder)

    def world(self, sequence: Sequence) -> World:
        """Return a world without objects; its schema is not there yet."""
        schema = f"s{uuid.uuid4().hex[:10]}"
        warehouse = WAREHOUSES[sequence.service](self._cloud, self._clients[sequence.service], schema)
        return World(sequence, self._source, self._run, warehouse)

    def try_out(self, sequence: Sequence) -> Outcome:
        """Run a sequence; return what was wrong."""
        world, refused = self.world(sequence), 0
        names = [change for change, _ in sequence.changes]
        try:
            for day in ("1", "2"):
                world.put(day, world.new())
                if not world.pipe(world.states[-1] if world.states else None):
                    world.problems.append(f"day {day} was refused")
            for change, choice in sequence.changes:
                world.undo = None
                CHANGES[change](world)
                state = world.state(choice)
                world.put(f"after-{world.now}", world.new())
                if not world.pipe(state):
                    refused += 1
                    if world.undo is not None:
                        world.undo()
                    if change == "rebuilt":  # the user decides
                        world.warehouse.config["replay"] = "skip"
                    others = [world.states[-1], None]
                    if log_anew_from_state.__name__ in names[: names.index(change)]:  # it cannot bring all rows
                        table_and_log_anew(world)
                        others = [None]
                    if not any(world.pipe(other) for other in others):
                        world.problems.append("no run was right after the change was undone")
                world.warehouse.config.pop("replay", None)
                world.put(f"last-{world.now}", world.new())
                if not world.pipe(world.states[-1]):
                    world.problems.append("the last run was refused")
            there, expected = world.rows(), world.expected()
            end = Comparison((expected - there).total(), (there - expected).total())
        finally:
            world.warehouse.drop()
            world.warehouse.drop(f"{world.warehouse.schema}_other")
        changes = Counter(f"change: {change}" for change in names)
        return Outcome(sequence, 1 if refused else 0, changes, bool(refused), end, 0, tuple(world.problems), world.log)
