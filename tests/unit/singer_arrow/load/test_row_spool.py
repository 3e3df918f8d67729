"""Rows buffered on local disk."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from singer_arrow.load import convert as spool

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def batch(start: int, count: int, name: str = "n") -> pa.RecordBatch:
    ids = pa.array(range(start, start + count), pa.int64())
    return pa.RecordBatch.from_arrays([ids, pa.array([f"{name}{i}" for i in range(count)])], schema=SCHEMA)


@pytest.fixture
def spools(tmp_path: Path) -> list[spool.Spool]:
    counts = [[10, 0, 7], [], [1], [100, 50]]
    made, first = [], 0
    for number, batches in enumerate(counts):
        content = []
        for count in batches:
            content.append(batch(first, count))
            first += count
        made.append(spool.write_spool(content, SCHEMA, tmp_path / f"{number}.arrow"))
    return made


def test_any_range_reads_back(spools: list[spool.Spool]) -> None:
    for start in (0, 1, 9, 10, 16, 17, 18, 167):
        for end in (0, 1, 10, 17, 18, 19, 118, 168):
            ids = [i for b in spool.read_spools(spools, start, end) for i in b.column("id").to_pylist()]
            assert ids == list(range(start, end))


def test_it_knows_its_size(spools: list[spool.Spool]) -> None:
    assert [s.rows for s in spools] == [17, 0, 1, 150]
    assert all(s.bytes == s.path.stat().st_size > 0 for s in spools)


def test_large_batches_are_cut(tmp_path: Path) -> None:
    text = "x" * 1000
    rows = 50_000
    large = pa.RecordBatch.from_arrays([pa.array(range(rows), pa.int64()), pa.array([text] * rows)], schema=SCHEMA)
    made = spool.write_spool([large], SCHEMA, tmp_path / "a.arrow")
    assert len(made.counts) >= 3
    assert made.memory_bytes == pytest.approx(large.nbytes)
    assert made.bytes < made.memory_bytes
    assert pa.Table.from_batches(spool.read_spools([made], 0, rows)).equals(pa.Table.from_batches([large]))
