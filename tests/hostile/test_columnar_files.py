"""Columnar files of every type from several writers: the same values in every kind of message."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyarrow import orc
from tap_runs import MESSAGES, sent
from typed_values import FLAT, NAMES, nested, plain, tables, without_json

Write = Callable[[pa.Table, st.DataObject], bytes]


def parquet(table: pa.Table, data: st.DataObject) -> bytes:
    """Write Parquet with pyarrow, with any of its options."""
    options = data.draw(
        st.fixed_dictionaries(
            {
                "data_page_version": st.sampled_from(["1.0", "2.0"]),
                "compression": st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]),
                "use_dictionary": st.booleans(),
                "write_statistics": st.booleans(),
                "write_page_index": st.booleans(),
                "write_page_checksum": st.booleans(),
                "store_schema": st.booleans(),
                "row_group_size": st.integers(1, 8),
                "data_page_size": st.integers(100, 1000),
            }
        )
    )
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def polars_parquet(table: pa.Table, data: st.DataObject) -> bytes:
    """Write Parquet with polars."""
    out = io.BytesIO()
    codec = data.draw(st.sampled_from(["uncompressed", "snappy", "zstd", "lz4", "gzip"]))
    size = data.draw(st.integers(1, 30))
    pl.from_arrow(table).write_parquet(out, compression=codec, row_group_size=size, statistics=data.draw(st.booleans()))  # type: ignore[union-attr]
    return out.getvalue()


def duckdb_parquet(table: pa.Table, data: st.DataObject) -> bytes:
    """Write Parquet with DuckDB."""
    codec = data.draw(st.sampled_from(["uncompressed", "snappy", "zstd", "gzip", "brotli", "lz4_raw"]))
    version = data.draw(st.sampled_from(["V1", "V2"]))
    with tempfile.TemporaryDirectory() as folder:
        connection = _duckdb()
        connection.register("rows", table)
        options = f"FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version}"
        connection.execute(f"COPY rows TO '{folder}/a.parquet' ({options})")
        try:
            pq.read_table(f"{folder}/a.parquet")
        except OSError:  # Arrow cannot read pages of V2 without any value in a nested column
            assume(version == "V1")
        return Path(folder, "a.parquet").read_bytes()


def arrow(table: pa.Table, data: st.DataObject) -> bytes:
    """Write Arrow IPC with pyarrow, as a file or a stream."""
    out = io.BytesIO()
    new = data.draw(st.sampled_from([pa.ipc.new_file, pa.ipc.new_stream]))
    codec = data.draw(st.sampled_from([None, "lz4", "zstd"]))
    with new(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, data.draw(st.integers(1, 30)))
    return out.getvalue()


def polars_arrow(table: pa.Table, data: st.DataObject) -> bytes:
    """Write Arrow IPC with polars, including its view types."""
    out = io.BytesIO()
    codec: Any = data.draw(st.sampled_from(["uncompressed", "lz4", "zstd"]))
    pl.from_arrow(table).write_ipc(out, compression=codec)  # type: ignore[union-attr]
    return out.getvalue()


def orc_file(table: pa.Table, data: st.DataObject) -> bytes:
    """Write ORC with pyarrow."""
    out = pa.BufferOutputStream()
    codec = data.draw(st.sampled_from(["uncompressed", "snappy", "zlib", "lz4", "zstd"]))
    orc.write_table(table, out, compression=codec, stripe_size=data.draw(st.integers(1, 4096)))
    return bytes(out.getvalue())


def avro(table: pa.Table, data: st.DataObject) -> bytes:
    """Write Avro with fastavro."""
    out = io.BytesIO()
    codec = data.draw(st.sampled_from(["null", "deflate", "bzip2", "xz"]))
    header = {"type": "record", "name": "row", "fields": [_avro_field(f, str(n)) for n, f in enumerate(table.schema)]}
    rows = table.to_pylist(maps_as_pydicts="strict")
    fastavro.writer(out, fastavro.parse_schema(header), rows, codec, data.draw(st.integers(1, 2000)))
    return out.getvalue()


_IN_AVRO: dict[pa.DataType, Any] = {
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    pa.timestamp("ms", "UTC"): {"type": "long", "logicalType": "timestamp-millis"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.decimal128(20, 4): {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4},
}


def _avro_field(field: pa.Field, path: str) -> dict[str, Any]:
    return {"name": field.name, "type": ["null", _avro_type(field.type, path)], "default": None}


def _avro_type(t: pa.DataType, path: str) -> Any:
    if pa.types.is_struct(t):
        members = [_avro_field(f, f"{path}_{n}") for n, f in enumerate(t)]
        return {"type": "record", "name": f"record_{path}", "fields": members}
    if pa.types.is_list(t):
        return {"type": "array", "items": ["null", _avro_type(t.value_type, path)]}
    if pa.types.is_map(t):
        return {"type": "map", "values": ["null", _avro_type(t.item_type, path)]}
    return _IN_AVRO[t]


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def _is_for_polars(t: pa.DataType) -> bool:
    """Whether polars preserves all values of a flat type; it lacks the unit seconds."""
    if pa.types.is_decimal256(t) or pa.types.is_fixed_size_binary(t):
        return False
    if pa.types.is_decimal(t):
        return bool(t.precision <= 38)
    if pa.types.is_temporal(t):
        return not pa.types.is_duration(t) and not pa.types.is_time(t) and getattr(t, "unit", "us") != "s"
    return True


_NOT_IN_DUCKDB = (pa.types.is_duration, pa.types.is_decimal256, pa.types.is_fixed_size_binary, pa.types.is_time)


def _is_for_duckdb(t: pa.DataType) -> bool:
    """Whether DuckDB preserves all values of a type.

    Its times have microseconds, and its timestamps a smaller range of years.
    """
    return not any(is_other(t) for is_other in _NOT_IN_DUCKDB)


_NOT_IN_ORC = (pa.types.is_unsigned_integer, pa.types.is_time, pa.types.is_duration, pa.types.is_decimal256)


def _is_for_orc(t: pa.DataType) -> bool:
    if any(is_other(t) for is_other in _NOT_IN_ORC):
        return False
    if pa.types.is_timestamp(t):
        return bool(t.unit == "ns")
    return True


_NAMES_IN_AVRO = st.from_regex(r"[a-z][A-Za-z0-9_]{0,8}", fullmatch=True)

WRITERS: dict[str, tuple[Write, str, st.SearchStrategy[pa.DataType]]] = {
    "parquet": (parquet, "parquet", nested(FLAT)),
    "polars-parquet": (polars_parquet, "parquet", nested(FLAT.filter(_is_for_polars), maps=False)),
    "duckdb-parquet": (duckdb_parquet, "parquet", nested(FLAT.filter(_is_for_duckdb))),
    "arrow": (arrow, "arrow", nested(FLAT)),
    "polars-arrow": (polars_arrow, "arrow", nested(FLAT.filter(_is_for_polars), maps=False)),
    "avro": (avro, "avro", nested(st.sampled_from(list(_IN_AVRO)), large=False, names=_NAMES_IN_AVRO)),
    "orc": (orc_file, "orc", nested(FLAT.filter(_is_for_orc))),
}


@pytest.mark.parametrize("messages", MESSAGES)
@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data())
def test_all_values_arrive(writer: str, messages: str, data: st.DataObject) -> None:
    write, kind, types = WRITERS[writer]
    table = data.draw(tables(types, names=_NAMES_IN_AVRO if writer == "avro" else NAMES))
    found = sent(write(table, data), f"a.{kind}", messages).columns(table.schema)
    expected = {name: plain(table[name]) for name in table.column_names}
    if messages != "parquet":
        expected = {name: without_json(values) for name, values in expected.items()}
    if table.num_rows:
        assert found == expected
