"""Settings for targets in this process that load into the local cloud."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from local_cloud import Cloud

Config = dict[str, Any]
TEMPORARY = os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir()
"""The folder that contains the temporary files of all tests."""
LOCAL_BATCHES = {"encoding": {"format": "jsonl"}, "storage": {"root": TEMPORARY}}
"""`batch_config` of a target that may load local batch files."""
GONE = (Path(TEMPORARY) / "nowhere" / "gone.parquet").as_uri()
"""URL of a batch file that is allowed but does not exist."""
ONE_EACH = {"max_batch_mb": 0.000001}
"""Setting for one load per batch."""


def of_bigquery(cloud: Cloud, **more: Any) -> Config:
    """Return settings of target-bigquery, with overrides."""
    names = ("project", "api_endpoint", "storage_write_endpoint")
    return (
        {name: cloud.env[f"TARGET_BIGQUERY_{name.upper()}"] for name in names} | {"batch_config": LOCAL_BATCHES} | more
    )


def of_redshift(cloud: Cloud, **more: Any) -> Config:
    """Return settings of target-redshift, with overrides."""
    names = ("host", "user", "password", "dbname", "s3_stage")
    texts = {name: cloud.env[f"TARGET_REDSHIFT_{name.upper()}"] for name in names}
    return {**texts, "port": int(cloud.env["TARGET_REDSHIFT_PORT"]), "ssl": False, "batch_config": LOCAL_BATCHES} | more
