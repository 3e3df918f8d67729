"""The SDK's standard target tests, against the local warehouses, for each load method."""

from __future__ import annotations

import pytest
from singer_sdk.testing import get_target_test_class

from local_cloud import Cloud
from target_bigquery.target import TargetBigQuery
from target_redshift.target import TargetRedshift


@pytest.fixture(autouse=True)
def environment(cloud: Cloud, dataset: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment variables from which the targets read their settings."""
    own = {"TARGET_BIGQUERY_DATASET": dataset, "TARGET_REDSHIFT_DEFAULT_TARGET_SCHEMA": schema}
    for name, value in (cloud.environ() | own).items():
        if name.startswith(("AWS_", "TARGET_BIGQUERY_", "TARGET_REDSHIFT_")):
            monkeypatch.setenv(name, value)


KEYLESS = {name: {"load_method": "append-only"} for name in ("test_no_p*", "test_object_schema_*", "example_s*")}
"""Settings of the SDK's streams without keys, which an upsert refuses."""
UPSERT = {"load_method": "upsert", "add_record_metadata": True, "streams": KEYLESS}

TestAppend = get_target_test_class(TargetBigQuery, config={})
TestUpsert = get_target_test_class(TargetBigQuery, config=UPSERT)
TestOverwrite = get_target_test_class(TargetBigQuery, config={"load_method": "overwrite", "nested": "json"})

TestRedshiftAppend = get_target_test_class(TargetRedshift, config={})
TestRedshiftUpsert = get_target_test_class(TargetRedshift, config={**UPSERT, "load_format": "jsonl"})
TestRedshiftOverwrite = get_target_test_class(TargetRedshift, config={"load_method": "overwrite", "load_format": "csv"})
