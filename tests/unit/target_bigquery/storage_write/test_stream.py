"""A group of rows -> a write stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.load.method import Item
from target_bigquery.columns import columns_of
from target_bigquery.conversion import Conversion
from target_bigquery.storage_write import load_method as rows
from target_bigquery.storage_write import load_method as write_stream
from target_bigquery.storage_write.client import Request, WriteError, WriteErrorKind


class Refusing:
    """A stream that fails while a gRPC thread is still reading the requests."""

    held: Sequence[Request]

    def create(self, table: str) -> str:
        return table

    def append(self, _name: str, _schema: bytes, requests: Sequence[Request]) -> None:
        self.held = requests
        msg = "no"
        raise WriteError(msg, WriteErrorKind.REFUSED)


def test_who_still_sends_may_read_on_after_a_refusal(tmp_path: Path) -> None:
    given, api, path = pa.schema([("n", pa.int64())]), Refusing(), tmp_path / "rows"
    item: Any = Item(urls=(), file_format="parquet", conversion=Conversion(columns_of(given), given))
    part = rows.write(item, [pa.record_batch({"n": [1, 2]}, schema=given)], path)
    content = path.read_bytes()
    with pytest.raises(WriteError, match="no"):
        write_stream.fill(api, "t", [part])  # type: ignore[arg-type]
    path.unlink()
    assert b"".join(r.view[r.start : r.start + r.size] for r in api.held) == content
