"""`make site` builds without a warning, and a search of it, by its own worker and index, finds the right page first."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
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
    words = f"ARGS={shlex.join(FIRST)}"
    ran = subprocess.run(
        ["make", "site-search", words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, "WARNING" in ran.stderr) == (0, False), ran.stderr[-4000:]
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    assert {words: first for words, first, *_ in lines} == FIRST


def test_without_its_libraries_the_search_names_the_command() -> None:
    """They are no part of what `make setup` installs."""
    script = "import sys; sys.modules['py_mini_racer'] = None; import runpy; runpy.run_path('docs/site_search.py')"
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, "run: make site-search" in ran.stderr, "Traceback" in ran.stderr) == (1, True, False)
