"""Bounds of a MERGE: the columns that have them, and their SQL."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from google.cloud import bigquery
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.load.staging import Extent, Grid, integers
from target_bigquery import resources, sql
from target_bigquery.columns import columns_of
from target_bigquery.merge_pruning import bounds, value_literal, watched
from target_bigquery.resources import Partitioning, Table
from target_bigquery.sql import ColumnRanges
from target_bigquery.types import Column, TableColumn

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("big", pa.uint64()),
        ("tags", pa.list_(pa.string())),
    ]
)
COLUMNS = columns_of(SCHEMA)
FIELDS = tuple({"name": c.name, "type": c.kind} for c in COLUMNS)


def table(partitions: Partitioning | None = None, cluster: tuple[str, ...] = (), **field: Any) -> Table:
    fields = tuple({**f, **field} if f["name"] == "name" else f for f in FIELDS)
    return Table("t", (), fields, datetime.now(UTC), {}, partitions, cluster, None)


def test_a_key_is_bounded_where_the_table_goes_by_it() -> None:
    both = table(Partitioning("day", "DAY"), ("id", "name", "big", "at"))
    assert watched(both, COLUMNS, ("id", "day", "name", "big")) == {
        "id": None,
        "name": None,
        "day": Grid(-719_162, 1, 2_932_897),
    }
    assert watched(table(), COLUMNS, ("id", "day")) == {}


def test_another_column_is_bounded_only_where_it_never_changes() -> None:
    by_day = table(Partitioning("day", "MONTH"), ("at",))
    assert watched(by_day, COLUMNS, ("id",)) == {}
    assert list(watched(by_day, COLUMNS, ("id",), keys_stay=True)) == ["day"]
    without = tuple(c for c in COLUMNS if c.name != "day")
    assert watched(by_day, without, ("id",), keys_stay=True) == {}  # the place of the rows is unknown
    drifted = replace(
        by_day, columns=(TableColumn("day", "DATE"), TableColumn("day__string", "STRING", variant_of="day"))
    )
    assert watched(drifted, COLUMNS, ("id",), keys_stay=True) == {}  # rows with a day as text are in the null partition
    assert list(watched(drifted, COLUMNS, ("id", "day"), keys_stay=True)) == ["day"]


def test_texts_that_are_compared_by_other_rules_have_no_bound() -> None:
    assert watched(table(cluster=("name",), collation="und:ci"), COLUMNS, ("name",)) == {}
    assert list(watched(table(cluster=("name",), collation=""), COLUMNS, ("name",))) == ["name"]


@pytest.mark.parametrize(
    ("partitions", "width"),
    [
        (Partitioning("at", "HOUR"), 3_600_000_000),
        (Partitioning("at", "YEAR"), 86_400_000_000),
        (Partitioning("id", cells=(0, 100, 10)), 10),
        (Partitioning("id"), None),
    ],
)
def test_cells_are_those_of_the_partitions(partitions: Partitioning, width: int | None) -> None:
    found = watched(table(partitions), COLUMNS, (partitions.column,))[partitions.column]
    assert (found.width if found else None) == width


def test_how_a_table_is_partitioned() -> None:
    made = bigquery.Table("p.d.t", schema=[])
    made._properties["creationTime"] = "0"
    assert resources.table("t", made).partitions is None
    made.time_partitioning = bigquery.TimePartitioning(type_="HOUR", field="at")
    assert resources.table("t", made).partitions == Partitioning("at", "HOUR")
    made.time_partitioning = bigquery.TimePartitioning(type_="DAY")
    assert resources.table("t", made).partitions is None
    assert resources.table("t", made).filtered_by is None
    made.require_partition_filter = True
    assert resources.table("t", made).filtered_by == "_PARTITIONTIME"
    made.time_partitioning = None
    made.range_partitioning = bigquery.RangePartitioning(bigquery.PartitionRange(0, 100, 10), "id")
    found = resources.table("t", made)
    assert found.partitions == Partitioning("id", cells=(0, 100, 10))
    assert found.filtered_by == "id"


def read(text: str) -> Any:
    """Return the value of a literal as Arrow represents it."""
    if match := re.fullmatch(r"DATE '(.*)'", text):
        return (date.fromisoformat(match[1]) - date(1970, 1, 1)).days
    if match := re.fullmatch(r"TIMESTAMP '(.*)'", text):
        return (datetime.fromisoformat(match[1]) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if match := re.fullmatch(r"'((?:[^'\\\n]|\\['\\])*)'", text):
        return re.sub(r"\\(.)", r"\1", match[1])
    return int(text)


VALUES = {
    "INTEGER": ("id", st.integers(-(2**63), 2**63 - 1)),
    "DATE": ("day", st.dates()),
    "TIMESTAMP": ("at", st.datetimes()),
    "STRING": ("name", st.text() | st.sampled_from(["", "'", "\\", "\\'", "' OR TRUE --", "é", "\U0001f642"])),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_literals_hold_every_value_or_there_is_no_bound(kind: str, data: st.DataObject) -> None:
    name, values = VALUES[kind]
    drawn = pa.array(data.draw(st.lists(st.none() | values, min_size=1)), SCHEMA.field(name).type)
    grid = watched(table(Partitioning(name, "HOUR")), COLUMNS, (name,)).get(name)
    extent = Extent(grid)
    extent.add(drawn)
    for bound in bounds({name: extent}, COLUMNS, (name,)):
        spans = [(read(low), read(high)) for low, high in bound.spans]
        raw = integers(drawn.drop_null()).to_pylist()
        assert all(any(low <= value <= high for low, high in spans) for value in raw)


def test_what_is_not_written() -> None:
    assert value_literal("a\nb", "STRING") is None
    assert value_literal("x" * 257, "STRING") is None
    assert value_literal(3_000_000, "DATE") is None
    assert value_literal(2**62, "TIMESTAMP") is None
    far = Extent()
    far.add(pa.array([2**62], pa.int64()))
    assert bounds({"at": far}, COLUMNS, ("at",)) == ()


def test_a_null_in_a_column_that_is_no_key_prunes_nothing() -> None:
    extent = Extent()
    extent.add(pa.array([1, 5], pa.int64()))
    assert bounds({"id": extent}, COLUMNS, ("name",)) == (ColumnRanges("id", (("1", "5"),)),)
    extent.add(pa.array([None], pa.int64()))
    assert bounds({"id": extent}, COLUMNS, ("name",)) == ()
    assert bounds({"id": Extent()}, COLUMNS, ("id",)) == ()


def test_bounds_are_part_of_the_condition() -> None:
    (id_, day), keys = (c for c in COLUMNS if c.name in ("id", "day")), ("id", "day")
    found = (
        ColumnRanges("id", (("1", "5"),)),
        ColumnRanges("day", (("DATE '2024-01-01'", "DATE '2024-01-03'"), ("DATE '2024-02-01'",) * 2)),
    )
    text = sql.merge("`t`", "`s`", [id_, day], keys, rank="rank", bounds=found)
    assert (
        " ON t.`id` = s.`id` AND t.`day` = s.`day` AND t.`id` BETWEEN 1 AND 5 "
        "AND (t.`day` BETWEEN DATE '2024-01-01' AND DATE '2024-01-03' OR t.`day` = DATE '2024-02-01') "
        "WHEN MATCHED AND "
    ) in text


def test_deleted_rows_go_and_do_not_come() -> None:
    columns = [replace(COLUMNS[0]), Column("gone", "gone", "TIMESTAMP", pa.timestamp("us", "UTC"))]
    text = sql.merge("`t`", "`s`", columns, ["id"], rank="rank", deleted="gone")
    newer = re.search(r"WHEN MATCHED AND (\(t\.`rank` > s\.`rank` AND .*?) IS NOT TRUE", text)
    assert newer is not None
    assert text.partition(" ON ")[2] == (
        f"t.`id` = s.`id` WHEN MATCHED AND {newer[1]} IS NOT TRUE AND s.`gone` IS NOT NULL THEN DELETE "
        f"WHEN MATCHED AND {newer[1]} IS NOT TRUE THEN UPDATE SET "
        "`gone`=s.`gone` WHEN NOT MATCHED AND s.`gone` IS NULL THEN INSERT (`id`,`gone`) VALUES (s.`id`,s.`gone`)"
    )
