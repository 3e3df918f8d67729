"""Columnar files that differ from their stream's schema: new columns, other types, invalid values."""

from __future__ import annotations

import json
import logging
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import WRITERS

from singer_arrow.errors import DataError, DriftError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress
from singer_arrow.schema.arrow_schema import json_field

RESCUE = json_field(RESCUED)
NAMES = ["a.parquet", "a.arrow", "a.avro", "a.orc"]
each = pytest.mark.parametrize("name", NAMES)


class Reading:
    """One reading of a file, up to its end or first error."""

    def __init__(self, objects: Any, name: str, table: pa.Table, schema: pa.Schema, **options: Any) -> None:
        self.progress, self.rows, self.error = ReadProgress(), list[dict[str, Any]](), None
        known = options.pop("known_columns", frozenset(schema.names))
        reader = objects.reader(WRITERS[name[2:]](table, **options.pop("file", {})), name)
        batches = FORMATS[name[2:]].read(reader, schema, ReadOptions(known_columns=known, **options), self.progress)
        try:
            for batch in batches:
                batch.validate(full=True)
                assert batch.schema.equals(schema, check_metadata=True)
                self.rows += batch.to_pylist()
        except DataError as error:
            self.error: Any = error

    @property
    def counts(self) -> tuple[int, int]:
        return self.progress.skipped, self.progress.rescued

    @property
    def rescued(self) -> list[Any]:
        return [None if row[RESCUED] is None else json.loads(row[RESCUED]) for row in self.rows]


NEWS = pa.table({"id": [1, 2, 3], "x": [1.5, None, float("nan")], "o": [{"k": [1]}, None, {"k": None}]})
ID = pa.schema([("id", pa.int64())])


@each
def test_a_new_column_is_raised_before_the_first_batch(objects: Any, name: str) -> None:
    found = Reading(objects, name, NEWS, ID, on_drift="raise", on_bad_row="rescue")
    assert isinstance(found.error, DriftError)
    assert found.error.fields == (pa.field("x", pa.float64()), pa.field("o", NEWS.schema.field("o").type))
    assert f"{name}, column 'x': the file has new columns: 'x' (double), 'o' (struct<" in str(found.error)
    assert not found.rows
    wider = Reading(objects, name, NEWS, pa.schema([*ID, *found.error.fields]), on_drift="raise")
    assert [row["id"] for row in wider.rows] == [1, 2, 3]


@each
def test_new_columns_are_rescued_where_they_have_values(objects: Any, name: str, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING):
        found = Reading(objects, name, NEWS, pa.schema([*ID, RESCUE]), on_drift="rescue")
    assert found.rescued == [{"x": 1.5, "o": {"k": [1]}}, None, {"x": "NaN", "o": {"k": None}}]
    assert found.counts == (0, 2)
    assert "has what the schema lacks: 'x', 'o'" in caplog.text


@each
def test_what_is_known_is_no_news(objects: Any, name: str) -> None:
    for known in (None, frozenset({"id", "x", "o"})):
        for drift in ("raise", "rescue"):
            found = Reading(objects, name, NEWS, pa.schema([*ID, RESCUE]), known_columns=known, on_drift=drift)
            assert [row["id"] for row in found.rows] == [1, 2, 3]
            assert [row[RESCUED] for row in found.rows] == [None] * 3
    assert Reading(objects, name, NEWS, ID, on_drift="ignore").rows == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_column_of_nulls_is_no_news(objects: Any) -> None:
    table = pa.table({"id": [1], "n": pa.nulls(1)})
    assert Reading(objects, "a.parquet", table, ID, on_drift="raise").rows == [{"id": 1}]


DEEP = pa.schema([("o", pa.struct([("a", pa.int64()), ("l", pa.list_(pa.struct([("b", pa.string())])))]))])
DEEPER = pa.table({"o": pa.array(
    [
        {"a": 1, "l": [{"b": "x", "c": None}], "d": None},
        {"a": 2, "l": [{"b": "y", "c": None}, {"b": "z", "c": True}], "d": None},
        None,
        {"a": 3, "l": None, "d": "news"},
        {"a": 4, "l": [{"b": "w", "c": False}], "d": "more"},
    ],
    pa.struct([
        ("a", pa.int64()), ("l", pa.list_(pa.struct([("b", pa.string()), ("c", pa.bool_())]))), ("d", pa.string()),
    ]),
)})  # fmt: skip


@each
def test_new_members_are_drift_too(objects: Any, name: str) -> None:
    found = Reading(objects, name, DEEPER, DEEP, on_drift="raise")
    assert isinstance(found.error, DriftError)
    (wider,) = found.error.fields
    assert {f.name for f in wider.type} == {"a", "l", "d"}
    again = Reading(objects, name, DEEPER, pa.schema([wider]), on_drift="raise")
    assert [row["o"] and row["o"]["d"] for row in again.rows] == [None, None, None, "news", "more"]


@each
def test_objects_with_new_members_are_rescued_whole(objects: Any, name: str) -> None:
    found = Reading(objects, name, DEEPER, pa.schema([*DEEP, RESCUE]), on_drift="rescue")
    whole = DEEPER["o"].to_pylist()
    assert found.rescued == [None, {"o": whole[1]}, None, {"o": whole[3]}, {"o": whole[4]}]
    assert [row["o"] and row["o"]["a"] for row in found.rows] == [1, 2, None, 3, 4]
    assert found.counts == (0, 3)
    some = Reading(
        objects, name, DEEPER, pa.schema([*DEEP, RESCUE]), on_drift="rescue", excluded_members=frozenset({"o.d"})
    )
    assert some.counts == (0, 2)
    assert (
        Reading(objects, name, DEEPER, DEEP, on_drift="raise", excluded_members=frozenset({"o.d", "o.l.c"})).error
        is None
    )


def test_members_of_maps_and_slices_are_rescued(objects: Any) -> None:
    t = pa.map_(pa.string(), pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    values = [[("k", {"a": i, "b": i if i % 3 == 0 else None})] if i % 2 else None for i in range(20)]
    schema = pa.schema([("m", pa.map_(pa.string(), pa.struct([("a", pa.int64())]))), RESCUE])
    table = pa.table({"m": pa.array(values, t)})
    found = Reading(objects, "a.arrow", table, schema, on_drift="rescue", batch_rows=7)
    assert [i for i, row in enumerate(found.rescued) if row] == [3, 9, 15]
    assert found.rescued[9] == {"m": {"k": {"a": 9, "b": 9}}}


INTEGERS = pa.schema([("id", pa.int64()), ("v", pa.int64())])
BAD = pa.table({"id": range(6), "v": [1.0, 2.5, None, 4.0, float("inf"), 6.0]})


@each
def test_doubles_in_integers_are_drift_from_the_first_that_does_not_fit(objects: Any, name: str) -> None:
    whole = BAD.set_column(1, "v", [[1.0, 2.0, None, 4.0, 5.0, 6.0]])
    fine = Reading(objects, name, whole, INTEGERS, on_drift="raise", on_bad_row="skip")
    assert [row["v"] for row in fine.rows] == [1, 2, None, 4, 5, 6]
    found = Reading(objects, name, BAD, INTEGERS, on_drift="raise", on_bad_row="skip")
    assert isinstance(found.error, DriftError)
    assert found.error.fields == (pa.field("v", pa.float64()),)
    assert "column 'v': the file has it as double, the schema as int64. Set the column's type" in str(found.error)


def test_drift_is_raised_after_the_batches_before_it(objects: Any) -> None:
    table = pa.table({"id": range(6), "v": [1.0, 2.0, 3.0, 4.0, 5.5, 6.0], "w": ["1", "2", "3", "4", "x", "6"]})
    schema = pa.schema([*INTEGERS, ("w", pa.int64())])
    found = Reading(objects, "a.parquet", table, schema, on_drift="raise", file={"row_group_size": 2})
    assert [row["id"] for row in found.rows] == [0, 1, 2, 3]
    assert found.error.fields == (pa.field("v", pa.float64()), pa.field("w", pa.string()))
    assert found.error.row_group == 2
    assert (found.progress.resume_point.rows, found.progress.resume_point.at) == (4, 2)


@each
def test_values_that_do_not_fit_are_rescued(objects: Any, name: str, caplog: Any) -> None:
    for options in ({"on_drift": "rescue"}, {"on_bad_row": "rescue"}):
        caplog.clear()
        found = Reading(objects, name, BAD, pa.schema([*INTEGERS, RESCUE]), **options)
        assert [row["v"] for row in found.rows] == [1, None, None, 4, None, 6]
        assert found.rescued == [None, {"v": 2.5}, None, None, {"v": "Infinity"}, None]
        assert found.counts == (0, 2)
        assert [r.message.rpartition(": ")[2] for r in caplog.records] == [
            "2.5 is not an integer",
            "inf is not an integer",
        ]


@each
def test_rows_with_values_that_do_not_fit_are_skipped(objects: Any, name: str) -> None:
    found = Reading(objects, name, BAD, INTEGERS, on_bad_row="skip")
    assert [row["id"] for row in found.rows] == [0, 2, 3, 5]
    assert found.counts == (2, 0)
    assert found.progress.resume_point.rows == 4
    failed = Reading(objects, name, BAD, INTEGERS)
    assert type(failed.error) is DataError
    assert "column 'v': 2.5 is not an integer" in str(failed.error)


def test_integers_are_drift_once_a_float_column_cannot_hold_one(objects: Any) -> None:
    schema = pa.schema([("v", pa.float64()), RESCUE])
    assert Reading(objects, "a.parquet", pa.table({"v": [1, 2**53]}), schema, on_drift="raise").error is None
    table = pa.table({"v": [2**53, 2**53 + 1]})
    found = Reading(objects, "a.parquet", table, schema, on_drift="raise")
    assert isinstance(found.error, DriftError)
    assert found.error.fields == (pa.field("v", pa.string()),)
    rescued = Reading(
        objects, "a.parquet", table, schema, on_drift="raise", on_bad_row="rescue", declared_columns={"v"}
    )
    assert rescued.rescued == [None, {"v": 2**53 + 1}], "its type is set"


def test_a_large_integer_within_an_object_makes_text_of_its_member_alone(objects: Any) -> None:
    table = pa.table({"o": [{"x": 2**53 + 1, "y": 1}]})
    schema = pa.schema([("o", pa.struct({"x": pa.float64(), "y": pa.int64()}))])
    found = Reading(objects, "a.parquet", table, schema, on_drift="raise")
    assert found.error.fields[0].type == pa.struct({"x": pa.string(), "y": pa.int64()})


def test_many_bad_rows_are_counted_and_some_are_logged(objects: Any, caplog: Any) -> None:
    table = pa.table({"a": [f"x{i}" if i % 2 else str(i) for i in range(1000)], "b": [i / 4 for i in range(1000)]})
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    found = Reading(objects, "a.parquet", table, schema, on_bad_row="skip", batch_rows=300)
    assert found.rows == [{"a": i, "b": i // 4} for i in range(0, 1000, 4)]
    assert found.counts == (750, 0)
    assert len(caplog.records) == 10
    assert "counted only" in caplog.records[-1].message


def test_values_that_fit_each_for_itself_are_kept_all(objects: Any) -> None:
    texts = ["2024-01-01 12", "2024-01-01T12:00:00Z", "x", "2024-01-01T12:00+02:00"] * 3  # an hour alone, zones, none
    schema = pa.schema([("t", pa.timestamp("us", "UTC")), RESCUE])
    found = Reading(objects, "a.parquet", pa.table({"t": texts}), schema, on_bad_row="rescue")
    assert [row["t"] and row["t"].hour for row in found.rows] == [12, 12, None, 10] * 3


def test_batches_without_a_good_row_are_left_out(objects: Any) -> None:
    table = pa.table({"a": ["x"] * 50 + ["1"] * 10 + ["x"] * 40})
    found = Reading(objects, "a.parquet", table, pa.schema([("a", pa.int64())]), on_bad_row="skip", batch_rows=10)
    assert found.rows == [{"a": 1}] * 10
    assert found.counts == (90, 0)


def test_all_kinds_of_values_are_rescued_as_json(objects: Any) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    table = pa.table({
        "d": pa.array([Decimal("1.10")], pa.decimal128(38, 2)),
        "t": pa.array([datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)], pa.timestamp("ms", "UTC")),
        "day": [date(2024, 1, 2)],
        "b": [b"\x00\xff"],
        "e": pa.array(["a"]).dictionary_encode(),
        "l": [[1, None]],
        "yes": [True],
        "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        "text": ['q"é'],
        "u": pa.array([2**64 - 1], pa.uint64()),
    })  # fmt: skip
    schema = pa.schema([("id", pa.int64()), RESCUE])
    found = Reading(objects, "a.parquet", table, schema, on_drift="rescue")
    assert found.rows[0][RESCUED] == (
        '{"d":1.10,"t":"2024-01-02T03:04:05.000000Z","day":"2024-01-02","b":"AP8=","e":"a","l":[1,null],'
        '"yes":true,"m":{"k":1},"text":"q\\"é","u":18446744073709551615}'
    )
    as_bad = pa.schema([*((n, pa.null()) for n in table.column_names), RESCUE])
    assert Reading(objects, "a.parquet", table, as_bad, on_bad_row="rescue").rows[0][RESCUED] == found.rows[0][RESCUED]


@each
def test_the_rest_of_a_course_has_the_same_rescues(objects: Any, name: str) -> None:
    schema, options = pa.schema([*INTEGERS, RESCUE]), ReadOptions(on_bad_row="rescue", batch_rows=2)
    first, places, progress = [], [], ReadProgress()
    for batch in FORMATS[name[2:]].read(objects.reader(WRITERS[name[2:]](BAD), name), schema, options, progress):
        first.append(batch)
        places.append(progress.resume_point)
    for i, place in enumerate(places):
        reader = objects.reader(WRITERS[name[2:]](BAD), name)
        rest = FORMATS[name[2:]].read(reader, schema, options, ReadProgress(resume_point=place))
        assert list(rest) == first[i + 1 :]


def test_rescued_is_a_column_like_any_other_where_nothing_is_rescued(objects: Any) -> None:
    table = pa.table({"id": [1], RESCUED: ["mine"]})
    assert Reading(objects, "a.parquet", table, pa.schema([*ID, RESCUE])).rows == [{"id": 1, RESCUED: '"mine"'}]


def _as_text(values: list[bytes | None]) -> pa.Array:
    """Return a text column with these bytes, which need not be UTF-8."""
    column = pa.array(values, pa.binary())
    return pa.StringArray.from_buffers(len(column), *column.buffers()[1:], column.buffers()[0], column.null_count)


@pytest.mark.parametrize("name", ["a.parquet", "a.orc"])
def test_text_that_is_not_utf8_does_not_fit(objects: Any, name: str) -> None:
    halves = "é".encode()  # in two rows: only both together are valid UTF-8
    text = _as_text([b"fine", b"caf\xe9", None, "é".encode(), halves[:1], halves[1:]])
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4, 5, 6], pa.int32()), text)
    table = pa.table({"id": range(6), "t": text, "l": nested})
    schema = pa.schema([("id", pa.int64()), ("t", pa.string()), ("l", pa.list_(pa.string())), RESCUE])
    found = Reading(objects, name, table, schema, on_bad_row="rescue")
    assert [row["t"] for row in found.rows] == ["fine", None, None, "é", None, None]
    assert found.rescued[1] == {"t": "caf\\xe9", "l": ["caf\\xe9"]}
    assert [row is None for row in found.rescued] == [True, False, True, True, False, False]
    skipped = Reading(objects, name, table, schema, on_bad_row="skip")
    assert [row["id"] for row in skipped.rows] == [0, 2, 3]
    failed = Reading(objects, name, table, schema)
    assert r"column 't': 'caf\\xe9' is not UTF-8" in str(failed.error)
    new = Reading(objects, name, table, pa.schema([*ID, RESCUE]), on_drift="rescue")
    assert new.rescued[1] == {"t": "caf\\xe9", "l": ["caf\\xe9"]}


@pytest.mark.parametrize("name", [n for n in NAMES if n != "a.avro"])  # Avro allows no such file
def test_duplicate_names_are_an_error(objects: Any, name: str) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["id", "a", "a"])
    for drift in ("raise", "rescue"):
        found = Reading(objects, name, twice, pa.schema([*ID, RESCUE]), on_drift=drift)
        assert f"{name}, column 'a': the file has it twice. Rename one" in str(found.error)
    assert Reading(objects, name, twice, ID).rows == [{"id": 1}]
