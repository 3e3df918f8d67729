"""Fixtures of the integration tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import local_settings
import pytest
from redshift_lines import Loads, RedshiftBatches

from local_cloud import Cloud
from local_cloud.programs import Programs


@pytest.fixture
def tap(cloud: Cloud, tmp_path: Path) -> Programs:
    """Runs the tap in the local cloud."""
    return Programs(cloud.environ(), tmp_path)


@pytest.fixture
def config(cloud: Cloud, dataset: str) -> dict[str, Any]:
    """Settings of target-bigquery for the local BigQuery; `redshift.config` are those of target-redshift."""
    return local_settings.of_bigquery(cloud, dataset=dataset)


@pytest.fixture
def table(bq: Any, dataset: str) -> Callable[..., list[dict[str, Any]]]:
    """Reads a table of BigQuery, `rows` by default, in order of a column, `id` by default."""

    def read(name: str = "rows", order: str = "id") -> list[dict[str, Any]]:
        return [dict(r) for r in bq.query(f"SELECT * FROM `{dataset}.{name}` ORDER BY {order}").result()]

    return read


@pytest.fixture
def ids(bq: Any, dataset: str) -> Callable[[], list[int]]:
    """The ids in the table `rows` of BigQuery, in order."""
    return lambda: [r["id"] for r in bq.query(f"SELECT id FROM `{dataset}.rows` ORDER BY id").result()]


@pytest.fixture
def redshift(
    cloud: Cloud, rs: Any, schema: str, s3: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Loads:
    """target-redshift in this process: `redshift.run(messages)`, and the tables that it makes."""
    for name, value in cloud.env.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    return Loads(cloud, rs, schema, RedshiftBatches(s3, bucket, tmp_path))
