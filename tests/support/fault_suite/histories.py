"""Histories by chance: files of two streams come, change and go, runs of a pipeline are killed, STATE is merged.

The model knows objects, their versions and the rows of these, and nothing of how a tap or a target works: after a run
that ended well, a table of append-only has each version once that was there when a run looked. Of a run that was
killed, each version may be there. A history is made by its seed alone.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from forked_programs import ForkedPrograms
from google.api_core.exceptions import NotFound
from meltano.core.utils import merge
from tap_source import TapBucket
from warehouses import WAREHOUSES, Warehouse

from fault_suite.site import Outcome
from fault_suite.source import Comparison
from local_cloud import Cloud
from local_cloud.programs import Ran

Rows = Counter[tuple[int, str]]
STREAMS = ("small", "tall")
START = datetime(2024, 5, 1, 10, tzinfo=UTC)
LARGE_ROWS, LARGE_BYTES = 200, 23_500
MOST_STEPS = 12
EMPTY = "its table is empty, and the tap sends only what is new"


@dataclass(frozen=True)
class History:
    """A history of a seed, in one warehouse."""

    service: str
    seed: int
    victim = "a user's history"

    @property
    def name(self) -> str:
        """The display name."""
        return f"history, {self.service}: seed {self.seed}"

    @property
    def way(self) -> str:
        """The line of the totals that counts the case."""
        return f"history, {self.service}"


@dataclass(frozen=True)
class Version:
    """One upload of an object, unless it changed nothing; `number` is that of no other."""

    number: int
    content: str
    is_large: bool = False

    @property
    def rows(self) -> Rows:
        first = int(self.content) * 1000
        return Rows((first + n, self.content) for n in range(LARGE_ROWS if self.is_large else 3))


@dataclass
class Table:
    """What the model knows of a stream: its objects, and what must and what may be in its table."""

    objects: dict[str, Version] = field(default_factory=dict)
    seen: dict[str, Version] = field(default_factory=dict)
    """Of each object the version that a run has seen last."""
    taken: dict[str, Version] = field(default_factory=dict)
    """Of each object the version that a run which ended well has taken last."""
    sure: Rows = field(default_factory=Rows)
    maybe: list[Version] = field(default_factory=list)

    def run(self, *, is_whole: bool) -> None:
        """Note a run that ended well."""
        new = [v for name, v in sorted(self.objects.items()) if self.taken.get(name) != v]
        self.sure += sum((v.rows for v in new), Rows())
        self.maybe = [v for v in self.maybe if v not in new]
        self.seen |= self.objects
        self.taken = dict(self.objects) if is_whole else self.taken | self.objects

    def killed(self) -> None:
        """Note a run that was killed."""
        self.maybe += [v for n, v in self.objects.items() if self.taken.get(n) != v and v not in self.maybe]
        self.seen |= self.objects

    def empty(self) -> None:
        """Note that all rows were removed."""
        self.sure, self.maybe, self.taken = Rows(), [], {}

    def difference(self, there: Rows, *, settles: bool) -> tuple[Rows, Rows]:
        """Return the rows that are missing, and those that are too many; `settles`: what may be there is known now."""
        extra, found = there - self.sure, list[Version]()
        for version in self.maybe:
            if version.rows <= extra:
                extra -= version.rows
                found.append(version)
        if settles:
            self.sure += sum((v.rows for v in found), Rows())
            self.maybe = []
        return self.sure - there, extra


class Teller:
    """Runs a history."""

    def __init__(self, history: History, source: TapBucket, run: ForkedPrograms, warehouse: Warehouse) -> None:
        self.history, self._source, self._run, self._warehouse = history, source, run, warehouse
        self._chance = random.Random(history.seed)
        self._prefix = f"histories/{uuid.uuid4().hex[:10]}"
        self._root, self._settings = "stage", dict[str, Any]()
        self._tables = {stream: Table() for stream in STREAMS}
        self._state: Any = None
        self._passed = list[Any]()  # STATEs of the tap and of the target
        self._now = self._number = 0
        self._is_anew = self._must_refresh = False
        """A run without STATE is refused, as the log begins at one; the tables are empty, and one must come."""
        self.problems, self.log, self.steps = list[str](), "", list[str]()

    # The world

    def _put(self, stream: str, name: str, content: str, *, late: int = 0, is_large: bool = False) -> None:
        table = self._tables[stream]
        self._now += 20
        seen = table.seen.get(name)
        if seen is not None and seen.content == content:
            version = seen  # no run has seen another content in between
        else:
            self._number += 1
            version = Version(self._number, content, is_large)
        table.objects[name] = version
        lines, chance = list[str](), random.Random(content)
        for number, text in version.rows:
            pad = chance.randbytes(LARGE_BYTES).hex() if is_large else ""
            lines.append(json.dumps({"id": number, "v": text, "pad": pad}) + "\n")
        at = START + timedelta(seconds=60 * self._now - late)
        self._source.put(f"{self._prefix}/{stream}/{name}.jsonl", "".join(lines), at=at)

    def _new_content(self) -> str:
        self._number += 1
        return str(self._number)

    def _stream(self) -> str:
        return self._chance.choice(STREAMS)

    def _existing(self) -> tuple[str, str, Version] | None:
        stream = self._stream()
        names = sorted(self._tables[stream].objects)
        name = self._chance.choice(names) if names else ""
        return (stream, name, self._tables[stream].objects[name]) if names else None

    # Steps

    def comes(self) -> None:
        """One object to three come, some of them late."""
        stream = self._stream()
        for _ in range(self._chance.randint(1, 3)):
            content, late = self._new_content(), self._chance.choice((0, 0, 0, 200))
            self._put(stream, f"o{content}", content, late=late)

    def a_large_one_comes(self) -> None:
        """An object comes that becomes several batch files."""
        content = self._new_content()
        self._put("tall", f"o{content}", content, is_large=True)

    def changes(self) -> None:
        """An object gets another content."""
        if found := self._existing():
            self._put(*found[:2], self._new_content())

    def changes_back(self) -> None:
        """An object gets another content, a run comes by chance, and it gets its former content back."""
        if found := self._existing():
            stream, name, version = found
            self._put(stream, name, self._new_content())
            if self._chance.random() < 0.7:
                self.run()
            self._put(stream, name, version.content, is_large=version.is_large)

    def is_written_again(self) -> None:
        """An object is written again without a change."""
        if found := self._existing():
            stream, name, version = found
            self._now += 20
            self._put(stream, name, version.content, is_large=version.is_large)
            self._tables[stream].objects[name] = version

    def goes(self) -> None:
        """An object is deleted."""
        if found := self._existing():
            stream, name, _ = found
            del self._tables[stream].objects[name]
            self._source.s3.delete_object(Bucket=self._source.bucket, Key=f"{self._prefix}/{stream}/{name}.jsonl")

    def run(self) -> None:
        """A run comes with STATE."""
        self._pipe(self._state)

    def run_is_killed(self) -> None:
        """A run is killed at a line; its last STATE is lost by chance."""
        self._pipe(self._state, is_killed=True)

    def full_refresh(self) -> None:
        """A run comes without STATE, and its STATE is merged into the former one."""
        if not self._is_anew:
            self._pipe(None)

    def full_refresh_is_killed(self) -> None:
        """The same, and it is killed."""
        if not self._is_anew:
            self._pipe(None, is_killed=True)

    def tables_are_emptied(self) -> None:
        """All tables are emptied, and a full refresh follows, which is killed by chance."""
        if self._is_anew or self._state is None:
            return
        for stream, table in self._tables.items():
            if self._there(stream):
                self._warehouse.query(f"TRUNCATE TABLE {{{stream}}}")
            table.empty()
        self._must_refresh = True
        self._pipe(None, is_killed=self._chance.random() < 0.5)

    def log_is_begun_anew(self) -> None:
        """A run ends well, and a new plan log begins at its STATE, in another place by chance."""
        self.run()
        if self._must_refresh or self._state is None:
            return
        if self._chance.random() < 0.5:
            self._root = f"stage-{self._new_content()}"
        ran = self._tap(self._state, "--new-plan-log")
        if ran.code:
            self.problems.append("no new plan log was begun")
        self._is_anew = True

    def settings_change(self) -> None:
        """Settings change that decide nothing about which rows there are."""
        self._settings = self._chance.choice(({}, {"max_workers": 1}, {"metadata_columns": False}))

    # Runs

    def _config(self) -> dict[str, Any]:
        base = f"s3://{self._source.bucket}/{self._prefix}"
        schema = {"id": "integer", "v": "string", "pad": "string"}
        streams = [{"name": s, "path": f"{base}/{s}/*.jsonl", "schema": schema} for s in STREAMS]
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"{base}/{self._root}"}, "target_file_mb": 1}
        return {"streams": streams, "batch_config": batches, **self._settings}

    def _tap(self, state: Any, *arguments: str) -> Ran:
        given = {"state": state} if state is not None else {}
        return self._run("tap-s3-files", *arguments, config=self._config(), **given)

    def _pipe(self, state: Any, *, is_killed: bool = False) -> None:
        for stream, table in self._tables.items():  # a stream without any object is an error
            if not table.objects:
                self._put(stream, f"o{self._number + 1}", self._new_content())
        is_whole = state is None
        tap = self._tap(state)
        lines = tap.stdout.splitlines(keepends=True)
        cut = self._chance.randint(0, len(lines)) if is_killed else len(lines)
        config = {**self._warehouse.config, "load_method": "append-only"}
        target = self._run(self._warehouse.program, config=config, stdin="".join(lines[:cut]))
        text = tap.stderr + target.stderr
        self.log += (
            f"--- tap {tap.code}, target {target.code}: {self.steps[-1:]}\n{tap.stderr[-3000:]}{target.stderr[-3000:]}"
        )
        said = [json.loads(line) for line in target.stdout.splitlines()]
        sent = [m["value"] for m in map(json.loads, lines) if m["type"] == "STATE"]
        self._passed += [state for state in (*sent, *said) if state not in self._passed]
        if not all(_survives(former, new) for former in self._passed for new in (*sent, *said)):
            self.problems.append("a STATE that is merged into a former one is another one")
        if not said or (is_killed and self._chance.random() < 0.4):
            said = []
        elif (is_whole and self._state is not None) or self._chance.random() < 0.5:
            self._state = merge(said[-1], deepcopy(self._state or {}))
        else:
            self._state = said[-1]
        if "Traceback" in text:
            self.problems.append("a traceback")
        if tap.code or target.code:
            self._note_refused(is_whole=is_whole)
            return
        is_at_rest = not is_killed and (is_whole or not self._must_refresh)
        for table in self._tables.values():
            if is_killed:
                table.killed()
            else:
                table.run(is_whole=is_whole)
        if self._must_refresh and (is_whole or said):
            self._must_refresh = (is_killed and not said) or (not is_whole and EMPTY in text)
        self._check(settles=is_at_rest, is_warned=EMPTY in text)

    def _note_refused(self, *, is_whole: bool) -> None:
        if not self._must_refresh or is_whole:
            self.problems.append("a run was refused")
            return
        self._pipe(None)  # the former STATE was of rows that were removed

    def _there(self, stream: str) -> Rows:
        try:
            is_there = stream in self._warehouse.tables()
        except NotFound:  # the dataset: no target has come so far
            is_there = False
        if not is_there:
            return Rows()
        return Rows((row["id"], row["v"]) for row in self._warehouse.query(f"SELECT id, v FROM {{{stream}}}"))

    def _check(self, *, settles: bool, is_warned: bool = False) -> None:
        for stream, table in self._tables.items():
            lost, extra = table.difference(self._there(stream), settles=settles)
            if (lost or extra) and not is_warned:
                words = f"lost {_shown(lost)}, too many {_shown(extra)}"
                self.problems.append(f"{stream} is wrong without a word after step {len(self.steps)}: {words}")

    def tell(self) -> Comparison:
        """Run the history; return how the tables differ at its end."""
        steps: list[Callable[[], None]] = [
            *[self.comes] * 4,
            *[self.changes, self.changes_back, self.is_written_again] * 2,
            *[self.goes, self.settings_change, self.a_large_one_comes],
            *[self.run] * 4,
            *[self.run_is_killed] * 4,
            *[self.full_refresh, self.full_refresh_is_killed, self.tables_are_emptied, self.log_is_begun_anew],
        ]
        chosen = [self.comes, *self._chance.choices(steps, k=self._chance.randint(4, MOST_STEPS)), self.run]
        for step in chosen:
            if self.problems:
                break
            self.steps.append(step.__name__)
            step()
        if self._must_refresh and not self.problems:  # a target has warned that only this brings all rows
            self._pipe(None)
        differences = [table.difference(self._there(stream), settles=False) for stream, table in self._tables.items()]
        return Comparison(*(sum(rows.total() for rows in some) for some in zip(*differences, strict=True)))


def _survives(former: Any, new: Any) -> bool:
    """Return whether the entries of a STATE are the same after Meltano has merged it into a former one."""
    merged: Any = merge(deepcopy(new), deepcopy(former))
    return bool(merged["bookmarks"] == former["bookmarks"] | new["bookmarks"])


def _shown(rows: Rows) -> str:
    return f"{rows.total()} rows of {sorted({text for _, text in rows})}"


def everything(count: int) -> list[History]:
    """Return so many histories, half of them in each warehouse."""
    return [History(list(WAREHOUSES)[seed % len(WAREHOUSES)], seed) for seed in range(count)]


def chosen(chance: random.Random) -> History:
    """Return a history by chance."""
    return History(chance.choice(list(WAREHOUSES)), chance.randrange(1 << 30))


class HistorySite:
    """Runs histories in a local cloud."""

    def __init__(self, cloud: Cloud, folder: Path, clients: dict[str, Any], source: TapBucket) -> None:
        self._cloud, self._clients, self._source = cloud, clients, source
        self._run = ForkedPrograms(cloud.environ(), folder)

    def try_out(self, history: History) -> Outcome:
        """Run a history; return what was wrong."""
        schema = f"h{uuid.uuid4().hex[:10]}"
        warehouse = WAREHOUSES[history.service](self._cloud, self._clients[history.service], schema)
        teller = Teller(history, self._source, self._run, warehouse)
        try:
            end = teller.tell()
        finally:
            warehouse.drop()
        steps = Counter(f"step: {step}" for step in teller.steps)
        words = ", ".join(teller.steps)
        log = f"{words}\n{teller.log}"
        return Outcome(history, 0, steps, "killed" in words, end, 0, tuple(teller.problems), log)
