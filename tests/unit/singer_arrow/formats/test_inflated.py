"""Small files that would expand beyond the memory are refused before they are decoded."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from file_bytes import WRITERS

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.avro_container import compress_block, decompress_block
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.parallel import Budget

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
def test_a_column_that_is_large_by_its_footer(objects: Any, codec: str) -> None:
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
    packed = compress_block(plain, codec)
    assert decompress_block(packed, codec, most=len(plain)) == plain
    with pytest.raises(DataError, match="a block of rows would take 0 MB"):
        decompress_block(packed, codec, most=len(plain) - 1)
    with pytest.raises(DataError, match="damaged"):
        decompress_block(packed[: len(packed) // 2], codec)


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


def orc_of(rows: list[dict[str, Any]], codec: str = "zstd", **options: Any) -> bytes:
    types = [("id", pa.int64()), ("x", pa.array([r["x"] for r in rows]).type)]
    return WRITERS["orc"](pa.Table.from_pylist(rows, pa.schema(types)), compression=codec, **options)


@pytest.mark.parametrize("codec", ["zlib", "snappy", "lz4", "zstd"])
def test_a_stripe_that_inflates(objects: Any, codec: str) -> None:
    rows = [{"id": n, "x": bytes(1 << 20)} for n in range(16)]
    data = orc_of(rows, codec, compression_block_size=1 << 20, dictionary_key_size_threshold=0.0)
    assert len(data) < 20 << 20
    if codec == "snappy":  # which packs 1:20
        assert read(objects, data, "orc", SMALL) == rows
        return
    assert len(data) < 160_000
    why = r"a\.orc: the column 'x' of stripe 0 would take 15 MB decompressed, more than the 4 MB"
    with pytest.raises(DataError, match=rf"{why}.*set memory_limit_mb to 6\d or more"):
        read(objects, data, "orc", SMALL)
    assert read(objects, data, "orc", LARGE) == rows
    assert len(read(objects, data, "orc", SMALL, pa.schema([("id", pa.int64())]))) == 16


@pytest.mark.parametrize(
    ("value", "what"),
    [("x" * (1 << 20), "its footer"), ([7] * (1 << 17), "a row of the column 'x'")],  # whose statistics have the text
    ids=["dictionary", "runs"],
)
@pytest.mark.full("runs")
def test_rows_that_are_larger_than_what_the_file_holds_of_them(objects: Any, value: Any, what: str) -> None:
    rows = [{"id": n, "x": value} for n in range(64)]
    data = orc_of(rows, dictionary_key_size_threshold=1.0)
    assert len(data) < 20_000
    table = pa.schema([("id", pa.int64()), ("x", pa.array([value]).type)])
    reader = objects.reader(data, "a.orc", budget=SMALL)
    batches = list(FORMATS["orc"].read(reader, table, ReadOptions()))
    assert [b.num_rows for b in batches] == [15, 15, 15, 15, 4]
    assert [row for b in batches for row in b.to_pylist()] == rows
    huge = orc_of([{"id": 1, "x": value * 8}], dictionary_key_size_threshold=1.0, compression_block_size=4 << 20)
    with pytest.raises(DataError, match=rf"a\.orc: {what} would take 8 MB.*memory_limit_mb to 3\d"):
        read(objects, huge, "orc", SMALL, table)


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_large_and_nested_columns_of_orc_are_as_before(objects: Any, codec: str) -> None:
    rows = [{"id": n, "x": {"a": [n.to_bytes(8, "big") * 9], "b": None if n % 3 else f"{n}"}} for n in range(50_000)]
    data = orc_of(rows, codec)
    schema = pa.schema([("id", pa.int64()), ("x", pa.struct([("a", pa.list_(pa.binary())), ("b", pa.string())]))])
    assert read(objects, data, "orc", SMALL, schema) == rows
    for end in (len(data) // 2, len(data) - 3):
        with pytest.raises(DataError, match=r"a\.orc"):
            read(objects, data[:end], "orc", SMALL, schema)


def test_blocks_of_orc_that_may_be_larger_than_it_allows(objects: Any) -> None:
    data = orc_of([{"id": 1, "x": "a"}])
    end = data[-1 - data[-1] :].replace(b"\x18\x80\x80\x04", b"\x18\x80\x80\x80\x80\x04")  # 64 KiB to 1 GiB
    forged = data[: -1 - data[-1]] + end[:-1] + bytes([end[-1] + 2])
    with pytest.raises(DataError, match=r"a\.orc: its blocks are of 1073741824 bytes, more than ORC allows"):
        read(objects, forged, "orc", SMALL)


def test_encrypted_columns_of_orc_are_refused(objects: Any) -> None:
    plain = orc_of([{"id": 1, "x": 2}], codec="uncompressed")
    end = len(plain) - 1 - plain[-1]
    assert plain[end : end + 1] == b"\x08"  # the length of the footer is the first field of what follows it
    encryption = b"\x52\x02\x08\x01"
    length = plain[end + 1] + len(encryption)
    assert length < 128
    data = plain[:end] + encryption + b"\x08" + bytes([length]) + plain[end + 2 :]
    with pytest.raises(DataError, match=r"a\.orc: some of its columns are encrypted"):
        objects.read(data, "a.orc")
