"""Which rows of a table a MERGE need not read, by constants in its ON clause. Pure.

BigQuery leaves out partitions, and blocks of a clustered table, in which no value can meet a constant condition. A row
that is to be updated has the key of a staged row, so a bound on a key column holds it, whatever else it has. A bound on
another column holds it only if that never changes for a key; so there is one for the column of the partitions alone,
and only if setting keys_stay_in_partition is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from singer_arrow.load.staging import Extent, Grid
from target_bigquery.resources import Partitioning, Table
from target_bigquery.sql import ColumnRanges
from target_bigquery.types import Column

MOST_SPANS = 12
"""In the text of a MERGE."""
LONGEST_TEXT = 256
_KINDS = ("INTEGER", "DATE", "TIMESTAMP", "STRING")
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_FIRST_DAY, _AFTER_LAST_DAY = -719_162, 2_932_897
"""0001-01-01 and 10000-01-01, as days since 1970."""
_EPOCH_DAY, _EPOCH = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)


def watched(
    table: Table, columns: Sequence[Column], keys: Sequence[str], *, keys_stay: bool = False
) -> dict[str, Grid | None]:
    """Return the columns whose values bound a MERGE, with the cells of the partitions.

    `keys_stay`: rows of a key never go to another partition. Those do whose values go into a variant.
    """
    have = {c.name: c for c in columns if c.kind in _KINDS and not c.repeated}
    found = dict[str, Grid | None]()
    collated = {f["name"] for f in table.fields if f.get("collation")}  # whose texts are compared by other rules
    for name in table.clustered_by:
        if name in keys and name in have and name not in collated:
            found[name] = None
    parts = table.partitions
    stay = keys_stay and not any(parts and c.variant_of == parts.column for c in table.columns)
    if parts and parts.column in have and (parts.column in keys or stay):
        found[parts.column] = grid(parts, have[parts.column].kind)
    return found


def grid(partitions: Partitioning, kind: str) -> Grid | None:
    """Return the cells of partitions; a day is a cell for partitions of months and years too."""
    if kind == "DATE":
        return Grid(_FIRST_DAY, 1, _AFTER_LAST_DAY)
    if kind == "TIMESTAMP":
        return Grid(_FIRST_DAY * _DAY, _HOUR if partitions.unit == "HOUR" else _DAY, _AFTER_LAST_DAY * _DAY)
    if partitions.cells:
        start, end, width = partitions.cells
        return Grid(start, width, end)
    return None


def bounds(extents: Mapping[str, Extent], columns: Sequence[Column], keys: Sequence[str]) -> tuple[ColumnRanges, ...]:
    """Return the bounds of a MERGE.

    There is none of a column whose values cannot be written as literals, and none of one that is no key where a value
    is null: a row that marks its key as deleted often has only the key, so its partition is unknown.
    """
    kinds = {c.name: c.kind for c in columns}
    found = []
    for name, extent in extents.items():
        if extent.has_nulls and name not in keys:
            continue
        spans = [tuple(value_literal(end, kinds[name]) for end in span) for span in extent.spans(MOST_SPANS)]
        written = tuple((low, high) for low, high in spans if low and high)
        if written and len(written) == len(spans):
            found.append(ColumnRanges(name, written))
    return tuple(found)


def value_literal(value: object, kind: str) -> str | None:
    """Return a value as a SQL literal; None if it should not be written."""
    if isinstance(value, str):
        is_plain = len(value) <= LONGEST_TEXT and value.isprintable()
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'" if is_plain else None
    if not isinstance(value, int):
        return None
    try:
        if kind == "DATE":
            return f"DATE '{_EPOCH_DAY + timedelta(days=value)}'"
        if kind == "TIMESTAMP":
            return f"TIMESTAMP '{(_EPOCH + timedelta(microseconds=value)).isoformat(' ', 'microseconds')}'"
    except OverflowError:
        return None
    return str(value)
