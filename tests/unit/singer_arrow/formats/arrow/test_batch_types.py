"""Types of Arrow batch files of any writer, in the types of SCHEMA: the values that Parquet and JSON Lines give."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from file_bytes import ipc, parquet

from singer_arrow.batch.files import read_file
from singer_arrow.errors import DataError
from singer_arrow.schema.arrow_schema import json_field
from singer_arrow.storage.store import Storage

Rows = list[Any]
JSON = object()
"""Marker of the type of JSON text."""
US = pa.timestamp("us", "UTC")
ID = UUID("12345678-1234-5678-1234-567812345678")
MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
CENTS = [Decimal("1.23"), None, Decimal("-9999999.99")]
LONG = Decimal("1234567890123456.78")
RUNS = pa.array([2, 3], pa.int32())


def extension(t: pa.DataType, values: Rows) -> pa.Array:
    return pa.ExtensionArray.from_storage(t, pa.array(values, t.storage_type))


def runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(RUNS, values)


def text(values: Rows) -> Rows:
    return [None if v is None else str(v) for v in values]


MIXED = pa.StructArray.from_arrays(
    [
        extension(pa.uuid(), [ID.bytes, None]),
        extension(pa.bool8(), [1, None]),
        pa.array(["a", "b"]).dictionary_encode(),
    ],
    ["u", "b", "d"],
)
CASES: dict[str, tuple[pa.Array, list[tuple[Any, Rows]]]] = {
    "decimal32": (
        pa.array(CENTS, pa.decimal32(9, 2)),
        [(pa.decimal128(9, 2), CENTS), (pa.string(), text(CENTS)), (pa.float64(), [1.23, None, -9999999.99])],
    ),
    "decimal64": (
        pa.array([LONG, None], pa.decimal64(18, 2)),
        [(pa.decimal128(38, 9), [LONG, None]), (pa.string(), text([LONG, None])), (JSON, text([LONG, None]))],
    ),
    "decimal64 of whole numbers": (pa.array([2**53 + 1], pa.decimal64(18, 0)), [(pa.int64(), [2**53 + 1])]),
    "decimal32 of hundreds": (pa.array([Decimal("123E2")], pa.decimal32(5, -2)), [(pa.int64(), [12300])]),
    "decimal256": (pa.array([Decimal("9" * 76)], pa.decimal256(76, 0)), [(pa.string(), ["9" * 76])]),
    "decimals in a list": (
        pa.array([[LONG], None, []], pa.list_view(pa.decimal64(18, 2))),
        [(pa.list_(pa.decimal128(38, 9)), [[LONG], None, []]), (JSON, [f"[{LONG}]", None, "[]"])],
    ),
    "arrow.json": (
        extension(pa.json_(), ['{"a":1.10}', None]),
        [(JSON, ['{"a":1.10}', None]), (pa.string(), ['{"a":1.10}', None])],
    ),
    "arrow.json of views": (extension(pa.json_(pa.string_view()), ["[1]", None]), [(JSON, ["[1]", None])]),
    "arrow.uuid": (
        extension(pa.uuid(), [ID.bytes, None]),
        [(pa.string(), [str(ID), None]), (JSON, [f'"{ID}"', None]), (pa.binary(), [ID.bytes, None])],
    ),
    "arrow.bool8": (
        extension(pa.bool8(), [1, None, 0]),
        [(pa.bool_(), [True, None, False]), (pa.string(), ["true", None, "false"]), (pa.int64(), [1, None, 0])],
    ),
    "arrow.opaque": (extension(pa.opaque(pa.string(), "geometry", "x"), ["POINT"]), [(pa.string(), ["POINT"])]),
    "extensions in an object": (
        MIXED,
        [
            (
                pa.struct([("u", pa.string()), ("b", pa.bool_()), ("d", pa.string())]),
                [{"u": str(ID), "b": True, "d": "a"}, {"u": None, "b": None, "d": "b"}],
            )
        ],
    ),
    "arrow.json in an object": (
        pa.StructArray.from_arrays([extension(pa.json_(), ['{"a":1.10}', None, "no JSON"])], ["j"]),
        [
            (JSON, ['{"j":{"a":1.10}}', '{"j":null}', '{"j":"no JSON"}']),
            (pa.struct([("j", pa.string())]), [{"j": '{"a":1.10}'}, {"j": None}, {"j": "no JSON"}]),
            (pa.struct([json_field("j")]), [{"j": '{"a":1.10}'}, {"j": None}, {"j": '"no JSON"'}]),
        ],
    ),
    "arrow.json in a list": (
        pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), extension(pa.json_(), ["[1]", None])),
        [(JSON, ["[[1],null]"]), (pa.list_(pa.string()), [["[1]", None]])],
    ),
    "dictionary": (pa.array(["a", None, "b"]).dictionary_encode(), [(pa.string(), ["a", None, "b"])]),
    "dictionary of views": (
        pa.DictionaryArray.from_arrays(pa.array([1, None], pa.uint32()), pa.array(["a", "b"], pa.string_view())),
        [(pa.string(), ["b", None])],
    ),
    "dictionary of numbers": (
        pa.array([1, None]).dictionary_encode(),
        [(pa.int64(), [1, None]), (pa.float64(), [1.0, None]), (JSON, ["1", None])],
    ),
    "dictionary of objects": (
        pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int8()), pa.array([{"a": 1}])),
        [(pa.struct([("a", pa.int64())]), [{"a": 1}, None, {"a": 1}])],
    ),
    "runs": (runs(pa.array(["x", None])), [(pa.string(), ["x", "x", None]), (JSON, ['"x"', '"x"', None])]),
    "runs of a dictionary": (runs(pa.array(["x", None]).dictionary_encode()), [(pa.string(), ["x", "x", None])]),
    "runs of decimals": (
        runs(pa.array([Decimal("1.5"), None], pa.decimal32(5, 2))),
        [(pa.decimal128(38, 9), [Decimal("1.5"), Decimal("1.5"), None])],
    ),
    "runs in a list": (
        pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), runs(pa.array(["x", None]))),
        [(pa.list_(pa.string()), [["x", "x"], [None]])],
    ),
    "text views": (
        pa.array(["short", None, "of more than twelve bytes"], pa.string_view()),
        [(pa.string(), ["short", None, "of more than twelve bytes"])],
    ),
    "binary views": (
        pa.array([b"\xff", None, b"of more than twelve bytes"], pa.binary_view()),
        [(pa.binary(), [b"\xff", None, b"of more than twelve bytes"])],
    ),
    "bytes as text": (pa.array([b"a", None]), [(pa.string(), ["a", None]), (JSON, ['"a"', None])]),
    "large": (
        pa.array([["x"], None, []], pa.large_list(pa.large_string())),
        [(pa.list_(pa.string()), [["x"], None, []])],
    ),
    "list views": (
        pa.array([["x"], None, []], pa.large_list_view(pa.string_view())),
        [(pa.list_(pa.string()), [["x"], None, []]), (JSON, ['["x"]', None, "[]"])],
    ),
    "lists of a size": (
        pa.array([[1, 2], None], pa.list_(pa.int16(), 2)),
        [(pa.list_(pa.int64()), [[1, 2], None])],
    ),
    "map": (
        pa.array([[("a", 1)], None, []], pa.map_(pa.large_string(), pa.int64())),
        [(pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, []]), (JSON, ['{"a":1}', None, "{}"])],
    ),
    "half": (pa.array([1.5, None], pa.float16()), [(pa.float64(), [1.5, None]), (pa.string(), ["1.5", None])]),
    "time of seconds": (pa.array([86399, None], pa.time32("s")), [(pa.time64("us"), [time(23, 59, 59), None])]),
    "time of milliseconds": (pa.array([1], pa.time32("ms")), [(pa.time64("us"), [time(0, 0, 0, 1000)])]),
    "time of nanoseconds": (pa.array([1999], pa.time64("ns")), [(pa.time64("us"), [time(0, 0, 0, 1)])]),
    "duration": (
        pa.array([1500, None], pa.duration("ms")),
        [(pa.int64(), [1500, None]), (pa.string(), ["1500", None])],
    ),
    "date of milliseconds": (pa.array([86400000], pa.date64()), [(pa.date32(), [date(1970, 1, 2)])]),
    "null": (
        pa.nulls(2),
        [(t, [None, None]) for t in (pa.int64(), pa.string(), JSON, pa.list_(pa.int64()), pa.struct([("a", US)]))],
    ),
    "uint64": (pa.array([2**64 - 1], pa.uint64()), [(pa.decimal128(38, 0), [Decimal(2**64 - 1)])]),
    **{
        f"timestamp of {unit}, {zone}": (pa.array([MOMENT, None], pa.timestamp(unit, zone)), [(US, [MOMENT, None])])
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "+05:30")
    },
}


def read(folder: Path, data: bytes, t: Any, file_format: str = "arrow") -> Rows:
    path = folder / f"file.{file_format}"
    path.write_bytes(data)
    schema = pa.schema([json_field("c") if t is JSON else pa.field("c", t)])
    batches = list(read_file(Storage(), str(path), format=file_format, schema=schema))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == schema
    return pa.Table.from_batches(batches)["c"].to_pylist()


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, new: Any, compression: str | None, tmp_path: Path) -> None:
    column, expected = CASES[name]
    data = ipc(pa.table({"c": column}), new=new, compression=compression)
    for t, values in expected:
        assert read(tmp_path, data, t) == values, t


NOT_IN_JSON = ("binary views", "map", "null", "decimals in a list")


def json_lines(values: Rows) -> bytes:
    return "".join(json.dumps({"c": value}, default=str) + "\n" for value in values).encode()


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n][1][0][0] is not JSON and n not in NOT_IN_JSON])
def test_json_lines_give_the_same(name: str, tmp_path: Path) -> None:
    t, values = CASES[name][1][0]
    assert read(tmp_path, json_lines(values), t, "jsonl") == values


NOT_IN_PARQUET = (
    "decimal32 of hundreds",
    "runs",
    "list views",
    "decimals in a list",
    "half",
    "null",
    "opaque",
    "views",
    "of objects",
    *(["of a size"] if int(pa.__version__.split(".")[0]) < 26 else []),  # nulls among them were not read
)


@pytest.mark.parametrize("name", [n for n in CASES if not any(part in n for part in NOT_IN_PARQUET)])
def test_parquet_gives_the_same(name: str, tmp_path: Path) -> None:
    column, expected = CASES[name]
    data = parquet(pa.table({"c": column}))
    for t, values in expected:
        assert read(tmp_path, data, t, "parquet") == values, t


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_nanoseconds_are_cut_with_a_warning(file_format: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = pa.table({"c": pa.array([-1, 1_999, None], pa.timestamp("ns", "UTC"))})
    found = read(tmp_path, ipc(table) if file_format == "arrow" else parquet(table), US, file_format)
    assert found == [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(1970, 1, 1, 0, 0, 0, 1, UTC), None]
    (line,) = caplog.messages
    assert "column 'c': digits beyond microseconds are cut off, first those of '1969-12-31 23:59:59.999999999Z'" in line


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_deltas_and_replacements_of_dictionaries(new: Any, tmp_path: Path) -> None:
    parts = [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]
    grown = pa.table({"c": pa.chunked_array([pa.array(part).dictionary_encode() for part in parts])})
    assert read(tmp_path, ipc(grown, new=new, emit_dictionary_deltas=True), pa.string()) == list(chain(*parts))
    if new is pa.ipc.new_stream:  # files have no replacements
        other = pa.table({"c": pa.chunked_array([pa.array(p).dictionary_encode() for p in (["a"], ["z", "y"])])})
        assert read(tmp_path, ipc(other, new=new), pa.string()) == ["a", "z", "y"]


def test_a_type_without_counterpart_names_the_column(tmp_path: Path) -> None:
    data = ipc(pa.table({"c": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}))
    for t in (pa.string(), pa.int64(), JSON):
        with pytest.raises(DataError, match=r"file\.arrow, row 1, column 'c': 'MonthDayNano\(months=1.*is not"):
            read(tmp_path, data, t)


@pytest.mark.parametrize("layout", ["plain", "dictionary", "runs", "views"])
def test_rows_that_do_not_fit_are_skipped(layout: str, tmp_path: Path) -> None:
    values = pa.array(["1", "x", "3"])
    column = {
        "plain": values,
        "dictionary": values.dictionary_encode(),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), values),
        "views": values.cast(pa.string_view()),
    }[layout]
    (path := tmp_path / "f.arrow").write_bytes(ipc(pa.table({"c": column})))
    skipped = list[Any]()
    schema = pa.schema([("c", pa.int64())])
    batches = read_file(Storage(), str(path), format="arrow", schema=schema, on_skip=skipped.append)
    assert [row for batch in batches for row in batch["c"].to_pylist()] == [1, 3]
    assert [(s.position, s.column, s.record) for s in skipped] == [(2, "c", '{"c":"x"}')]
