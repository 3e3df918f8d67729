"""on_bad_row: dead_letter in target-bigquery, for every way of loading the good rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from singer_lines import Batches, load, record, rows, schema, state

METHODS = pytest.mark.parametrize("method", ["append-only", "upsert"])


@pytest.fixture(params=["storage_write", "gcs_stage"])
def config(request: pytest.FixtureRequest, config: dict[str, Any]) -> dict[str, Any]:
    """Return settings for the local BigQuery, once for each way of loading."""
    way = {"load_via": "storage_write"}
    if request.param == "gcs_stage":
        bucket: Path = request.getfixturevalue("gcs_bucket")
        way = {"gcs_stage": f"gs://{bucket.name}/stage"}
    return config | way | {"on_bad_row": "dead_letter"}


@METHODS
def test_good_rows_are_loaded_and_bad_ones_put_aside_once(
    method: str, config: dict[str, Any], batch: Batches, bq: Any, dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content: list[dict[str, Any]] = rows(0, 12)
    content[4]["id"] = content[9]["id"] = "no number"
    run = [
        schema(),
        batch(content[:8], file_format="jsonl", batch_id="a"),
        batch(content[8:], file_format="jsonl", batch_id="b"),
        state(0),
        batch([{"id": "none is good"}], file_format="jsonl", batch_id="c"),
        state(1),
    ]
    for _ in range(2):
        load(run, config | {"load_method": method, "max_batch_age_seconds": 0})
    if method == "append-only":
        entries = bq.query(f"SELECT batch_id FROM `{dataset}._sdc_batches`").result()
        assert {r["batch_id"] for r in entries} >= {"a", "b", "c"}
    load([schema(), record(id="x"), record(id=12, name="name 12"), state(2)], config | {"load_method": method})
    ids = [r["id"] for r in bq.query(f"SELECT id FROM `{dataset}.rows` ORDER BY id").result()]
    assert ids == [n for n in range(13) if n not in (4, 9)]
    found = bq.query(f"SELECT batch_id, position FROM `{dataset}._sdc_rejected` ORDER BY batch_id").result()
    assert [(r["batch_id"], r["position"]) for r in found] == [(None, 2), ("a", 5), ("b", 2), ("c", 1)]
    assert '{"n":2}' in capsys.readouterr().out.replace(" ", "")
