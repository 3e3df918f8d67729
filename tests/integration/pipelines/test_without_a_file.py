"""Paths and options of the command line load a table without a file of settings."""

from __future__ import annotations

import json
from pathlib import Path

from local_cloud.programs import Programs


def test_a_path_and_a_dataset_are_enough(run: Programs, bq: object, dataset: str, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,name\n1,a\n2,b\n")
    sent = run("tap-s3-files", f"{tmp_path}/orders.csv", "--batch-root", f"file://{tmp_path}/batches").check()
    assert {m.get("stream") for m in sent.of_type("BATCH")} == {"orders"}
    run("target-bigquery", "--config=ENV", "--dataset", dataset, stdin=sent.stdout).check()
    (row,) = bq.query(f"SELECT COUNT(*) AS n FROM `{dataset}.orders`").result()  # type: ignore[attr-defined]
    assert row["n"] == 2


def test_options_replace_settings_also_when_discovery_comes_first(run: Programs, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id\n1\n")
    found = run("tap-s3-files", "--discover", f"{tmp_path}/orders.csv").check()
    assert [s["tap_stream_id"] for s in json.loads(found.stdout)["streams"]] == ["orders"]
