"""A pipeline of a history: its runs, its STATE as Meltano keeps it, and what its tables must hold."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from forked_programs import ForkedPrograms
from google.api_core.exceptions import NotFound
from meltano.core.utils import merge
from warehouses import Warehouse

from fault_suite.history_model import EXPECTED, Expected, Rows
from fault_suite.history_sources import STREAMS, Source
from local_cloud.programs import Ran

OVERWRITE, UPSERT = "overwrite", "upsert"
WARNINGS = ("its table is empty, and the tap sends only what is new", "its table was emptied since it got batch")
"""Of a target: only a run without STATE brings all rows."""
REMOVED = "was removed since it was read"
"""In a warning of the tap: the newest version of an object is not there any more."""


@dataclass
class Tables:
    """The tables of a schema of a warehouse, which several pipelines may fill.

    Attributes:
        expected: Of each stream what its table must hold.
        warned: The pipelines, by id, whose target has said that rows are missing, until a run without STATE.
    """

    warehouse: Warehouse
    expected: dict[str, Expected]
    warned: set[int] = field(default_factory=set)

    @classmethod
    def new(cls, warehouse: Warehouse, method: str) -> Tables:
        return cls(warehouse, {stream: EXPECTED[method]() for stream in STREAMS})

    def names(self) -> list[str]:
        try:
            return self.warehouse.tables()
        except NotFound:  # the dataset: no target has come so far
            return []

    def rows(self, stream: str) -> Rows:
        """Return what is in a table."""
        if stream not in self.names():
            return Rows()
        return Rows((row["id"], row["v"]) for row in self.warehouse.query(f"SELECT id, v FROM {{{stream}}}"))

    def empty(self) -> None:
        """Remove all rows."""
        for stream, expected in self.expected.items():
            if stream in self.names():
                self.warehouse.query(f"TRUNCATE TABLE {{{stream}}}")
            expected.emptied()
        self.warned = set()

    def differences(self, *, settles: bool) -> dict[str, tuple[Rows, Rows]]:
        """Return the rows of each stream that are missing, and those that are too many."""
        return {stream: one.difference(self.rows(stream), settles=settles) for stream, one in self.expected.items()}


@dataclass
class Pipeline:
    """A tap and a target with a STATE.

    Attributes:
        url: The folder of its batch files and plan logs, without its last part, `root`.
        chance: Decides what becomes of a STATE.
        is_anew: Its plan log begins at a STATE, so that a run without one is refused.
        must_refresh: Its tables were emptied, and no run without STATE has come since.
        passed: All STATEs of the tap and of the target.
        problems: What was not as promised.
    """

    source: Source
    tables: Tables
    method: str
    url: str
    root: str
    execute: ForkedPrograms
    chance: random.Random
    state: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    is_anew: bool = False
    must_refresh: bool = False
    passed: list[Any] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    log: str = ""
    text: str = ""
    """What the last run has said."""
    _is_state_lost: bool = False

    def config(self) -> dict[str, Any]:
        more: dict[str, Any] = {
            OVERWRITE: {"replication_method": "FULL_TABLE"},
            UPSERT: {"key_properties": ["id"]},
        }.get(self.method, {})
        streams = [{"name": stream, **self.source.stream(stream), **more} for stream in STREAMS]
        batches = {
            "encoding": {"format": "parquet"},
            "storage": {"root": f"{self.url}/{self.root}"},
            "target_file_mb": 1,
        }
        return {"streams": streams, "batch_config": batches, **self.settings}

    def tap(self, state: Any, *arguments: str) -> Ran:
        given = {"state": state} if state is not None else {}
        return self.execute("tap-s3-files", *arguments, config=self.config(), **given)

    def run(self, *, is_whole: bool = False, is_cut_off: bool = False) -> bool:
        """Run tap and target once, check the tables, and return whether both ended well.

        Args:
            is_whole: Without STATE. Its STATE is merged into the former one.
            is_cut_off: The target reads only some lines of the tap, by chance; its last STATE is lost, by chance.
        """
        for stream in STREAMS:  # one without any object is an error
            if not self.source.objects[stream]:
                name = str(self.source.new_number())
                self.source.put(stream, name, name)
        tap = self.tap(None if is_whole else self.state)
        lines = tap.stdout.splitlines(keepends=True)
        cut = self.chance.randint(0, len(lines)) if is_cut_off else len(lines)
        config = {**self.tables.warehouse.config, "load_method": self.method}
        target = self.execute(self.tables.warehouse.program, config=config, stdin="".join(lines[:cut]))
        self.text = tap.stderr + target.stderr
        self.log += f"--- tap {tap.code}, target {target.code}\n{tap.stderr[-3000:]}{target.stderr[-3000:]}"
        self._keep_state(tap, target, is_whole=is_whole, is_lost=is_cut_off and self.chance.random() < 0.4)
        if not tap.code:
            self.source.see()
        if "Traceback" in self.text:
            self.problems.append("a traceback")
        if tap.code or (
            target.code and not (is_cut_off and self.method == OVERWRITE)
        ):  # the end of a stream is missing
            errors = [line for ran in (tap, target) for line in ran.stderr.splitlines() if "| ERROR" in line]
            if len(errors) != 1:
                self.problems.append(f"exit codes {tap.code} and {target.code} with {len(errors)} lines of error")
            return False
        for stream, expected in self.tables.expected.items():
            note = expected.cut_off if is_cut_off else expected.ended
            note(self.source.there(stream))
        is_warned, is_done = any(text in self.text for text in WARNINGS), is_whole and not is_cut_off
        is_at_rest = not is_cut_off and (is_whole or not self.must_refresh)
        has_state = bool(target.stdout) and not self._is_state_lost
        if is_whole and (has_state or not is_cut_off):
            self.must_refresh = False
        if is_warned:
            self.tables.warned.add(id(self))
        if is_done:
            self.tables.warned.discard(id(self))
        for stream, (lost, extra) in self.tables.differences(settles=is_at_rest).items():
            if (lost or extra) and not self.tables.warned:
                self.problems.append(f"{stream} is wrong without a word: lost {_shown(lost)}, too many {_shown(extra)}")
        return True

    def _keep_state(self, tap: Ran, target: Ran, *, is_whole: bool, is_lost: bool) -> None:
        """Keep the last STATE as Meltano does, and check that none is another one once it is merged."""
        said = [json.loads(line) for line in target.stdout.splitlines()]
        sent = [message["value"] for message in tap.of_type("STATE")]
        self.passed += [state for state in (*sent, *said) if state not in self.passed]
        if not all(_survives(former, new) for former in self.passed for new in (*sent, *said)):
            self.problems.append("a STATE that is merged into a former one is another one")
        self._is_state_lost = is_lost
        if not said or is_lost:
            return
        is_merged = (is_whole and self.state is not None) or self.chance.random() < 0.5
        self.state = merge(said[-1], deepcopy(self.state or {})) if is_merged else said[-1]


def _survives(former: Any, new: Any) -> bool:
    """Return whether the entries of a STATE are the same after Meltano has merged it into a former one."""
    merged: Any = merge(deepcopy(new), deepcopy(former))
    return bool(merged["bookmarks"] == former["bookmarks"] | new["bookmarks"])


def _shown(rows: Rows) -> str:
    return f"{rows.total()} rows of {sorted({text for _, text in rows})}"
