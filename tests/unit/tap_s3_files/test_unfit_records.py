"""Rows that can be read but not written as records."""

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


def run(folder: Path, tap: dict[str, Any] | None = None, **settings: Any) -> list[dict[str, Any]]:
    config = {
        "streams": [{"name": "rows", "path": f"{folder}/x.parquet", **settings}],
        "plan_root": f"file://{folder}/plan",
        "metadata_columns": False,
        **(tap or {}),
    }
    text = io.StringIO()
    with redirect_stdout(text):
        TapS3Files(config=config).sync_all()
    return [json.loads(line) for line in text.getvalue().splitlines()]


@pytest.mark.parametrize("later", [0, ROWS])
def test_no_row_is_written_twice_when_columns_are_corrected(tmp_path: Path, later: int) -> None:
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


FAR = pa.array([0, 2932897, -719163, 1], pa.int32()).cast(pa.date32())  # the first days of 10000 and of the year 0


@pytest.mark.parametrize(
    "column",
    [FAR, pa.ListArray.from_arrays([0, 1, 2, 3, 4], FAR), FAR.cast(pa.timestamp("us"))],
    ids=["date", "list", "time"],
)
def test_dates_that_json_has_no_text_for_are_bad_rows(tmp_path: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3, 4], "d": column}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet, row group 0, row 2, column 'd': .*years 1 to 9999"):
        run(tmp_path)
    sent = [m["record"] for m in run(tmp_path, on_bad_row="skip") if m["type"] == "RECORD"]
    assert [r["id"] for r in sent] == [1, 4]
    sent = [m["record"] for m in run(tmp_path, on_bad_row="rescue") if m["type"] == "RECORD"]
    assert [(r["id"], r.get("d") is None) for r in sent] == [(1, False), (2, True), (3, True), (4, False)]
    assert "10000-01-01" in str(sent[1]["_sdc_rescued"])


@pytest.mark.parametrize("batch_format", [None, "jsonl", "parquet"])
@pytest.mark.parametrize("kind", ["column", "member"])
def test_a_name_with_nul_and_values_is_refused_by_file(tmp_path: Path, kind: str, batch_format: str | None) -> None:
    for number, value in enumerate([None, None, 1, None]):
        odd = {"c\0d": value} if kind == "column" else {"c": None if value is None else {"d\0": value}}
        (tmp_path / f"{number}.jsonl").write_text(json.dumps({"id": number, **odd}) + "\n")
    batches = {"encoding": {"format": batch_format}, "storage": {"root": f"file://{tmp_path}/out"}}
    settings = {"batch_config": batches} if batch_format else {}
    path = f"{tmp_path}/[0-3].jsonl"
    if batch_format == "parquet":
        assert [m["type"] for m in run(tmp_path, path=path, tap=settings)].count("BATCH") == 1
        return
    with pytest.raises(DataError, match=r"/2\.jsonl, column 'c.*': it has values, and the character NUL in its name"):
        run(tmp_path, path=path, tap=settings)
    assert [m["type"] for m in run(tmp_path, path=path, tap=settings, columns=["id"])].count("STATE") > 0
