"""`make site` builds without a warning, and a search of it, by its own worker and index, finds the right page first."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FIRST = {
    "delete rows": "load-methods.html",
    "decimal_point": "tap-s3-files-settings.html#decimal_point",
    "delimiter": "reading-files.html",
    "webhook": "alerts.html",
    "alert": "alerts.html",
    "rename": "columns.html",
    "mask": "columns.html",
    "remove column": "columns.html",
    "schedule": "run-anywhere.html",
    "backfill": "backfill.html",
    "duplicate rows": "exactly-once.html",
    "bad rows": "bad-rows.html",
    "schema change": "evolution.html",
    "partition": "partition-and-cluster.html",
    "credentials": "access.html",
    "quota": "operations.html",
    "memory": "operations.html",
    "dask": "dask.html",
    "sqs": "sqs.html",
    "delta table": "lake-tables.html",
    "bad-row": "errors.html",
    "access-denied": "errors.html",
    "too-many-rejected": "errors.html",
    "uninstall": "clean-up.html",
    "hard_delete": "target-bigquery-settings.html#hard_delete",
    "cron": "run-anywhere.html",
    "requester pays": "access.html",
    "late files": "new-objects.html",
    "deduplicate": "upsert.html",
    "replace table": "replace-daily.html",
    "cost": "operations.html",
    "kill -9": "exactly-once.html",
    "slack": "alerts.html",
    "nested json": "types.html",
    "decimal comma": "reading-files.html",
    "zip": "reading-files.html",
    "upgrade": "stable.html",
    "alternatives": "instead-of.html",
}
"""Searches, and the first result of each."""


@pytest.mark.timeout(600)
def test_a_search_finds_its_page_first() -> None:
    uv = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
    environment = os.environ | {"PATH": f"{Path(uv).parent}:{os.environ['PATH']}"}
    built = subprocess.run(["make", "site"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, "WARNING" in built.stderr) == (0, False), built.stderr[-4000:]
    script = [uv, "run", "--no-project", "--quiet", "--with-requirements", "docs/site-requirements.txt"]
    searched = subprocess.run(
        [*script, "python", "docs/site_search.py", *FIRST],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = {words: first for words, first, *_ in map(json.loads, searched.stdout.splitlines())}
    assert found == FIRST
