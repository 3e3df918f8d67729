"""Rows that a run loads, and rows that the table must contain afterwards. Pure, except for writing files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from singer_lines import Batches, Message, record, schema, state

from fault_suite.catalogue import APPEND, BATCH, OVERWRITE, UPSERT, Load

COLUMNS = pa.schema([("id", pa.int64()), ("batch", pa.int64()), ("name", pa.string())])
BATCHES, ROWS_EACH = 3, 3
LAST = BATCHES - 1
EDITIONS = ("first", "second")
Row = tuple[int, int, str]
"""Id, number of the batch, and name."""


def rest(batches: Sequence[int]) -> tuple[int, ...]:
    """Return the other batches of a run."""
    return tuple(number for number in range(BATCHES) if number not in batches)


@dataclass(frozen=True)
class Source:
    """One edition of the source: batches of rows, each followed by a numbered STATE.

    Args:
        method: With `upsert`, each batch repeats keys of the one before it.
        edition: Part of the names in the rows.
        files: The BATCH messages, one for each batch; empty for RECORD.
    """

    method: str
    edition: str
    files: tuple[Message, ...] = ()

    def batch(self, number: int) -> list[Row]:
        """Return the rows of a batch."""
        first = number if self.method == UPSERT else number * ROWS_EACH
        return [(i, number, f"{self.edition} {i}") for i in range(first, first + ROWS_EACH)]

    def rows(self, until: int = LAST) -> Counter[Row]:
        """Return the rows of the table after the batches up to this one."""
        rows = [row for number in range(until + 1) for row in self.batch(number)]
        return Counter({row[0]: row for row in rows}.values()) if self.method == UPSERT else Counter(rows)

    def messages(self, after: int = -1, of: Sequence[int] = range(BATCHES)) -> list[Message]:
        """Return the messages of a tap that starts after the STATE of this batch.

        Args:
            after: The batch.
            of: The batches that the tap sends.
        """
        found = [schema(columns=COLUMNS)]
        for number in (n for n in of if n > after):
            found += [self.files[number]] if self.files else records(self.batch(number))
            found.append(state(number))
        return found


def records(rows: Iterable[Row]) -> list[Message]:
    """Return the RECORD messages."""
    return [record(**as_dict(row)) for row in rows]


def as_dict(row: Row) -> dict[str, Any]:
    """Return a row as a dict."""
    return dict(zip(COLUMNS.names, row, strict=True))


def write(load: Load, edition: str, folder: Path) -> Source:
    """Create a source, and write its batch files if it has any."""
    source = Source(load.method, edition)
    if load.form != BATCH:
        return source
    folder.mkdir(parents=True, exist_ok=True)
    batches = Batches(folder)
    files = [
        batches([as_dict(row) for row in source.batch(n)], columns=COLUMNS, batch_id=f"{edition}-{n}")
        for n in range(BATCHES)
    ]
    return Source(load.method, edition, tuple(files))


@dataclass(frozen=True)
class Comparison:
    """Differences between a table and the expected rows, in numbers of rows.

    Attributes:
        lost: Missing rows.
        doubled: Rows that occur too often, or that should not exist.
        again: Rows of RECORD messages with `append-only` that came after the last STATE and were sent again.
    """

    lost: int
    doubled: int
    again: int = 0

    def faults(self) -> list[str]:
        """Return the lost and doubled rows as text."""
        return [f"{n} rows {what}" for n, what in ((self.lost, "lost"), (self.doubled, "doubled")) if n]


def compare(load: Load, source: Source, rows: Sequence[Row], *, last_state: int) -> Comparison:
    """Compare the final table with the source.

    `last_state` is the number of the last STATE of the interrupted run.
    """
    expected, found = source.rows(), Counter(rows)
    lost, more = expected - found, found - expected
    if (load.method, load.form) != (APPEND, "RECORD"):
        return Comparison(lost.total(), more.total())
    again = Counter({row: n for row, n in more.items() if row in expected and row[1] > last_state})
    return Comparison(lost.total(), (more - again).total(), again.total())


def ahead(load: Load, source: Source, rows: Sequence[Row], *, last_state: int) -> int:
    """Return how many rows a STATE is ahead of the table."""
    if last_state < 0:
        return 0
    found = Counter(rows)
    if load.method == OVERWRITE:
        return int(found != source.rows()) or int(last_state != LAST)
    if load.method == APPEND:
        return (source.rows(last_state) - found).total()
    newest = {row[0]: row for row in rows}
    return sum(row[0] not in newest or newest[row[0]][1] < row[1] for row in source.rows(last_state))


def is_torn(load: Load, source: Source, rows: Sequence[Row], *, old: Counter[Row]) -> bool:
    """Whether an overwritten table is neither the old nor the new one."""
    return load.method == OVERWRITE and Counter(rows) not in (old, source.rows())
