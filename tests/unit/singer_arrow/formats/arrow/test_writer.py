"""Arrow IPC files as the tap writes them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from singer_arrow.errors import ConfigError
from singer_arrow.formats import WRITABLE, WriteOptions
from singer_arrow.formats import arrow as module

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def batch(first: int, rows: int, text: str = "x") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": range(first, first + rows), "text": [text] * rows}, SCHEMA)


def write(path: Path, batches: list[pa.RecordBatch], compression: str | None = None) -> pa.ipc.RecordBatchFileReader:
    rows = WRITABLE["arrow"].write(batches, SCHEMA, path, WriteOptions(compression))
    found = pa.ipc.open_file(str(path))
    assert found.schema.equals(SCHEMA, check_metadata=True)
    assert found.read_all().equals(pa.Table.from_batches(batches, SCHEMA))
    assert rows == sum(b.num_rows for b in batches)
    return found


@pytest.mark.parametrize("compression", [None, "none", "lz4", "zstd"])
def test_others_read_the_file(compression: str | None, tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", [batch(0, 1000, "long" * 100)], compression)
    is_small = (tmp_path / "a.arrow").stat().st_size < 100_000
    assert is_small == (compression in ("lz4", "zstd"))


def test_without_rows_there_is_a_schema(tmp_path: Path) -> None:
    assert write(tmp_path / "a.arrow", []).num_record_batches == 0


def test_small_batches_are_joined_and_large_ones_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 100)
    found = write(tmp_path / "a.arrow", [batch(n, 1) for n in range(150)] + [batch(150, 250)])
    sizes = [found.get_batch(n).num_rows for n in range(found.num_record_batches)]
    assert sizes == [100, 50, 100, 100, 50]
    monkeypatch.setattr(module, "BATCH_BYTES", 10_000)
    found = write(tmp_path / "b.arrow", [batch(0, 50, "x" * 1000), batch(50, 1, "y" * 50_000)])
    assert max(found.get_batch(n).num_rows for n in range(found.num_record_batches)) <= 10


def test_other_codecs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'snappy' is not supported for Arrow batch files; use none, lz4, zstd"):
        WRITABLE["arrow"].write([], SCHEMA, tmp_path / "a.arrow", WriteOptions("snappy"))
