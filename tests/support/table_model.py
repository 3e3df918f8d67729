"""Model of the targets: table contents after messages, and rows that each STATE guarantees. Pure.

Operations describe the actions of a tap; `Model.play` turns them into messages and applies them to the model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import combinations
from typing import Any

import pyarrow as pa
from singer_lines import Message, activate, record, schema, state

Row = dict[str, Any]
STREAMS = ("a", "b")
TYPES: dict[str, pa.DataType] = {
    "n": pa.int64(),
    "t": pa.string(),
    "f": pa.float64(),
    "b": pa.bool_(),
    "d": pa.date32(),
    "m": pa.timestamp("us", "UTC"),
}
"""Columns that a SCHEMA may have, in addition to the key `id` and to `tok`, which is unique per row."""
NONE, SOFT, HARD = DELETES = ("none", "soft", "hard")


@dataclass(frozen=True)
class Schema:
    """Change the stream's columns."""

    stream: str
    names: tuple[str, ...]

    @property
    def columns(self) -> pa.Schema:
        """The columns as Arrow types."""
        return pa.schema([("id", pa.int64()), ("tok", pa.int64()), *((name, TYPES[name]) for name in self.names)])


@dataclass(frozen=True)
class Rows:
    """Send rows by their keys, with values for any column that the stream may have."""

    stream: str
    form: str
    """RECORD, parquet or jsonl."""
    rows: tuple[tuple[int, Mapping[str, Any]], ...]
    has_id: bool = True


@dataclass(frozen=True)
class Again:
    """Send an earlier batch of the stream again, by its number modulo the count."""

    stream: str
    number: int


@dataclass(frozen=True)
class NewVersion:
    """Increment the version of the rows that follow."""

    stream: str


@dataclass(frozen=True)
class Activate:
    """Activate the stream's current version."""

    stream: str


@dataclass(frozen=True)
class State:
    """Send a STATE."""


@dataclass(frozen=True)
class End:
    """Send a STATE that marks the end of the stream."""

    stream: str


Operation = Schema | Rows | Again | NewVersion | Activate | State | End


@dataclass(frozen=True)
class Tap:
    """The order of messages of a tap's run, and its end-of-stream marks.

    Attributes:
        marks: Whether it announces and writes end marks.
        in_turn: Whether it sends one stream after the other.
        fails: Streams that it does not finish.
    """

    marks: bool = False
    in_turn: bool = False
    fails: frozenset[str] = frozenset()

    def order(self, operations: Sequence[Operation], schemas: Sequence[Schema]) -> list[Operation]:
        """Return all operations of a run, in order."""
        ends = [End(s) for s in STREAMS if self.marks and s not in self.fails]
        if not self.in_turn:
            return [*schemas, *operations, *ends, State()]
        every = [*schemas, *operations, *ends]
        return [*(o for s in STREAMS for o in every if isinstance(o, State) or o.stream == s), State()]


@dataclass
class Sent:
    """A batch that was sent: its message and its rows."""

    message: Message
    rows: list[Row]
    is_loaded: bool = False


@dataclass
class Stream:
    """A stream and its table.

    Attributes:
        table: Rows, with `_version` and `_deleted` beside the columns.
        replacement: Rows that replace the table at the end of the run.
        before: `tok`s of the table before this run.
        history: Key and `tok` of each row of this run, in order.
        marks: Length of `history` at each STATE.
        removed: Deleted keys, each with the length of `history` at that time.
        replaced_by: With `overwrite`, the first STATE of this run after an ACTIVATE_VERSION.
    """

    schema: Schema
    table: list[Row] = field(default_factory=list)
    replacement: list[Row] | None = None
    batches: list[Sent] = field(default_factory=list)
    version: int = 1
    history: list[tuple[int, int]] = field(default_factory=list)
    before: Counter[int] = field(default_factory=Counter)
    marks: dict[int, int] = field(default_factory=dict)
    removed: list[tuple[int, int]] = field(default_factory=list)
    replaced_by: int | None = None


class Model:
    """Models one load method.

    Args:
        method: The setting `load_method`.
        deletes: Effect of ACTIVATE_VERSION: none (no versions), soft or hard.
        skips_known: Whether batches whose id was loaded before are skipped.
        batch: Writes a batch file and returns its message.
    """

    def __init__(self, method: str, deletes: str, *, skips_known: bool, batch: Callable[..., Message]) -> None:
        self._method, self._deletes, self._skips_known, self._batch = method, deletes, skips_known, batch
        self._streams: dict[str, Stream] = {}
        self._tokens, self.states = 0, -1
        self.kept: set[str] = set()
        """Streams whose tables the run must not replace."""
        self.last_state: int | None = None
        """The last STATE that the run writes."""

    def play(self, operations: Sequence[Operation], schemas: Sequence[Schema], tap: Tap) -> list[Message]:
        """Return the messages of a run, and apply them to the tables."""
        messages: list[Message] = []
        for stream in self._streams.values():
            stream.history.clear()
            stream.marks.clear()
            stream.removed.clear()
            stream.replaced_by = None
            stream.before = Counter(row["tok"] for row in stream.table)
        for operation in tap.order(operations, schemas):
            messages += self._messages(operation)
        if tap.marks:
            messages = [{**m, "end_of_stream": True} if m["type"] == "SCHEMA" else m for m in messages]
        self.kept, end = kept_and_end(messages) if self._method == "overwrite" else (set(), len(messages))
        left = [m["value"]["n"] for m in messages[:end] if m["type"] == "STATE"]
        self.last_state = left[-1] if left else None
        for name, stream in self._streams.items():
            if stream.replacement is not None and name not in self.kept:
                stream.table = stream.replacement
            stream.replacement = None
        return messages

    def _messages(self, operation: Operation) -> list[Message]:
        match operation:
            case Schema():
                known = self._streams.setdefault(operation.stream, Stream(operation))
                known.schema = operation
                return [schema(operation.stream, operation.columns)]
            case State():
                return [self._state()]
            case End():
                return [{**self._state(), "end_of_stream": operation.stream}]
            case NewVersion():
                self._streams[operation.stream].version += 1
                return []
            case Activate():
                return [self._activate(self._streams[operation.stream])]
            case Again():
                return self._again(self._streams[operation.stream], operation.number)
            case Rows():
                return self._send(self._streams[operation.stream], operation)

    def _state(self) -> Message:
        self.states += 1
        for stream in self._streams.values():
            stream.marks[self.states] = len(stream.history)
        return state(self.states)

    def _send(self, stream: Stream, operation: Rows) -> list[Message]:
        rows = []
        for key, values in operation.rows:
            self._tokens += 1
            rows.append({"id": key, "tok": self._tokens, **{n: values[n] for n in stream.schema.names}})
        name, version = stream.schema.stream, stream.version
        if operation.form == "RECORD":
            if rows:  # no rows means no message: with overwrite the table is unchanged
                self._take(stream, rows)
            return [record(name, version=version, **in_json(row)) for row in rows]
        message = self._batch(
            rows if operation.form == "parquet" else [in_json(row) for row in rows],
            stream=name,
            columns=stream.schema.columns,
            file_format=operation.form,
            batch_id=f"{name}-{len(stream.batches)}" if operation.has_id else None,
            version=version,
        )
        sent = Sent(message, rows)
        stream.batches.append(sent)
        self._load(stream, sent)
        return [message]

    def _again(self, stream: Stream, number: int) -> list[Message]:
        if not stream.batches:
            return []
        sent = stream.batches[number % len(stream.batches)]
        self._load(stream, sent)
        return [sent.message]

    def _load(self, stream: Stream, sent: Sent) -> None:
        if sent.is_loaded and self._skips_known and "batch_id" in sent.message:
            return
        sent.is_loaded = True
        rows = [{name: row[name] for name in ("id", "tok", *stream.schema.names) if name in row} for row in sent.rows]
        self._take(stream, rows, sent.message["version"])

    def _take(self, stream: Stream, rows: list[Row], version: int | None = None) -> None:
        stream.history += [(row["id"], row["tok"]) for row in rows]
        names = ("id", "tok", *stream.schema.names)
        marked = [
            {**dict.fromkeys(names), **row, "_version": version or stream.version, "_deleted": False} for row in rows
        ]
        if self._method == "overwrite":
            stream.replacement = [*(stream.replacement or []), *marked]
        elif self._method == "append-only":
            stream.table += marked
        else:
            by_key = {row["id"]: row for row in stream.table}
            for row in marked:
                by_key[row["id"]] = {**by_key.get(row["id"], {}), **row}
            stream.table = list(by_key.values())

    def _activate(self, stream: Stream) -> Message:
        if self._method == "overwrite":
            stream.replacement = stream.replacement or []
            if stream.replaced_by is None:
                stream.replaced_by = self.states + 1
        elif self._deletes == HARD:
            gone = [row["id"] for row in stream.table if row["_version"] < stream.version]
            stream.removed += [(key, len(stream.history)) for key in gone]
            stream.table = [row for row in stream.table if row["_version"] >= stream.version]
        elif self._deletes == SOFT:
            for row in stream.table:
                row["_deleted"] |= row["_version"] < stream.version
        return activate(stream.version, stream.schema.stream)

    def rows(self, stream: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table, in the form of `comparable`."""
        deleted = self._deletes == SOFT
        return sorted(
            (comparable(row, deleted=deleted and row["_deleted"]) for row in self._streams[stream].table), key=repr
        )

    def missing(self, stream: str, number: int, found: Sequence[tuple[int, int]]) -> list[Any]:
        """Return what a STATE of this run guarantees but the table lacks, given the keys and `tok`s found."""
        known = self._streams[stream]
        mark = known.marks.get(number, 0)
        if self._method == "overwrite":
            expected, there = Counter((row["id"], row["tok"]) for row in known.table), Counter(found)
            if known.replaced_by is not None and number >= known.replaced_by:
                # Rows of earlier runs must be gone too.
                return list(((expected - there) + (there - expected)).elements())
            return list((expected - there).elements()) if mark else []
        stays = Counter(row["tok"] for row in known.table)
        if self._method == "append-only":
            sent = known.before + Counter(token for _, token in known.history[:mark])
            return list(((sent & stays) - Counter(token for _, token in found)).elements())
        there = dict(found)
        went = {key for key, place in known.removed if place >= mark}
        allowed: dict[int, set[int]] = defaultdict(set)
        for place, (key, token) in enumerate(known.history):
            if place < mark:
                allowed[key] = {token}
            elif key in allowed:
                allowed[key].add(token)
        return [key for key, tokens in allowed.items() if key not in went and there.get(key) not in tokens]


def kept_and_end(messages: Sequence[Message]) -> tuple[set[str], int]:
    """Return the tables that a run must not replace, as few as possible, and the message limit for STATEs.

    No STATE may be released from this message on: it is the first of a kept table's stream. No other stream has
    messages on both sides of the last STATE before it.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, message in enumerate(messages):
        if message["type"] == "SCHEMA" and message.get("end_of_stream"):
            first.setdefault(message["stream"], place)
        if message["type"] != "STATE":
            last.pop(message["stream"], None)
        elif "end_of_stream" in message:
            last[message["end_of_stream"]] = place
    for count in range(len(first) + 1):
        for kept in map(set, combinations(first, count)):
            end = min((first[stream] for stream in kept), default=len(messages))
            others = first.keys() - kept
            leaves = max((n for n, m in enumerate(messages[:end]) if m["type"] == "STATE"), default=-1)
            if others <= last.keys() and all(last[s] <= leaves or first[s] > leaves for s in others):
                return kept, end
    raise AssertionError


def comparable(row: Mapping[str, Any], *, deleted: bool) -> tuple[Any, ...]:
    """Return a row of a table in a form independent of the table's columns."""
    return (row["id"], row["tok"], *(row.get(name) for name in TYPES), deleted)


def in_json(row: Row) -> Row:
    """Return a row as RECORD messages contain it."""
    return {n: v.isoformat() if isinstance(v, date | datetime) else v for n, v in row.items()}
