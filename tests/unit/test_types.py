"""Every type, value by value: from files through each kind of message to the target's files."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from memory_target import MemoryTable, MemoryTarget
from pyarrow import orc
from pyarrow import types as pt
from singer_sdk.singerlib.json import serialize_json
from singer_sdk.sinks.core import JSONSchemaValidator
from stock_target import StockTarget, rows_of
from type_kinds import MICROSECONDS, Kind, kinds
from type_texts import Written, deduced_from_csv, deduced_from_json, set_for_csv, set_for_json

from singer_arrow.batch.files import read_file
from singer_arrow.errors import DataError, SchemaError
from singer_arrow.formats import FORMATS, WRITABLE
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.records.validation import to_records
from singer_arrow.schema.arrow_schema import canonical, parse_type
from singer_arrow.schema.json_schema import from_json_schema, to_json_schema
from singer_arrow.sdk.message_reader import LineReader
from singer_arrow.sdk.sink import LoadSink
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from target_bigquery import columns as bigquery_drift
from target_bigquery import conversion as bigquery
from target_redshift import columns as redshift_drift
from target_redshift import conversion as redshift

STORAGE = Storage()
KINDS = list(kinds())
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)


def as_arrow(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def as_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


def as_others_parquet(table: pa.Table, path: Path) -> None:
    """Write Parquet as programs without Arrow write it."""
    pq.write_table(table, path, store_schema=False)


def as_orc(table: pa.Table, path: Path) -> None:
    orc.write_table(table, str(path))


WRITE: dict[str, Callable[[pa.Table, Path], None]] = {
    "a.arrow": as_arrow,
    "a.parquet": as_parquet,
    "others.parquet": as_others_parquet,
    "a.orc": as_orc,
}
UNSIGNED = {"uint8", "uint16", "uint32", "uint64"}
LACKS: dict[str, set[str]] = {
    "a.arrow": set(),
    "a.parquet": {"run_end_encoded", "struct<>", ", -3)"},
    "others.parquet": {"run_end_encoded", "struct<>", ", -3)"},
    "a.orc": {
        *UNSIGNED,
        *("halffloat", "decimal256", "decimal32", "decimal64", ", -3)", "dictionary", "run_end_encoded", "_view"),
        *("time32", "time64", "duration", "null", "arrow.uuid", "arrow.json", "arrow.bool8"),
    },
}
"""Types that a format lacks, or that Arrow cannot write to it, by a part of their names."""
YEARS_OF_ORC = ("timestamp[s", "timestamp[ms", "timestamp[us", "date64")
"""ORC files are read with nanoseconds, so not before 1677 nor after 2262: see `test_columnar_formats.py`."""


def files_of(kind: Kind) -> list[str]:
    lacking = {file: {t for t in lacks if t in kind.name} for file, lacks in LACKS.items()}
    return [file for file in WRITE if not lacking[file]]


def is_in_avro(kind: Kind) -> bool:
    """Whether our Avro has the type: no nulls in arrays and maps, no blanks in names, no nanoseconds."""
    return not any(word in str(kind.expected.type) for word in ("list", "map", "b c", "[ns", "null"))


def given_to(file: str, kind: Kind) -> Kind:
    """Return the values of a type that a format can store."""
    if file != "a.orc" or not kind.name.startswith(YEARS_OF_ORC):
        return kind
    most = 100_000 if pt.is_date32(kind.expected.type) else 2**33 * 10**6  # days, or microseconds
    held = pa.array([value is None or abs(value) < most for value in ints(kind.expected)])
    return Kind(kind.given.filter(held), kind.expected.filter(held))


def read(file: Path, schema: pa.Schema | None = None) -> pa.Table:
    """Return a file's rows as the tap reads it, in the schema given or inferred."""
    file_format = FORMATS[file.suffix[1:]]
    options = ReadOptions(loose_text=True)

    def reader() -> ObjectReader:
        return ObjectReader(STORAGE, Url.parse(str(file)))

    schema = schema or file_format.infer(reader(), options, sample_bytes=1 << 20)
    return pa.Table.from_batches(list(file_format.read(reader(), schema, options)), schema)


def column(table: pa.Table) -> pa.Array:
    return table.column("c").combine_chunks()


def same(found: pa.Array, expected: pa.Array, *, json_text: bool = False) -> bool:
    """Whether types and all values are equal; floats by their bits, all NaN being equal."""
    if found.type != expected.type:
        return False
    if json_text:
        return [parsed(text) for text in found.to_pylist()] == [parsed(text) for text in expected.to_pylist()]
    if any(word in str(found.type) for word in ("float", "double")):
        return repr(found.to_pylist()) == repr(expected.to_pylist())
    return bool(found.equals(expected))


def ints(column: pa.Array) -> list[int | None]:
    found: list[int | None] = column.cast(pa.int32() if pt.is_date32(column.type) else pa.int64()).to_pylist()
    return found


def parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text, parse_float=Decimal)


# Messages -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def target() -> Iterator[MemoryTarget]:
    made = MemoryTarget(config={})
    yield made
    made.run.close()


def message(**content: Any) -> dict[str, Any]:
    """Return a message written by a tap and read by the target."""
    return LineReader().deserialize_json(serialize_json(content))


def batch_file(rows: pa.Table, folder: Path, file_format: str) -> str:
    path = folder / f"batch.{file_format}"
    WRITABLE[file_format].write(rows.to_batches(), rows.schema, path)
    return str(path)


def record_file(rows: pa.Table, folder: Path) -> str:
    """Write SCHEMA and RECORD messages."""
    path = folder / "messages.singer"
    schema = {"type": "SCHEMA", "stream": "s", "schema": to_json_schema(rows.schema)}
    records = [{"type": "RECORD", "stream": "s", "record": r} for b in rows.to_batches() for r in to_records(b)]
    path.write_text("".join(serialize_json(message) + "\n" for message in [schema, *records]))
    return str(path)


def read_records(path: str, schema: pa.Schema, target: MemoryTarget) -> pa.Table:
    """Return the rows that targets read from RECORD messages."""
    first, *lines = Path(path).read_bytes().splitlines(keepends=True)
    sink = LoadSink(target, "s", LineReader().deserialize_json(first)["schema"], [])
    sink.setup()
    assert isinstance(sink.table, MemoryTable)
    sink.table.record_schema = schema
    parsed = sink.parser(b"".join(lines), len(lines))
    assert parsed.bad_line is None
    return pa.Table.from_batches([parsed.rows], schema)


def sent(rows: pa.Table, folder: Path) -> dict[str, str]:
    """Return the files that targets read, by kind of message."""
    return {
        "parquet": batch_file(rows, folder, "parquet"),
        "jsonl": batch_file(rows, folder, "jsonl"),
        "record": record_file(rows, folder),
    }


def arrived(url: str, way: str, schema: pa.Schema, target: MemoryTarget) -> pa.Table:
    if way == "record":
        return read_records(url, schema, target)
    file_format = "parquet" if way == "parquet" else "jsonl"
    return pa.Table.from_batches(list(read_file(STORAGE, url, format=file_format, schema=schema)), schema)


def check_all_ways(rows: pa.Table, in_json: pa.Array | None, folder: Path, target: MemoryTarget) -> None:
    """Check that values arrive unchanged by every kind of message."""
    schema = from_json_schema(message(schema=to_json_schema(rows.schema))["schema"])
    assert schema.equals(rows.schema, check_metadata=True)
    json_text = bool(schema.field("c").metadata)
    for way, url in sent(rows, folder).items():
        expected = column(rows) if way == "parquet" or in_json is None else in_json
        found = column(arrived(url, way, schema, target))
        assert same(found, expected, json_text=json_text), f"{way}: {found} instead of {expected}"


# From files of columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "file"), [pytest.param(k, f, id=f"{k.name} {f}") for k in KINDS for f in files_of(k)])
def test_files_give_the_values_that_they_hold(kind: Kind, file: str, tmp_path: Path) -> None:
    WRITE[file](given_to(file, kind).table(), tmp_path / file)
    rows = read(tmp_path / file, None if file in ("a.arrow", "a.parquet") else pa.schema([kind.field]))
    assert rows.schema.equals(pa.schema([kind.field]), check_metadata=True)
    assert same(column(rows), given_to(file, kind).expected)


@each_kind
def test_messages_give_back_what_they_were_given(kind: Kind, tmp_path: Path, target: MemoryTarget) -> None:
    rows = pa.table([kind.expected], schema=pa.schema([kind.field]))
    assert canonical(kind.table().schema).equals(rows.schema, check_metadata=True)
    check_all_ways(rows, kind.in_json, tmp_path, target)


@pytest.mark.parametrize("kind", [k for k in KINDS if is_in_avro(k)], ids=lambda k: k.name)
def test_avro_files_give_the_values_that_they_hold(kind: Kind, tmp_path: Path) -> None:
    rows = pa.table([kind.expected], schema=pa.schema([kind.field]))
    WRITABLE["avro"].write(rows.to_batches(), rows.schema, tmp_path / "a.avro")
    found = column(read(tmp_path / "a.avro", rows.schema))
    assert same(found, kind.expected)


@each_kind
def test_both_targets_upload_the_same_whatever_was_sent(kind: Kind, tmp_path: Path, target: MemoryTarget) -> None:
    expected = kind.expected if kind.in_json is None else kind.in_json
    rows = pa.table([expected], schema=pa.schema([kind.field]))
    files = sent(rows, tmp_path)
    for upload in (to_bigquery_records, to_bigquery_json, to_redshift):
        parquet, jsonl, record = (upload(rows.schema, url, way, target) for way, url in files.items())
        assert parquet == jsonl == record, upload.__name__


def to_bigquery_records(schema: pa.Schema, url: str, way: str, target: MemoryTarget) -> str:
    return uploaded(bigquery.Conversion(bigquery_drift.columns_of(schema), schema), url, way, target)


def to_bigquery_json(schema: pa.Schema, url: str, way: str, target: MemoryTarget) -> str:
    return uploaded(bigquery.Conversion(bigquery_drift.columns_of(schema, nested="json"), schema), url, way, target)


def to_redshift(schema: pa.Schema, url: str, way: str, target: MemoryTarget) -> str:
    return uploaded(redshift.Conversion(redshift_drift.columns_of(schema), schema), url, way, target)


def uploaded(conversion: Any, url: str, way: str, target: MemoryTarget) -> str:
    """Return the file that a target uploads for a file, or its error."""
    source = arrived(url, way, conversion.read_schema, target).to_batches()
    try:
        rows = pa.Table.from_batches(list(conversion.all_batches([("file", source)])), conversion.upload_schema)
    except DataError as error:
        return str(error)
    values = column(rows)
    if rows.schema.field("c").metadata:
        return repr([parsed(text) for text in values.to_pylist()])
    is_struct = pa.types.is_struct(values.type)  # what is below a null one is not compared
    parts = [values.is_valid(), *values.flatten()] if is_struct else [values]
    return "\n".join(part.to_string(window=1000) for part in parts)


# RECORD messages for any target -------------------------------------------------------------------------------------


@each_kind
def test_records_are_good_for_stock_targets(kind: Kind, tmp_path: Path) -> None:
    rows = pa.table([kind.expected], schema=pa.schema([kind.field]))
    schema = message(schema=to_json_schema(rows.schema))["schema"]
    records = [message(record=r)["record"] for b in rows.to_batches() for r in to_records(b)]
    # RFC 3339 times have a zone, but the SDK's own `format: time` has none.
    strict = JSONSchemaValidator(schema, validate_formats="time" not in json.dumps(schema, default=str).split('"'))
    for record in records:
        strict.validate(record)
    messages = [
        {"type": "SCHEMA", "stream": "s", "schema": schema, "key_properties": []},
        *({"type": "RECORD", "stream": "s", "record": record} for record in records),
    ]
    stock = StockTarget(config={"out": str(tmp_path / "out")})
    stock.listen(io.StringIO("".join(f"{serialize_json(m)}\n" for m in messages)))
    assert len(rows_of(tmp_path / "out")) == len(records)


# From files of text --------------------------------------------------------------------------------------------------

TEXTS = [
    *(("csv", written) for texts in (deduced_from_csv, set_for_csv) for written in texts()),
    *(("jsonl", written) for texts in (deduced_from_json, set_for_json) for written in texts()),
]


@pytest.mark.parametrize(
    ("suffix", "written"), [pytest.param(s, w, id=f"{s} {w.setting or w.label}") for s, w in TEXTS]
)
def test_texts_give_the_values_that_they_represent(
    suffix: str, written: Written, tmp_path: Path, target: MemoryTarget
) -> None:
    file = tmp_path / f"a.{suffix}"
    file.write_bytes(getattr(written, suffix))
    rows = read(file, None if written.setting is None else pa.schema([parse_type("c", written.setting)])).select(["c"])
    assert rows.schema.equals(pa.schema([written.field]), check_metadata=True)
    assert same(column(rows), written.expected)
    check_all_ways(rows, None, tmp_path, target)


# What has no counterpart --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "t",
    [
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int64()), pa.field("b", pa.string())]),
        pa.list_(pa.month_day_nano_interval()),
        pa.struct([("m", pa.month_day_nano_interval())]),
    ],
    ids=str,
)
def test_types_without_a_counterpart_are_refused_by_name(t: pa.DataType, tmp_path: Path) -> None:
    as_arrow(pa.table({"id": pa.array([1]), "c": pa.nulls(1, t)}), tmp_path / "a.arrow")
    with pytest.raises(SchemaError, match=r"Column 'c(\.m)?' is of type .*; leave it out by selection"):
        read(tmp_path / "a.arrow")
    assert read(tmp_path / "a.arrow", pa.schema([("id", pa.int64())])).to_pydict() == {"id": [1]}


@pytest.mark.parametrize("value", [253_402_300_800_000_000, -62_135_596_800_000_001])
@pytest.mark.parametrize("t", [MICROSECONDS, pa.list_(MICROSECONDS)], ids=str)
def test_years_beyond_those_of_json_stay_in_parquet(
    t: pa.DataType, value: int, tmp_path: Path, target: MemoryTarget
) -> None:
    rows = pa.table({"c": pa.array([[value] if pt.is_list(t) else value], t)})
    url = batch_file(rows, tmp_path, "parquet")
    assert column(arrived(url, "parquet", rows.schema, target)).equals(column(rows))
    for refused in (lambda: batch_file(rows, tmp_path, "jsonl"), lambda: record_file(rows, tmp_path)):
        with pytest.raises(DataError, match="column 'c': a date lies outside the years 1 to 9999"):
            refused()


@pytest.mark.parametrize("t", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_numbers_that_are_too_large_do_not_become_infinite(suffix: str, t: pa.DataType, tmp_path: Path) -> None:
    file = tmp_path / f"a.{suffix}"
    large = "1e400" if pt.is_float64(t) else "1e39"
    if suffix == "parquet":
        if pt.is_float64(t):
            pytest.skip("a column of Parquet has no number that a float64 cannot hold")
        as_parquet(pa.table({"c": [1.5, None, float(large)]}), file)
    else:
        file.write_bytes(getattr(Written(["1.5", large], pa.nulls(2)), suffix))
    with pytest.raises(DataError, match="column 'c': .*(within the range of|too large for|that) the type"):
        read(file, pa.schema([("c", t)]))


def test_infinities_of_csv_are_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("c,n\n-inf,1\nInfinity,2\nNaN,3\n1.5,4\n")
    found = column(read(tmp_path / "a.csv", pa.schema([("c", pa.float64())])))
    assert repr(found.to_pylist()) == "[-inf, inf, nan, 1.5]"


def test_timestamps_of_96_bits(tmp_path: Path) -> None:
    moments = pa.array([0, -1, 1_714_557_600_000_001, None, 253_402_300_799_999_999], pa.timestamp("us"))
    pq.write_table(pa.table({"c": moments}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(tmp_path / "a.parquet").schema.column(0).physical_type == "INT96"
    assert column(read(tmp_path / "a.parquet")).equals(moments.cast(MICROSECONDS))
