"""Fixtures of the integration tests."""

from pathlib import Path
from typing import Any

import pytest
from redshift_lines import Loads, RedshiftBatches

from local_cloud import Cloud
from local_cloud.programs import Programs


@pytest.fixture
def tap(cloud: Cloud, tmp_path: Path) -> Programs:
    """Runs the tap in the local cloud."""
    return Programs(cloud.environ(), tmp_path)


@pytest.fixture
def redshift(
    cloud: Cloud, rs: Any, schema: str, s3: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Loads:
    """target-redshift in this process: `redshift.run(messages)`, and the tables that it makes."""
    for name, value in cloud.env.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    return Loads(cloud, rs, schema, RedshiftBatches(s3, bucket, tmp_path))
