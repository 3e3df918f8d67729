"""Rows that are read, and cannot be written as records."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import DataError
from tap_s3_files.tap import TapS3Files

ROWS, BAD = 3000, 2500


def run(folder: Path, **settings: Any) -> list[dict[str, Any]]:
    config = {
        "streams": [{"name": "rows", "path": f"{folder}/x.parquet", **settings}],
        "plan_root": f"file://{folder}/plan",
        "metadata_columns": False,
    }
    text = io.StringIO()
    with redirect_stdout(text):
        TapS3Files(config=config).sync_all()
    return [json.loads(line) for line in text.getvalue().splitlines()]


@pytest.mark.parametrize("later", [0, ROWS])
def test_no_row_is_written_twice_when_columns_are_mended(tmp_path: Path, later: int) -> None:
    maps = [[("a", 1.0)]] * ROWS
    maps[BAD] = [("a", 1.0), ("a", 2.0)]
    before = [[("a", 1.0)]] * later
    table = pa.table({"id": range(later + ROWS), "m": pa.array([*before, *maps], pa.map_(pa.string(), pa.float64()))})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=1000)
    with pytest.raises(DataError, match=r"x\.parquet.*column 'm'"):
        run(tmp_path)
    messages = run(tmp_path, columns=["id"])
    assert [m["record"]["id"] for m in messages if m["type"] == "RECORD"] == list(range(later + ROWS))
    assert messages[-1]["type"] == "STATE"
