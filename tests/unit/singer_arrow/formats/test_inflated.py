"""Files that are small as they are stored and would fill the memory are refused before they are decoded."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from file_bytes import WRITERS

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.avro.container import compress, decompress
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.memory_budget import Budget

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.binary())])
ROW = {"id": 1, "x": bytes(8 << 20)}
SMALL, LARGE = Budget(4 << 20), Budget(64 << 20)


def parquet(codec: str) -> bytes:
    table = pa.Table.from_pylist([ROW], SCHEMA)
    return WRITERS["parquet"](table, compression=codec, use_dictionary=False, write_statistics=False)


def avro(codec: str) -> bytes:
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": "bytes"}]}
    fastavro.writer(out := io.BytesIO(), schema, [ROW], codec)
    return out.getvalue()


def read(objects: Any, data: bytes, kind: str, budget: Budget, schema: pa.Schema = SCHEMA) -> list[dict[str, Any]]:
    reader = objects.reader(data, f"a.{kind}", budget=budget)
    return [row for batch in FORMATS[kind].read(reader, schema, ReadOptions()) for row in batch.to_pylist()]


@pytest.mark.parametrize("codec", ["brotli", "zstd", "gzip"])
def test_a_column_that_its_footer_says_is_large(objects: Any, codec: str) -> None:
    data = parquet(codec)
    assert len(data) < 20_000
    why = r"a\.parquet, row group 0: the column 'x' would take 8 MB decompressed, more than the 4 MB"
    with pytest.raises(DataError, match=rf"{why}.*set memory_limit_mb to 3\d or more"):
        read(objects, data, "parquet", SMALL)
    assert read(objects, data, "parquet", LARGE) == [ROW]
    assert read(objects, data, "parquet", SMALL, pa.schema([("id", pa.int64())])) == [{"id": 1}]


def test_a_large_column_that_is_large_in_the_file_is_read(objects: Any) -> None:
    assert read(objects, parquet("none"), "parquet", SMALL) == [ROW]


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_a_block_that_inflates(objects: Any, codec: str) -> None:
    data = avro(codec)
    assert len(data) < 20_000
    with pytest.raises(
        DataError, match=r"a\.avro: a block of rows would take 4 MB.*set memory_limit_mb to \d+ or more"
    ):
        read(objects, data, "avro", SMALL)
    assert read(objects, data, "avro", LARGE) == [ROW]


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_blocks_are_bounded_by_what_they_inflate_to(codec: str) -> None:
    plain = b"some rows" * 100_000
    packed = compress(plain, codec)
    assert decompress(packed, codec, most=len(plain)) == plain
    with pytest.raises(DataError, match="a block of rows would take 0 MB"):
        decompress(packed, codec, most=len(plain) - 1)
    with pytest.raises(DataError, match="damaged"):
        decompress(packed[: len(packed) // 2], codec)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_a_batch_that_inflates(objects: Any, codec: str, new: Any) -> None:
    data = WRITERS["arrow"](pa.Table.from_pylist([ROW], SCHEMA), new=new, compression=codec)
    assert len(data) < 80_000
    with pytest.raises(
        DataError, match=r"a\.arrow: a batch of rows would take 8 MB.*set memory_limit_mb to 3\d or more"
    ):
        read(objects, data, "arrow", SMALL)
    assert read(objects, data, "arrow", LARGE) == [ROW]


def test_a_dictionary_that_inflates(objects: Any) -> None:
    texts = pa.array(["x" * (8 << 20), "y"]).dictionary_encode()
    data = WRITERS["arrow"](pa.table({"id": [1, 2], "x": texts}), compression="zstd")
    schema = pa.schema([("id", pa.int64()), ("x", pa.string())])
    with pytest.raises(DataError, match=r"a\.arrow: a batch of rows would take 8 MB"):
        read(objects, data, "arrow", SMALL, schema)
    assert [row["id"] for row in read(objects, data, "arrow", LARGE, schema)] == [1, 2]


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_large_batches_and_cut_streams_are_as_before(objects: Any, compression: str | None) -> None:
    rows = [{"id": n, "x": n.to_bytes(8, "big") * 9} for n in range(100_000)]
    data = WRITERS["arrow"](pa.Table.from_pylist(rows, SCHEMA), rows=50_000, compression=compression)
    assert read(objects, data, "arrow", SMALL) == rows
    for end in (len(data) // 2, 20, len(data) - 3):
        with pytest.raises(DataError, match=r"a\.arrow"):
            read(objects, data[:end], "arrow", SMALL)
