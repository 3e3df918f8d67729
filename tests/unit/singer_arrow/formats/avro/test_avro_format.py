"""Avro: our files are read exactly by fastavro and by us; files of fastavro are read by us."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import ConfigError, DataError, EmptyObjectError, SchemaError
from singer_arrow.formats import WriteOptions
from singer_arrow.formats.avro import AvroFormat, can_write_fast
from singer_arrow.formats.avro_container import (
    Header,
    compress_block,
    decompress_block,
    read_blocks,
    read_header,
    repack,
    without_logical_types,
)
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.schema.arrow_schema import json_field
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

FLAT = pa.schema(
    [
        *(("i", pa.int64()), ("small", pa.int8()), ("u", pa.uint64()), ("f", pa.float64()), ("g", pa.float32())),
        *(("b", pa.bool_()), ("s", pa.string()), ("y", pa.binary()), ("d", pa.date32()), ("t", pa.time64("us"))),
        *(("at", pa.timestamp("us", "UTC")), ("n", pa.decimal128(12, 2)), ("w", pa.decimal256(60, 10))),
        json_field("j"),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        **{"i": -(2**63), "small": -128, "u": 2**64 - 1, "f": 0.1, "g": 1.5, "b": True, "s": "é☃", "y": b"\x00\xff"},
        **{"d": date(1969, 12, 31), "t": time(23, 59, 59, 999999), "at": datetime(1969, 12, 31, 23, tzinfo=UTC)},
        **{
            "n": Decimal("-9999999999.99"),
            "w": Decimal("12345678901234567890123456789012345678901234567890.0123456789"),
        },
        "j": '{"a": [1, null]}',
    },
    dict.fromkeys(FLAT.names),
    {
        **{"i": 2**63 - 1, "small": 127, "u": 0, "f": -0.0, "g": 0.0, "b": False, "s": "", "y": b""},
        **{"d": date(9999, 12, 31), "t": time(0), "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)},
        **{"n": Decimal("0.01"), "w": Decimal(-1), "j": "null"},
    },
]
NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("who", pa.struct([("name", pa.string()), ("born", pa.timestamp("us", "UTC")), ("n", pa.decimal128(5, 1))])),
        ("counts", pa.map_(pa.string(), pa.int32())),
    ]
)
NESTED_ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "tags": ["a", ""],
        "who": {"name": "x", "born": datetime(2020, 1, 1, tzinfo=UTC), "n": Decimal("1.5")},
        "counts": [("k", 3)],
    },
    {"id": 2, "tags": [], "who": {"name": None, "born": None, "n": None}, "counts": []},
    {"id": None, "tags": None, "who": None, "counts": None},
]


def written(path: Path, rows: list[dict[str, Any]], schema: pa.Schema, compression: str | None = None) -> Path:
    batches = [pa.RecordBatch.from_pylist(rows[i : i + 2], schema) for i in range(0, len(rows), 2)]
    assert AvroFormat().write(batches, schema, path, WriteOptions(compression)) == len(rows)
    return path


def read(path: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    reader = ObjectReader(Storage(), Url.parse(str(path)))
    return [row for batch in AvroFormat().read(reader, schema, ReadOptions()) for row in batch.to_pylist()]


def by_fastavro(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        plain = io.BytesIO()  # fastavro needs further packages for snappy and zstandard
        header = read_header(file)
        plain.write(repack(header, read_blocks(file, header)))
    return [r for r in fastavro.reader(io.BytesIO(plain.getvalue())) if isinstance(r, dict)]


@pytest.mark.parametrize("compression", [None, "none", "deflate", "snappy", "zstandard"])
def test_flat_rows_arrive_exactly(tmp_path: Path, compression: str | None) -> None:
    path = written(tmp_path / "x.avro", ROWS, FLAT, compression)
    assert can_write_fast(FLAT)
    assert read(path, FLAT) == ROWS
    found = by_fastavro(path)
    assert found == [{**r, "u": r["u"] if r["u"] is None else Decimal(r["u"])} for r in ROWS]


def test_the_header_decides_the_types_of_values(tmp_path: Path) -> None:
    with written(tmp_path / "x.avro", ROWS, FLAT).open("rb") as file:
        kinds = {f["name"]: f["type"][1] for f in read_header(file).schema["fields"]}
    assert kinds["at"] == {"type": "long", "logicalType": "timestamp-micros"}
    assert kinds["j"] == {"type": "string", "sqlType": "JSON"}
    assert kinds["n"] == {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}


def test_nested_rows_arrive_exactly(tmp_path: Path) -> None:
    path = written(tmp_path / "x.avro", NESTED_ROWS, NESTED)
    assert not can_write_fast(NESTED)
    assert read(path, NESTED) == NESTED_ROWS


def test_null_in_an_array_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no null among the items of an array"):
        written(tmp_path / "x.avro", [{**NESTED_ROWS[0], "tags": ["a", None]}], NESTED)


def test_a_name_that_avro_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="'a b'.*letters, digits"):
        written(tmp_path / "x.avro", [{"a b": 1}], pa.schema([("a b", pa.int64())]))


FOREIGN = {
    "type": "record",
    "name": "r",
    "namespace": "org.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "turned", "type": ["int", "null"]},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
        {"name": "clock", "type": ["null", {"type": "int", "logicalType": "time-millis"}]},
        {"name": "text", "type": "string"},
    ],
}


def foreign(path: Path, schema: dict[str, Any], rows: list[dict[str, Any]], codec: str = "null") -> Path:
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(schema), rows, codec)
    return path


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
@pytest.mark.parametrize("extra", [[], [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}]])
def test_files_of_others(tmp_path: Path, codec: str, extra: list[dict[str, Any]]) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    row = {
        "id": 7,
        "turned": None,
        "ms": at,
        "local": at.replace(tzinfo=None),
        "clock": time(1, 2, 3, 4000),
        "text": "é",
    }
    row |= {"e": "B"} if extra else {}
    path = foreign(tmp_path / "x.avro", {**FOREIGN, "fields": [*FOREIGN["fields"], *extra]}, [row] * 3, codec)
    reader = ObjectReader(Storage(), Url.parse(str(path)))
    schema = AvroFormat().infer(reader, ReadOptions(), sample_bytes=1)
    assert read(path, schema) == [{**row, "local": at}] * 3
    some = pa.schema([("text", pa.string()), ("none", pa.int64()), ("turned", pa.int64())])
    assert read(path, some) == [{"text": "é", "none": None, "turned": None}] * 3


def test_a_union_of_several_types_is_json_text(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "long", "string"]}]}
    path = foreign(tmp_path / "x.avro", schema, [{"x": 1}, {"x": "a"}, {"x": None}])
    assert read(path, pa.schema([json_field("x")])) == [{"x": "1"}, {"x": '"a"'}, {"x": None}]


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


UUID = {"type": "string", "logicalType": "uuid"}
MIXED = ["null", "long", "boolean", "string"]
UUID_TEXT = "0b5bd4bc-97c1-4a7c-8d6f-9a4a3a3a2f10"


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (UUID, UUID_TEXT, UUID_TEXT),
        (UUID, "no identity", "no identity"),
        ({"type": "array", "items": UUID}, [UUID_TEXT], [UUID_TEXT]),
        ({"type": "map", "values": ["null", UUID]}, {"k": UUID_TEXT}, [("k", UUID_TEXT)]),
        ({"type": "record", "name": "q", "fields": [{"name": "u", "type": UUID}]}, {"u": UUID_TEXT}, {"u": UUID_TEXT}),
        ({"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"}, b"0123456789abcdef", b"0123456789abcdef"),
        ({"type": "record", "name": "q", "fields": [{"name": "u", "type": MIXED}]}, {"u": True}, {"u": "true"}),
        ({"type": "array", "items": MIXED}, [1, "x", False], '[1,"x",false]'),
        ({"type": "map", "values": MIXED}, {"k": False}, '{"k":false}'),
        (
            {"type": "array", "items": record(u=MIXED) | {"name": "q"}},
            [{"u": "x"}, {"u": 2}],
            [{"u": '"x"'}, {"u": "2"}],
        ),
        ([{"type": "int", "logicalType": "date"}, "string"], date(2020, 1, 2), '"2020-01-02"'),
        ([UUID, "long"], UUID_TEXT, f'"{UUID_TEXT}"'),
    ],
)
def test_uuids_and_unions_beside_and_within_nested_columns(tmp_path: Path, kind: Any, value: Any, found: Any) -> None:
    schema = record(x=kind, tags={"type": "array", "items": "long"})
    stored = io.BytesIO()  # as text, which fastavro does not check to be a uuid
    fastavro.writer(
        stored,
        without_logical_types(schema) if UUID_TEXT in str(value) or value == "no identity" else schema,
        [{"x": value, "tags": [1]}],
    )
    stored.seek(0)
    header = read_header(stored)
    (tmp_path / "x.avro").write_bytes(repack(header, list(read_blocks(stored, header)), schema))
    reader = ObjectReader(Storage(), Url.parse(str(tmp_path / "x.avro")))
    assert read(tmp_path / "x.avro", AvroFormat().infer(reader, ReadOptions(), sample_bytes=1)) == [
        {"x": found, "tags": [1]}
    ]


def test_a_value_that_does_not_fit_names_its_column(tmp_path: Path) -> None:
    path = written(tmp_path / "x.avro", [{"s": "1"}, {"s": "x"}], pa.schema([("s", pa.string())]))
    with pytest.raises(DataError, match=r"x\.avro.*column 's'.*'x' is not an integer"):
        read(path, pa.schema([("s", pa.int64())]))


@pytest.mark.parametrize("cut", [2, 100, 900, 1100])
def test_a_broken_file_is_named(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "x.avro", ROWS * 20, FLAT)
    data = path.read_bytes()
    assert len(data) > 1200
    path.write_bytes(data[:cut])
    with pytest.raises(DataError, match=r"x\.avro"):
        read(path, FLAT)


def test_another_file_and_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "x.avro").write_bytes(b"PAR1 and more")
    with pytest.raises(DataError, match="not an Avro file"):
        read(tmp_path / "x.avro", FLAT)
    (tmp_path / "x.avro").write_bytes(b"")
    with pytest.raises(EmptyObjectError):
        read(tmp_path / "x.avro", FLAT)


def test_an_unknown_codec() -> None:
    with pytest.raises(ConfigError, match="'lzo'"):
        compress_block(b"x", "lzo")
    with pytest.raises(DataError, match="'lzo'"):
        decompress_block(b"x", "lzo")


@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.binary(max_size=300)), max_size=8), st.sampled_from(["null", "snappy"])
)
def test_the_container_round_trips(blocks: list[tuple[int, bytes]], codec: str) -> None:
    header = Header({"type": "record", "name": "r", "fields": []}, codec, b"m" * 16)
    packed = io.BytesIO(repack(header, blocks))
    read_back = read_header(packed)
    assert read_back.schema == header.schema
    assert list(read_blocks(packed, read_back)) == blocks
