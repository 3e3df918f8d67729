"""The objects that the tap reads, in all their versions, and which rows of them a table must hold. Pure."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from fault_suite.source import Stand

COLUMNS = ("id", "name", "amount", "email")
TYPES = {"id": "integer", "name": "string", "amount": "number", "email": "string"}
ROWS_EACH = 4
_GROUP = 10
"""Rows of a row group in Parquet: few, so that a large object is cut into several batch files."""
_LONG = 3_000
"""Characters of a name in Parquet, so that a batch file is larger than the log of a run."""


@dataclass(frozen=True)
class Version:
    """An object in one version.

    Attributes:
        key: of the object.
        first: the id of its first row; no other version has any of its ids.
        rows: how many it has.
        is_bad: whether its last row has an amount that is no number; that row may be missing from the table.
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
        """The ids of rows that are good."""
        return self.ids[:-1] if self.is_bad else self.ids

    def data(self) -> bytes:
        """The object's bytes: Parquet or CSV, as its key says."""
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
        newest: when the newest object was changed.
        current: the newest version of each object.
        earlier: versions that were replaced.
        due: versions that were current while an undisturbed run came to its end: the table must hold them whole.
    """

    newest: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1))
    current: dict[str, Version] = field(default_factory=dict)
    earlier: tuple[Version, ...] = ()
    due: frozenset[Version] = frozenset()
    next_id: int = 1

    def copy(self) -> Lake:
        """A copy."""
        return replace(self, current=dict(self.current))

    def write(self, key: str, *, rows: int, at: int, is_bad: bool = False) -> tuple[Version, datetime]:
        """A new version of an object, and when it was changed.

        Args:
            key: Of the object.
            rows: How many it has.
            at: Seconds after the newest object so far; negative: it comes late.
            is_bad: Whether its last row does not fit.
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
        """Note that an undisturbed run has come to its end."""
        self.due = self.due | frozenset(self.current.values())

    def emptied(self) -> None:
        """Note that the table was emptied: it must hold what is current, once that is read again."""
        self.due = frozenset()

    def compare(self, found: Counter[int]) -> Stand:
        """Compare the ids in the table with those that it must hold.

        Of a version that was replaced before any run came to its end there may be all rows, some or none.
        """
        required = [i for version in {*self.due, *self.current.values()} for i in version.required]
        possible = {i for version in (*self.earlier, *self.current.values()) for i in version.ids}
        lost = sum(1 for i in required if not found[i])
        doubled = sum(count - 1 for i, count in found.items() if i in possible)
        return Stand(lost, doubled + sum(count for i, count in found.items() if i not in possible))


def columns_beyond(columns: Iterable[str], allowed: Iterable[str]) -> list[str]:
    """Columns that were not wanted; the tap's own do not count."""
    return sorted(name for name in {*columns} - {*allowed} if not name.startswith("_sdc_"))
