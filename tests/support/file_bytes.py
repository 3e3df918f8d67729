"""Serialize Arrow tables as Parquet, Arrow IPC, Avro and ORC bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc as pa_orc

from singer_arrow.formats.avro_container import to_avro_schema


def parquet(table: pa.Table, **options: Any) -> bytes:
    """Return a Parquet file; options are those of `pyarrow.parquet.write_table`."""
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def parquet_of(**columns: Any) -> bytes:
    """Return a Parquet file of these columns."""
    return parquet(pa.table(columns))


def ipc(table: pa.Table, rows: int | None = None, new: Any = pa.ipc.new_file, **options: Any) -> bytes:
    """Return an Arrow IPC file or stream in batches of `rows` rows; options are those of `IpcWriteOptions`."""
    out = io.BytesIO()
    with new(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, rows)
    return out.getvalue()


def avro(table: pa.Table, codec: str = "null", **options: Any) -> bytes:
    """Return an Avro file; options are those of `fastavro.writer`."""
    out = io.BytesIO()
    header = {**to_avro_schema(table.schema), "name": "row"}
    fastavro.writer(out, header, table.to_pylist(maps_as_pydicts="strict"), codec, **options)
    return out.getvalue()


def orc(table: pa.Table, **options: Any) -> bytes:
    """Return an ORC file; options are those of `pyarrow.orc.write_table`."""
    out = pa.BufferOutputStream()
    pa_orc.write_table(table, out, **options)
    return bytes(out.getvalue())


WRITERS: dict[str, Callable[..., bytes]] = {"parquet": parquet, "arrow": ipc, "avro": avro, "orc": orc}
