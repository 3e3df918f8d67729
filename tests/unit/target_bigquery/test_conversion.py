"""Conversion of batches to the table's names and units, with the columns that files lack."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError
from singer_arrow.load.convert import ORDER_BITS
from target_bigquery.columns import columns_of
from target_bigquery.conversion import Conversion, check_values, loads_as_it_is
from target_bigquery.types import TableColumn

NESTED = pa.struct(
    [pa.field("a:b", pa.int64()), pa.field("l", pa.list_(pa.struct([("x y", pa.timestamp("ns", "UTC"))])))]
)
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("ns", "UTC")), pa.field("s", NESTED)])


def conversion(schema: pa.Schema, **options: Any) -> Conversion:
    return Conversion(columns_of(schema), schema, **options)


def convert(rows: list[dict[str, Any]], schema: pa.Schema, **options: Any) -> list[dict[str, Any]]:
    made = conversion(schema, **options)
    batches = pa.Table.from_pylist(rows, made.read_schema).to_batches(max_chunksize=2)
    return pa.Table.from_batches(list(made.all_batches([("file", batches)]))).to_pylist()


def test_names_and_nanoseconds_at_every_depth() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 123456, UTC)
    rows = [
        {"id": 1, "at": moment, "s": {"a:b": 2, "l": [{"x y": moment}, {"x y": None}]}},
        {"id": 2, "at": None, "s": None},
        {"id": 3, "at": moment, "s": {"a:b": None, "l": []}},
    ]
    got = convert(rows, SCHEMA)
    assert got == [
        {"id": 1, "at": moment, "s": {"a_b": 2, "l": [{"x_y": moment}, {"x_y": None}]}},
        {"id": 2, "at": None, "s": None},
        {"id": 3, "at": moment, "s": {"a_b": None, "l": []}},
    ]


def test_what_is_finer_than_a_microsecond_is_cut_off() -> None:
    schema = pa.schema([("t", pa.timestamp("ns", "UTC"))])
    batch = pa.record_batch([pa.array([1_999, -1], pa.int64()).cast(schema.field(0).type)], schema=schema)
    (made,) = conversion(schema).all_batches([("file", [batch])])
    assert made.column(0).cast(pa.int64()).to_pylist() == [1, -1]


def test_integers_become_floats_only_where_those_hold_them() -> None:
    """Also from JSON, whose readers would round them."""
    item = pa.struct([("x y", pa.int64()), ("z", pa.string())])
    schema = pa.schema([("a", pa.int32()), ("r", pa.list_(item))])
    table = [TableColumn("a", "FLOAT"), TableColumn("r", "RECORD", "REPEATED", (TableColumn("x_y", "FLOAT"),))]
    made = Conversion(columns_of(schema, existing=table), schema)
    assert made.read_schema == schema
    lists: list[Any] = [[{"x y": 2**53, "z": "s"}, {"x y": None, "z": "t"}], None, [], [{"x y": -1, "z": None}], None]
    batch = pa.RecordBatch.from_pylist([{"a": n, "r": r} for n, r in enumerate(lists)], schema)
    for start in range(len(lists)):
        (got,) = made.all_batches([("file", [batch.slice(start)])])
        renamed = [r and [{"x_y": x["x y"], "z": x["z"]} for x in r] for r in lists[start:]]
        assert got.to_pylist() == [{"a": float(start + n), "r": r} for n, r in enumerate(renamed)]
        assert got.schema == made.upload_schema
    bad = {"a": 0, "r": [{"x y": 2**53 + 1}]}
    with pytest.raises(DataError, match=r"file, row 2, column 'r': Integer value 9007199254740993 not in range"):
        list(made.all_batches([("file", [pa.RecordBatch.from_pylist([{"a": 1}, bad], schema)])]))


def test_constants_are_in_every_row_and_are_not_read() -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("_sdc_received_at", pa.timestamp("us", "UTC")), ("_sdc_table_version", pa.int64())]
    )
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    constants = {"_sdc_received_at": moment, "_sdc_table_version": None}
    assert conversion(schema, constants=constants).read_schema.names == ["id"]
    assert convert([{"id": n} for n in range(3)], schema, constants=constants) == [
        {"id": n, "_sdc_received_at": moment, "_sdc_table_version": None} for n in range(3)
    ]


def test_row_orders_continue_over_batches_and_files() -> None:
    schema = pa.schema([("id", pa.int64())])
    made = conversion(schema, place=3)
    batches = pa.table({"id": list(range(5))}).to_batches(max_chunksize=2)
    files = [("a", batches), ("b", batches[:1])]
    order = pa.Table.from_batches(list(made.all_batches(files))).column("_sdc_order").to_pylist()
    assert order == [(3 << ORDER_BITS) + n for n in range(7)]


def test_a_null_key_is_refused() -> None:
    schema = pa.schema([("id", pa.int64())])
    with pytest.raises(DataError, match=r"file, row \d, column 'id': a key property is null"):
        convert([{"id": 1}, {"id": None}], schema, keys=("id",))


@pytest.mark.parametrize(
    "value", [{"l": [1, None]}, {"s": {"l": [None]}}, {"m": [{"l": []}, None]}, {"m": [{"l": [None]}]}]
)
def test_a_null_in_a_list_is_refused(value: dict[str, Any]) -> None:
    items = pa.list_(pa.int64())
    inner = pa.struct([("l", items)])
    schema = pa.schema([("l", items), ("s", inner), ("m", pa.list_(inner))])
    with pytest.raises(DataError, match=r"a list holds a null.*nested: json"):
        convert([{"l": [1], "s": None}, value], schema)


COLUMNS = pa.schema(
    [
        *(("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_()), ("t", pa.string()), ("y", pa.binary())),
        *(("d", pa.date32()), ("c", pa.time64("us")), ("z", pa.timestamp("us", "UTC")), ("n", pa.decimal128(12, 2))),
        *(("l", pa.list_(pa.int64())), ("s", pa.struct([("a", pa.int64())]))),
    ]
)


def test_files_that_load_as_they_are() -> None:
    assert loads_as_it_is(COLUMNS, columns_of(COLUMNS))
    assert loads_as_it_is(pa.schema(list(COLUMNS)[::-1]), columns_of(COLUMNS))


@pytest.mark.parametrize(
    ("name", "given", "fits"),
    [
        ("i", pa.int8(), True),
        ("i", pa.uint32(), True),
        ("i", pa.uint64(), False),
        ("i", pa.float64(), False),
        ("f", pa.float32(), True),
        ("f", pa.float16(), False),
        ("t", pa.large_string(), True),
        ("t", pa.dictionary(pa.int32(), pa.string()), False),
        ("d", pa.timestamp("us"), False),
        ("c", pa.time64("ns"), False),
        ("c", pa.time32("ms"), True),
        ("z", pa.timestamp("us"), False),
        ("z", pa.timestamp("ns", "UTC"), False),
        ("z", pa.timestamp("ms", "Europe/Berlin"), True),
        ("z", pa.string(), False),
        ("n", pa.decimal128(38, 9), True),
        ("n", pa.decimal128(38, 10), False),
        ("n", pa.float64(), False),
        ("l", pa.int64(), False),
        ("s", pa.struct([("b", pa.int64())]), False),
        ("s", pa.struct([("a", pa.string())]), False),
    ],
    ids=str,
)
def test_what_must_be_rewritten(name: str, given: pa.DataType, fits: bool) -> None:
    file = pa.schema([f.with_type(given) if f.name == name else f for f in COLUMNS])
    assert loads_as_it_is(file, columns_of(COLUMNS)) == fits


def test_other_names_must_be_rewritten() -> None:
    columns = columns_of(COLUMNS)
    assert not loads_as_it_is(COLUMNS.remove(0), columns)
    assert not loads_as_it_is(COLUMNS.append(pa.field("more", pa.int64())), columns)
    odd = pa.schema([("a b", pa.int64())])
    assert not loads_as_it_is(odd, columns_of(odd))
    assert not loads_as_it_is(
        pa.schema([("a", pa.int64()), ("a", pa.int64())]), columns_of(pa.schema([("a", pa.int64())]))
    )


@pytest.mark.parametrize("t", [pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC"), pa.date32()], ids=str)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: [{"x": v}]], ids=["plain", "list", "records"])
def test_years_that_bigquery_does_not_have_are_refused(t: pa.DataType, wrap: Any) -> None:
    inner = pa.struct([("x", t)])
    given = {0: t, 1: pa.list_(t), 2: pa.list_(inner)}[str(wrap(0)).count("[") + str(wrap(0)).count("{")]
    (column,) = columns_of(pa.schema([("a", given)]))
    good, bad = (2_932_896, 2_932_897) if t == pa.date32() else (0, 253_402_300_800_000_000)
    check_values(pa.array([wrap(good), None], given), column, "f")
    if t == pa.timestamp("ns", "UTC"):
        return  # nanoseconds end in the year 2262
    with pytest.raises(DataError, match=r"f, column 'a': a date lies outside the years 1 to 9999.*type to string"):
        check_values(pa.array([wrap(good), wrap(bad)], given), column, "f")
