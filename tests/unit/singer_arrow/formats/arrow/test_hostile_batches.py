"""Arrow batch files that are cut off, or that small bytes make large: an error of one line, and bounded memory."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from file_bytes import ipc

from singer_arrow.batch.files import read_file
from singer_arrow.errors import DataError
from singer_arrow.formats import arrow
from singer_arrow.storage.store import Storage

LONG = "x" * (1 << 20)
IDS = pa.schema([("id", pa.int64())])
TEXTS = pa.schema([("c", pa.string())])


def read(folder: Path, data: bytes, schema: pa.Schema = IDS, **options: Any) -> list[pa.RecordBatch]:
    (path := folder / "file.arrow").write_bytes(data)
    return list(read_file(Storage(), str(path), format="arrow", schema=schema, **options))


def ids(batches: list[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch["id"].to_pylist()]


@pytest.fixture
def peak() -> Iterator[Callable[[], int | None]]:
    """Return the bytes that Arrow allocated at most since the start of the test."""
    pool = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(pool)
    pa.set_memory_pool(counting)
    yield counting.max_memory
    pa.set_memory_pool(pool)


def wide(column: pa.Array) -> bytes:
    return ipc(pa.table({"c": column}))


MANY = 100_000


def shared_views(count: int) -> pa.Array:
    """Return views of one and the same text."""
    _, views, data = pa.array([LONG], pa.string_view()).buffers()
    return pa.Array.from_buffers(pa.string_view(), count, [None, pa.py_buffer(views.to_pybytes() * count), data])


FEW_BYTES: dict[str, pa.Array] = {
    "a dictionary": pa.DictionaryArray.from_arrays(pa.array([0] * MANY, pa.int8()), pa.array([LONG])),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), pa.array([LONG])),
    "views": shared_views(MANY),
}


@pytest.mark.parametrize("name", FEW_BYTES)
@pytest.mark.full("views")
def test_one_text_for_many_rows_is_decoded_in_parts(name: str, tmp_path: Path, peak: Any) -> None:
    (path := tmp_path / "file.arrow").write_bytes(wide(FEW_BYTES[name]))
    rows = 0
    for batch in read_file(Storage(), str(path), format="arrow", schema=TEXTS):
        assert batch.nbytes <= 2 * arrow.SLICE_BYTES
        assert batch["c"][0].as_py() == LONG
        rows += batch.num_rows
        if rows > 500:
            break
    assert peak() < 600 << 20


@pytest.mark.parametrize("kind", ["list views", "nulls", "runs in a list"])
def test_a_row_that_would_be_gigabytes_is_refused(kind: str, tmp_path: Path, peak: Any) -> None:
    count = 1 << 30
    inner: Any = pa.Array.from_buffers(pa.null(), count, [None])
    if kind == "runs in a list":
        inner = pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), pa.array(["text"]))
    column: Any = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), inner)
    if kind == "list views":
        texts = pa.array([LONG], pa.string())
        large = pa.ListViewArray.from_arrays(pa.array([0], pa.int32()), pa.array([1], pa.int32()), texts)
        sizes = pa.array([1] * MANY, pa.int32())
        column = pa.ListViewArray.from_arrays(pa.array([0] * MANY, pa.int32()), sizes, large)
        column = pa.ListArray.from_arrays(pa.array([0, MANY], pa.int32()), column)
    data = wide(column)
    assert len(data) < 4 << 20
    t = pa.list_(pa.list_(pa.string())) if kind == "list views" else pa.list_(pa.string())
    with pytest.raises(DataError, match=r"file\.arrow: a row would take \d+ MB decompressed"):
        read(tmp_path, data, pa.schema([("c", t)]))
    assert peak() < 300 << 20


def test_rows_of_nulls_are_read_in_parts(tmp_path: Path, peak: Any) -> None:
    column = pa.Array.from_buffers(pa.null(), 3_000_000, [None])
    batches = read(tmp_path, wide(column), pa.schema([("c", pa.int64())]))
    assert sum(batch.num_rows for batch in batches) == 3_000_000
    assert max(batch.num_rows for batch in batches) <= 1 << 17


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_files_that_are_cut_are_named(new: Any, compression: str | None, tmp_path: Path) -> None:
    data = ipc(pa.table({"id": range(2000), "t": [f"{n}" for n in range(2000)]}), 500, new, compression=compression)
    for end in [*range(1, 40), *range(40, len(data), 997), len(data) - 1]:
        if end == len(data) - 1 and new is pa.ipc.new_stream:
            continue  # half of the end mark
        with pytest.raises(DataError, match=r"file\.arrow: .+"):
            read(tmp_path, data[:end])


def test_a_stream_without_an_end_mark_needs_a_count(tmp_path: Path) -> None:
    data = ipc(pa.table({"id": range(10)}), 5, pa.ipc.new_stream)
    assert ids(read(tmp_path, data)) == list(range(10))
    open_ended = data[:-8]
    with pytest.raises(
        DataError, match=r"file\.arrow: it is an Arrow stream without an end mark, so it may have been c"
    ):
        read(tmp_path, open_ended)
    assert ids(read(tmp_path, open_ended, is_counted=True)) == list(range(10))
    assert ids(read(tmp_path, data[:-8] + data[-4:])) == list(range(10))  # the end mark of old writers


@pytest.mark.parametrize("scale", [77, -77, 1 << 30, -(1 << 30)])
def test_decimals_of_an_impossible_scale(scale: int, tmp_path: Path) -> None:
    (path := tmp_path / "file.arrow").touch()
    for t in (pa.decimal64(18, scale), pa.decimal128(18, scale), pa.decimal256(18, scale)):
        column = pa.Array.from_buffers(t, 1, [None, pa.py_buffer(bytes(32))])
        for nested in (column, pa.ListArray.from_arrays([0, 1], column), pa.StructArray.from_arrays([column], ["c"])):
            path.write_bytes(wide(nested))
            with pytest.raises(DataError, match=rf"file\.arrow.*has the scale {scale}"):
                list(read_file(Storage(), str(path), format="arrow", schema=TEXTS))


def polars_file(**options: Any) -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"id": range(1000), "c": ["x" * 1000] * 1000}).write_ipc(out, **options)
    return out.getvalue()


def test_files_without_a_stream_are_checked_too(tmp_path: Path, peak: Any) -> None:
    data = polars_file(compression="zstd")
    assert ids(read(tmp_path, data)) == list(range(1000))
    plain = polars_file(compression="uncompressed", record_batch_size=100)
    assert ids(read(tmp_path, plain)) == list(range(1000))
    size = struct.pack("<q", 8 * 1000)  # of the ids, before they are compressed
    assert size in data
    forged = data.replace(size, struct.pack("<q", 4 << 30))
    with pytest.raises(DataError, match=r"file\.arrow: a batch of rows would take 8192 MB decompressed"):
        read(tmp_path, forged)
    assert peak() < 100 << 20
    for end in range(1, len(data), 37):
        with pytest.raises(DataError, match=r"file\.arrow: .+"):
            read(tmp_path, data[:end])


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_a_kilobyte_that_claims_gigabytes(new: Any, tmp_path: Path, peak: Any) -> None:
    data = ipc(pa.table({"id": range(80)}), new=new)
    body = struct.pack("<q", 640)
    assert body in data
    for claimed in (2 << 30, 1 << 40, (1 << 63) - 1):
        with pytest.raises(DataError, match=r"file\.arrow: a record batch of it has \d+ MB, more than the 1024 MB"):
            read(tmp_path, data.replace(body, struct.pack("<q", claimed)))
    with pytest.raises(DataError, match=r"file\.arrow: .+"):
        read(tmp_path, data.replace(body, struct.pack("<q", 1 << 29)))
    assert peak() < 10 << 20
