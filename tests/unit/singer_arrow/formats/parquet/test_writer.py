"""Encodings chosen for the columns of a Parquet file, and those that the file has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import DataError
from singer_arrow.formats import WRITABLE, WriteOptions
from singer_arrow.formats.parquet_write import choose_encoding
from singer_arrow.reading.parallel import Allowance

ROWS = 2_000
TABLE = pa.table(
    {
        "unique": pa.array(range(ROWS)),
        "few": pa.array([i % 3 for i in range(ROWS)]),
        "half null": pa.array([i if i % 2 else None for i in range(ROWS)]),
        "flag": pa.array([i % 2 == 0 for i in range(ROWS)]),
        "word": ["yes", "no"] * (ROWS // 2),
        "name": [f"name {i}" for i in range(ROWS)],
        "page": [f"{i % 2}" * 2_000 for i in range(ROWS)],
        "nested": [{"a": [i % 5]} for i in range(ROWS)],
        "nothing": pa.nulls(ROWS, pa.string()),
    }
)


def test_dictionaries_where_values_repeat_and_statistics_but_of_long_texts() -> None:
    columns = choose_encoding(TABLE)
    assert columns.dictionaries == ["few", "word", "page", "nested.a.list.element", "nothing"]
    assert columns.statistics == [
        *("unique", "few", "half null", "flag", "word", "name"),
        *("nested.a.list.element", "nothing"),
    ]
    assert columns.page_values == (1 << 20) // 2_000


def test_thousands_of_values_that_repeat_get_a_dictionary_in_any_order() -> None:
    rows = 1 << 14
    table = pa.table(
        {
            **{f"cycle of {n}": pa.array([i % n for i in range(rows)]) for n in (1_501, 4_096, 8_000, 9_000)},
            "sorted": pa.array([i // 3 for i in range(rows)]),
            "twice": pa.array([i // 2 for i in range(rows)]),
            "sparse": pa.array([i if i % 100 == 0 else None for i in range(rows)]),
            "sparse word": pa.array(["x" if i % 100 == 0 else None for i in range(rows)]),
        }
    )
    names = ["cycle of 1501", "cycle of 4096", "cycle of 8000", "sorted", "twice", "sparse word"]
    assert choose_encoding(table).dictionaries == names


def test_the_file_has_what_was_decided(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    WRITABLE["parquet"].write(TABLE.to_batches(), TABLE.schema, path)
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    columns = choose_encoding(TABLE)
    assert [c.path_in_schema for c in chunks if c.has_dictionary_page] == columns.dictionaries
    assert [c.path_in_schema for c in chunks if c.is_stats_set] == columns.statistics
    assert pq.read_table(path).equals(TABLE)


def test_texts_larger_than_a_page_are_written_one_by_one(tmp_path: Path) -> None:
    path, table = tmp_path / "a.parquet", pa.table({"text": ["x" * 3_000_000] * 4})
    columns = choose_encoding(table)
    assert (columns.dictionaries, columns.statistics, columns.page_values) == ([], [], 1)
    WRITABLE["parquet"].write(table.to_batches(), table.schema, path)
    assert pq.read_table(path).equals(table)


def test_row_groups_have_the_given_size_for_batches_of_any_size(tmp_path: Path) -> None:
    path, batch = tmp_path / "a.parquet", pa.record_batch({"n": pa.array(range(1_000_000))})
    WRITABLE["parquet"].write([batch], batch.schema, path, WriteOptions(held_bytes=1_000_000))
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)] == [125_000] * 8
    small = [batch.slice(i, 50_000) for i in range(0, 1_000_000, 50_000)]
    WRITABLE["parquet"].write(small, batch.schema, path, WriteOptions(held_bytes=1_000_000))
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)] == [100_000] * 10
    assert pq.read_table(path)["n"].to_pylist() == batch["n"].to_pylist()


@pytest.mark.full
def test_row_groups_encoded_in_parallel_make_the_same_file_within_the_memory(tmp_path: Path) -> None:
    alone, parallel = tmp_path / "alone.parquet", tmp_path / "parallel.parquet"
    batches = [b for _ in range(40) for b in TABLE.to_batches()]
    size, memory = batches[0].nbytes, Allowance(3 * batches[0].nbytes)
    for path, allowance in ((alone, None), (parallel, memory)):
        rows = WRITABLE["parquet"].write(batches, TABLE.schema, path, WriteOptions(held_bytes=size, parallel=allowance))
        assert rows == 40 * ROWS
    assert parallel.read_bytes() == alone.read_bytes()
    assert pq.read_metadata(parallel).num_row_groups == 40
    assert pq.read_table(parallel).equals(pa.Table.from_batches(batches))
    assert (memory.used, size < memory.peak <= 3 * size) == (0, True)


def test_an_error_of_the_rows_is_raised_and_leaves_no_file_behind(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches() * 5
        raise DataError("broken")

    size = TABLE.nbytes
    memory = Allowance(3 * size)
    with pytest.raises(DataError, match="broken"):
        WRITABLE["parquet"].write(
            batches(), TABLE.schema, tmp_path / "a.parquet", WriteOptions(held_bytes=size, parallel=memory)
        )
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
    assert memory.used == 0
