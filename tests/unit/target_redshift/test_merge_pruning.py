"""Bounds of a MERGE in Redshift: literals of types whose order is consistent with equality."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from target_redshift import sql
from target_redshift.columns import columns_of
from target_redshift.merge_pruning import Bound, bound, can_bound

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("weight", pa.float64()),
        ("open", pa.time64("us")),
    ]
)
COLUMNS = {c.name: c for c in columns_of(SCHEMA)}


def test_which_columns_may_have_one() -> None:
    assert [name for name, c in COLUMNS.items() if can_bound(c)] == ["id", "day", "at", "price"]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("id", "-9223372036854775808", "5"),
        ("price", "-0.50", "12"),
        ("day", "1969-12-31", "2024-02-29"),
        ("at", "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
    ],
)
def test_values_are_written_as_redshift_writes_them(name: str, low: str, high: str) -> None:
    made = bound(COLUMNS[name], low, high)
    assert made == Bound(name, low, high, is_number=name in ("id", "price"))
    quoted = (low, high) if made.is_number else (f"'{low}'", f"'{high}'")
    text = sql.merge("s", "t", '"m"', [COLUMNS["name"], COLUMNS[name]], [name], bounds=[made])
    assert f' ON "t"."{name}" = _sdc_source."{name}" AND "t"."{name}" BETWEEN {quoted[0]} AND {quoted[1]} WHEN ' in text


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("id", None, None),
        ("id", "1", "1; DROP TABLE x"),
        ("id", "", "1"),
        ("price", "NaN", "NaN"),
        ("day", "0044-03-15 BC", "2024-01-01"),
        ("day", "2024-01-01", "10000-01-01"),
        ("at", "2024-01-01 00:00:00+01", "2024-01-01 00:00:00+01"),
        ("at", "-infinity", "infinity"),
    ],
)
def test_anything_else_is_no_bound(name: str, low: str | None, high: str | None) -> None:
    assert bound(COLUMNS[name], low, high) is None


def test_a_moment_without_zone() -> None:
    column = replace(COLUMNS["at"], kind="TIMESTAMP")
    assert bound(column, "2024-01-01 00:00:00", "2024-01-01 00:00:00.5")
    assert bound(column, "2024-01-01 00:00:00+00", "2024-01-01 00:00:00+00") is None
