"""Histories of a pipeline by chance: the tables are what a model of objects, versions and rows says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fault_suite.histories import HistorySite, everything
from tap_source import TapBucket

from local_cloud import Cloud


@pytest.mark.parametrize("history", everything(3, 2), ids=lambda history: history.name)
def test_the_tables_are_as_the_model_says(
    history: Any, cloud: Cloud, bq: Any, rs: Any, s3: Any, bucket: str, tap: Any, tmp_path: Path
) -> None:
    site = HistorySite(cloud, tmp_path, {"bigquery": bq, "redshift": rs}, TapBucket(s3, bucket, tap))
    outcome = site.try_out(history)
    assert not outcome.wrong, outcome.log
    assert (outcome.comparison.lost, outcome.comparison.doubled) == (0, 0)
