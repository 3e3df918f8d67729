"""Model of the objects that the tap reads, their versions, and the rows a table must contain. Pure."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from fault_suite.source import Comparison

COLUMNS = ("id", "name", "amount", "email")
TYPES = {"id": "integer", "name": "string", "amount": "number", "email": "string"}
ROWS_EACH = 4
LARGE_CSV = ".large.csv"
"""Suffix of CSV objects with many rows, whose texts have line breaks."""
_GROUP = 10
"""Rows per row group in Parquet: few, so that a large object is cut into several batch files."""
_LONG = 3_000
"""Characters of a name in Parquet, so that a batch file is larger than the log of a run."""


@dataclass(frozen=True)
class Version:
    """One version of an object.

    Attributes:
        key: Key of the object.
        first: Id of the first row; ids are not shared between versions.
        rows: Number of rows.
        is_bad: Whether the last row has an invalid amount; that row may be missing from the table.
    """

    key: str
    first: int
    rows: int
    is_bad: bool = False

    @property
    def ids(self) -> range:
        """The ids of all rows."""
        return range(self.first, self.first + self.rows)

    @property
    def required(self) -> range:
        """The ids of the valid rows."""
        return self.ids[:-1] if self.is_bad else self.ids

    def data(self) -> bytes:
        """The object's bytes: Parquet or CSV, depending on the key."""
        if self.key.endswith(LARGE_CSV):
            texts = (f'"{random.Random(i).randbytes(_LONG // 4).hex()}\n""{i}"",\n"' for i in self.ids)
            rows = (f"{i},{text},{i / 4},{i}@example.com" for i, text in zip(self.ids, texts, strict=True))
            return "\n".join([",".join(COLUMNS), *rows, ""]).encode()
        if not self.key.endswith(".parquet"):
            bad = {self.ids[-1]} if self.is_bad else set()
            lines = [f"{i},name {i},{'none' if i in bad else i / 4},{i}@example.com" for i in self.ids]
            return "\n".join([",".join(COLUMNS), *lines, ""]).encode()
        ids = list(self.ids)
        values = {
            "id": ids,
            "name": [random.Random(i).randbytes(_LONG // 2).hex() for i in ids],
            "amount": [i / 4 for i in ids],
        }
        out = io.BytesIO()
        pq.write_table(pa.table(values | {"email": [f"{i}@example.com" for i in ids]}), out, row_group_size=_GROUP)
        return out.getvalue()


@dataclass
class Lake:
    """All versions of all objects.

    Attributes:
        newest: Time of change of the newest object.
        current: The current version of each object.
        earlier: Versions that were replaced.
        due: Versions that were current when an undisturbed run finished: the table must contain all their rows.
    """

    newest: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1))
    current: dict[str, Version] = field(default_factory=dict)
    earlier: tuple[Version, ...] = ()
    due: frozenset[Version] = frozenset()
    next_id: int = 1

    def copy(self) -> Lake:
        """Return a copy."""
        return replace(self, current=dict(self.current))

    def write(self, key: str, *, rows: int, at: int, is_bad: bool = False) -> tuple[Version, datetime]:
        """Add a version of an object, and return its time of change.

        Args:
            key: Key of the object.
            rows: Number of rows.
            at: Seconds after the newest object so far; negative for an object that arrives late.
            is_bad: Whether the last row is invalid.
        """
        version = Version(key, self.next_id, rows, is_bad)
        self.next_id += rows
        if key in self.current:
            self.earlier = (*self.earlier, self.current[key])
        self.current[key] = version
        changed = self.newest + timedelta(seconds=at)
        self.newest = max(self.newest, changed)
        return version, changed

    def completed(self) -> None:
        """Record that an undisturbed run has finished."""
        self.due = self.due | frozenset(self.current.values())

    def emptied(self) -> None:
        """Record that the table was emptied: it must contain the current versions after the next run."""
        self.due = frozenset()

    def compare(self, found: Counter[int]) -> Comparison:
        """Compare the ids in the table with the expected ones.

        A version that was replaced before any run finished may have all, some or none of its rows in the table.
        """
        required = [i for version in {*self.due, *self.current.values()} for i in version.required]
        possible = {i for version in (*self.earlier, *self.current.values()) for i in version.ids}
        lost = sum(1 for i in required if not found[i])
        doubled = sum(count - 1 for i, count in found.items() if i in possible)
        return Comparison(lost, doubled + sum(count for i, count in found.items() if i not in possible))


def columns_beyond(columns: Iterable[str], allowed: Iterable[str]) -> list[str]:
    """Return the table's columns that were not selected, except those that the tap adds."""
    return sorted(name for name in {*columns} - {*allowed} if not name.startswith("_sdc_"))
