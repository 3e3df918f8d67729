"""Batch files: the same files on every run, complete or absent, and readable."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from singer_arrow.batch.files import ARROW_BYTES_PER_FILE_BYTE, BatchFile, read_file, write_batch_files
from singer_arrow.errors import DataError, NotFoundError
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
FORMATS = ("parquet", "jsonl", "arrow")


def batches(rows: int, size: int) -> list[pa.RecordBatch]:
    table = pa.table({"id": pa.array(range(rows)), "name": pa.array([f"name {i}" for i in range(rows)])}, schema=SCHEMA)
    return table.to_batches(max_chunksize=size)


def write(root: Path, format: str, source: Iterable[pa.RecordBatch], target_bytes: int) -> list[BatchFile]:
    url = Url.parse(str(root))
    return list(
        write_batch_files(
            source,
            SCHEMA,
            storage=Storage(),
            url_of=lambda first, rows: url.join(f"{first}-{rows}"),
            format=format,
            target_bytes=target_bytes,
        )
    )


@pytest.mark.parametrize("format", FORMATS)
def test_files_are_cut_by_size_and_hold_every_row_once(tmp_path: Path, format: str) -> None:
    source = batches(10_000, 500)
    limit = sum(b.nbytes for b in source) // 4
    parts = write(tmp_path / "a", format, source, limit // ARROW_BYTES_PER_FILE_BYTE)
    assert len(parts) in (4, 5)
    assert [p.first_row for p in parts] == [sum(q.rows for q in parts[:i]) for i in range(len(parts))]
    assert [p.bytes for p in parts] == [p.url.local_path().stat().st_size for p in parts]
    rows = [
        r for p in parts for b in read_file(Storage(), str(p.url), format=format, schema=SCHEMA) for r in b.to_pylist()
    ]
    assert rows == pa.Table.from_batches(source).to_pylist()

    again = write(tmp_path / "b", format, source, limit // ARROW_BYTES_PER_FILE_BYTE)
    assert [(p.url.name, p.bytes) for p in again] == [(p.url.name, p.bytes) for p in parts]
    assert [p.url.local_path().read_bytes() for p in again] == [p.url.local_path().read_bytes() for p in parts]


def test_batches_that_are_written_are_let_go(tmp_path: Path) -> None:
    size, held = 1_000_000, list[int]()

    def source() -> Iterator[pa.RecordBatch]:
        for i in range(20):
            yield pa.RecordBatch.from_arrays(
                [pa.array(range(i, i + 1000)), pa.array(["x" * 1000] * 1000)], schema=SCHEMA
            )
            held.append(pa.total_allocated_bytes())

    assert len(write(tmp_path, "parquet", source(), size // ARROW_BYTES_PER_FILE_BYTE)) == 20
    assert held[-1] < held[2] + size


@pytest.mark.parametrize("format", FORMATS)
def test_no_rows_make_no_file(tmp_path: Path, format: str) -> None:
    assert write(tmp_path, format, [], 1) == []
    assert write(tmp_path, format, [pa.RecordBatch.from_pylist([], SCHEMA)], 1) == []
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield batches(10, 10)[0]
        raise DataError("the source broke")

    with pytest.raises(DataError, match="the source broke"):
        write(tmp_path, "parquet", broken(), 1 << 30)
    assert list(tmp_path.iterdir()) == []


class SlowStorage(Storage):
    """Storage whose first upload ends after the second file is begun."""

    def __init__(self) -> None:
        super().__init__()
        self.second_is_begun = threading.Event()

    def put_file(self, url: Url, path: Path) -> int:
        assert self.second_is_begun.wait(30)
        return super().put_file(url, path)


@pytest.mark.parametrize("breaks", [False, True])
def test_a_file_is_uploaded_while_the_next_one_is_encoded(tmp_path: Path, breaks: bool) -> None:
    storage, url, given = SlowStorage(), Url.parse(str(tmp_path)), batches(40, 10)

    def source() -> Iterator[pa.RecordBatch]:
        yield from given[:3]
        storage.second_is_begun.set()
        yield given[3]
        if breaks:
            raise DataError("the source broke")

    size = int(1.5 * max(b.nbytes for b in given)) // ARROW_BYTES_PER_FILE_BYTE
    parts = write_batch_files(
        source(),
        SCHEMA,
        storage=storage,
        url_of=lambda first, _: url.join(str(first)),
        format="parquet",
        target_bytes=size,
    )
    found = [next(parts) for _ in range(2)]
    assert [(p.first_row, p.rows, p.is_last) for p in found] == [(0, 20, False), (20, 20, not breaks)]
    assert [p.bytes for p in found] == [p.url.local_path().stat().st_size for p in found]
    with pytest.raises(DataError if breaks else StopIteration):
        next(parts)


def test_a_missing_batch_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"gone\.parquet does not exist: a batch file of the manifest is missing"):
        list(read_file(Storage(), str(tmp_path / "gone.parquet"), format="parquet", schema=SCHEMA))


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_an_empty_batch_file(tmp_path: Path, format: str) -> None:
    (path := tmp_path / f"x.{format}").touch()
    with pytest.raises(DataError, match=rf"x\.{format}: it is empty"):
        list(read_file(Storage(), str(path), format=format, schema=SCHEMA))


def test_kinds_that_a_schema_leaves_open_are_text(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": 1.50}\n{"id": 3, "name": true}\n')
    rows = [
        r for b in read_file(Storage(), str(tmp_path / "x.jsonl"), format="jsonl", schema=SCHEMA) for r in b.to_pylist()
    ]
    assert [r["name"] for r in rows] == ["a", "1.50", "true"]
