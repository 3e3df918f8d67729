"""Checks the dates of a Parquet file by the statistics in its footer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.spelling import beyond_years
from target_bigquery.types import Column


def columns_to_check(footer: Any, columns: Sequence[Column]) -> list[Column]:
    """Return the columns but those of dates that are, by the statistics of the footer, all of the years 1 to 9999.

    The file has the columns under the names of their properties.
    """
    if not footer.num_rows:
        return []
    has_bad = dict(_dates(footer))
    return [c for c in columns if has_bad.get(c.source) is not False]


def has_bad_dates(footer: Any) -> bool:
    """Return whether there is a column of dates one of which is, by its statistics, of another year."""
    return bool(footer.num_rows) and any(bad for _, bad in _dates(footer))


def _dates(footer: Any) -> Iterator[tuple[str, bool | None]]:
    """Yield the columns of dates, and whether a date is outside the years 1 to 9999; None: unknown."""
    schema = footer.schema.to_arrow_schema()
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    leaves = {groups[0].column(n).path_in_schema: n for n in range(groups[0].num_columns)}
    for field in schema:
        if pt.is_timestamp(field.type) or pt.is_date(field.type):
            found = [_is_bad(group.column(leaves[field.name]), field.type) for group in groups]
            yield field.name, True if True in found else None if None in found else False


def _is_bad(chunk: Any, t: pa.DataType) -> bool | None:
    statistics = chunk.statistics
    if statistics is None:
        return None
    if statistics.has_null_count and statistics.null_count == chunk.num_values:
        return False
    if not statistics.has_min_max or not isinstance(statistics.min_raw, int):
        return None
    width = pa.int32() if pt.is_date32(t) else pa.int64()
    return beyond_years(pa.array([statistics.min_raw, statistics.max_raw], width).view(t))
