"""Batches of Parquet files are bounded by their bytes in memory, independent of the file's size."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.formats import FORMATS
from singer_arrow.formats.parquet_read import BATCH_BYTES, LARGE_BATCH_BYTES, rows_at_once
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

LONG = [f"{i:05d}" * 2000 for i in range(20)]  # texts of 10 kB, stored once in a dictionary


def nested(rows: int) -> pa.Table:
    numbers = range(rows)
    return pa.table(
        {
            "list": [[LONG[i % 20], "short"] for i in numbers],
            "object": [{"a": {"b": LONG[i % 20]}, "n": i} for i in numbers],
            "map": pa.array([[("key", LONG[i % 20])] for i in numbers], pa.map_(pa.string(), pa.string())),
        }
    )


TABLES = {
    "a text that many rows name": lambda: pa.table(
        {
            "id": pa.array(range(20_000)),
            "text": pa.DictionaryArray.from_arrays(pa.array([i % 20 for i in range(20_000)], pa.int32()), LONG),
        }
    ),
    "many columns": lambda: pa.table({f"c{i}": pa.array([float(i)] * 40_000) for i in range(300)}),
    "nested texts": lambda: nested(6_000),
}


def read(path: Path, progress: ReadProgress | None = None) -> list[pa.RecordBatch]:
    reader = ObjectReader(Storage(), Url.parse(str(path)))
    return list(FORMATS["parquet"].read(reader, pq.read_schema(path), ReadOptions(), progress))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.full
def test_batches_are_bounded_by_bytes(tmp_path: Path, name: str) -> None:
    path, table = tmp_path / "a.parquet", TABLES[name]()
    pq.write_table(table, path, store_schema=False)
    decoded = pq.read_table(path)
    assert decoded.nbytes > 1.25 * LARGE_BATCH_BYTES > 10 * path.stat().st_size
    batches = read(path)
    assert max(b.nbytes for b in batches) <= LARGE_BATCH_BYTES
    assert len(batches) <= 2 + decoded.nbytes // (BATCH_BYTES // 4)  # not needlessly many
    assert pa.Table.from_batches(batches).equals(decoded.cast(batches[0].schema))


def test_a_reading_from_a_place_gives_the_same_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(TABLES["a text that many rows name"](), path, row_group_size=8_000, store_schema=False)
    whole = read(path)
    first = whole[0].num_rows
    assert first < 8_000
    rest = read(path, ReadProgress(ResumePoint(first, 0, first)))
    assert [b.num_rows for b in rest] == [b.num_rows for b in whole[1:]]
    assert rest == whole[1:]


def test_texts_of_one_length_make_no_small_batches(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.parquet", 300_000
    pq.write_table(pa.table({"id": pa.array(range(rows)), "s": ["yes", "no", "maybe"] * (rows // 3)}), path)
    assert [b.num_rows for b in read(path)] == [131_072, 131_072, 37_856]


def test_a_text_that_was_not_found_may_be_any_of_its_chunk(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(TABLES["a text that many rows name"](), path, store_schema=False)
    group = pq.read_metadata(path).row_group(0)
    stored = group.column(1).total_uncompressed_size
    assert rows_at_once(group, [1], 1 << 17, lambda _: None) == LARGE_BATCH_BYTES // stored
    texts = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), ["x" * 10_000])
    rows = rows_at_once(group, [1], 1 << 17, lambda _: pa.record_batch({"text": texts}))
    assert BATCH_BYTES // 10_100 <= rows <= BATCH_BYTES // 10_000
    assert rows_at_once(group, [0], 1 << 17, lambda _: None) == 1 << 17
