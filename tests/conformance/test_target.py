"""The SDK's standard target tests, against the local BigQuery, for each load method."""

from __future__ import annotations

import pytest
from singer_sdk.testing import get_target_test_class

from local_cloud import Cloud
from target_bigquery.target import TargetBigQuery


@pytest.fixture(autouse=True)
def environment(cloud: Cloud, dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the target reads its settings from."""
    for name, value in (cloud.environ() | {"TARGET_BIGQUERY_DATASET": dataset}).items():
        if name.startswith("TARGET_BIGQUERY_"):
            monkeypatch.setenv(name, value)


TestAppend = get_target_test_class(TargetBigQuery, config={})
TestUpsert = get_target_test_class(TargetBigQuery, config={"load_method": "upsert", "add_record_metadata": True})
TestOverwrite = get_target_test_class(TargetBigQuery, config={"load_method": "overwrite", "nested": "json"})
