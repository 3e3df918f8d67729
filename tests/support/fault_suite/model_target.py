"""A minimal target: loads each batch once, then releases the STATE that follows it."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from fault_suite.lake import columns_beyond

Read = Callable[[str], bytes | None]
"""Returns the content of a URL; None if there is none."""


@dataclass
class Table:
    """A table loaded with `append-only`, and its ledger.

    Attributes:
        rows: Number of rows with each id.
        ledger: Loaded batches, by stream and `batch_id`.
    """

    rows: Counter[int] = field(default_factory=Counter)
    ledger: set[tuple[str, str]] = field(default_factory=set)

    def copy(self) -> Table:
        """Return a copy."""
        return Table(self.rows.copy(), set(self.ledger))


@dataclass
class Loaded:
    """The result of loading the lines of a tap.

    Attributes:
        states: STATEs that the target wrote, in order.
        wrong: Errors of the target, and messages that should not have been sent.
    """

    states: list[Any] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def whole_lines(text: str) -> list[str]:
    """Return the complete lines; a partial last line is dropped."""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def load(table: Table, lines: Iterable[str], read: Read, *, columns: Iterable[str], most: int | None = None) -> Loaded:
    """Load the output of a tap.

    Args:
        table: The table to load into.
        lines: Complete lines.
        read: Reads batch files.
        columns: Selected columns.
        most: Number of lines after which the target is killed. Batches finish in any order, so every other batch after
            this line is loaded too, but no STATE is written.
    """
    result, schemas = Loaded(), set[str]()
    beyond = 0
    for number, line in enumerate(lines):
        message = json.loads(line)
        is_over = most is not None and number >= most
        if message["type"] == "SCHEMA":
            schemas.add(message["stream"])
        elif message["type"] == "STATE" and not is_over:
            result.states.append(message["value"])
        elif message["type"] == "BATCH":
            beyond += is_over
            if is_over and beyond % 2:
                continue
            if message["stream"] not in schemas:
                result.wrong.append("a BATCH came before its SCHEMA")
            if wrong := _load_batch(table, message, read, columns):
                result.wrong.append(wrong)
                return result  # the target is killed here, and releases no further STATE
    if going_back := _going_back(result.states):
        result.wrong.append(f"its STATEs went back: {going_back}")
    return result


def _load_batch(table: Table, message: Mapping[str, Any], read: Read, columns: Iterable[str]) -> str:
    """Load a batch unless it is in the ledger; return what is wrong with it."""
    name = (message["stream"], message["batch_id"])
    if name in table.ledger:
        return ""
    ids: list[int] = []
    for url in message["manifest"]:
        data = read(url)
        if data is None:
            return f"{url} is not there"
        rows = list(_rows(data, url, message["encoding"]))
        if more := columns_beyond({column for row in rows for column in row}, columns):
            return f"columns {more} were loaded that are not selected"
        ids += [row["id"] for row in rows]
    if len(ids) != message["row_count"]:
        return f"a batch has {len(ids)} rows, and its message counts {message['row_count']}"
    table.ledger.add(name)
    table.rows.update(ids)
    return ""


def _rows(data: bytes, url: str, encoding: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if encoding["format"] == "parquet":
        yield from pq.read_table(io.BytesIO(data)).to_pylist()
    else:
        text = gzip.decompress(data) if encoding.get("compression") == "gzip" else data
        for line in text.splitlines():
            yield json.loads(line)


def _going_back(states: Iterable[Any]) -> list[tuple[int, int]]:
    """Return the positions of a run's STATEs if they do not ascend."""
    entries = [entry for state in states for entry in state.get("bookmarks", {}).values()]
    places = [(entry["segment"], entry["done"]) for entry in entries if "segment" in entry]
    return places if places != sorted(places) else []
