"""Imports at the start of a connector: no library that only some runs need."""

from __future__ import annotations

import subprocess
import sys

import pytest

RARE = [
    "asyncio",
    "botocore",
    "fastavro",
    "fastexcel",
    "fsspec",
    "google.auth",
    "google.cloud.bigquery",
    "joblib",
    "obstore",
    "polars",
    "redshift_connector",
    "requests",
    "urllib3",
]
CODE = """
import sys
from importlib import import_module
from singer_arrow.sdk.lazy_import import import_sdk
import_sdk()
import_module(sys.argv[1])
found = [name for name in sys.argv[2:] if name in sys.modules]
sys.exit(f"imported already: {', '.join(found)}" if found else 0)
"""


@pytest.mark.parametrize(
    ("module", "more"),
    [
        ("tap_s3_files.tap", ["pyarrow.compute", "pyarrow.parquet", "singer_arrow.formats.csv.csv_format"]),
        ("target_bigquery.target", ["pyarrow.parquet"]),
        ("target_redshift.target", []),
    ],
)
def test_what_is_seldom_needed_is_not_imported_at_the_start(module: str, more: list[str]) -> None:
    argv = [sys.executable, "-c", CODE, module, *RARE, *more]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
