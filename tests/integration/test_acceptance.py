"""`python -m acceptance` on the local cloud: what it reports, and that it leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

from acceptance import site
from local_cloud import Cloud

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(cloud: Cloud, tmp_path: Path) -> Start:
    """Starts the suite with a report in the test's folder."""

    def make(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "acceptance", "--report", str(tmp_path / "report.md"), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=cloud.environ(), cwd=tmp_path
        )

    return make


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def left(s3: Any, bq: Any, rs: Any) -> list[str]:
    """Return all that has the prefix of the suite, in the bucket and in both warehouses."""
    found = s3.list_objects_v2(Bucket="source", Prefix="acceptance_").get("Contents", [])
    schemas = rs.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'acceptance_%'").fetchall()
    datasets = [d.dataset_id for d in bq.list_datasets() if d.dataset_id.startswith("acceptance_")]
    return [*(o["Key"] for o in found), *datasets, *(name for (name,) in schemas)]


def test_scenarios_hold_and_leave_nothing(start: Start, s3: Any, bq: Any, rs: Any, tmp_path: Path) -> None:
    code, out, err = ended(start("--yes", "--only", "append-only", "--only", "hard-delete"))
    assert (code, err) == (0, ""), out + err
    assert "4 scenarios by list prices" in out
    report = json.loads((tmp_path / "report.json").read_text())
    assert {(one["name"], one["outcome"], one["rows"]) for one in report["scenarios"]} == {
        *(("append-only-bigquery", "held", 4), ("append-only-redshift", "held", 4)),
        *(("hard-delete-bigquery", "held", 2), ("hard-delete-redshift", "held", 2)),
    }
    assert report["scenarios"][0]["notes"]["load jobs"] == 2
    assert left(s3, bq, rs) == []


def test_the_tasks_of_a_first_week_hold_without_a_warning_too_many(start: Start, tmp_path: Path) -> None:
    code, out, err = ended(start("--yes", "--only", "week-*-redshift"))
    assert (code, err) == (0, ""), out + err
    assert json.loads((tmp_path / "report.json").read_text())["totals"] == {"held": 31}


def test_leftovers_of_every_service_are_named(
    cloud: Cloud, s3: Any, bq: Any, rs: Any, gcs_bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, young = "acceptance_20200101t0000_abcdef", f"acceptance_{datetime.now(UTC):%Y%m%dt%H%M}_abcdef"
    for name, value in site.environment(cloud.environ()).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ACCEPTANCE_GCS_BUCKET", gcs_bucket.name)
    place = site.Site(["bigquery", "redshift"])
    try:
        for name in (old, young):
            s3.put_object(Bucket="source", Key=f"{name}/in/a.csv", Body=b"")
            bq.create_dataset(name)
            rs.execute(f'CREATE SCHEMA "{name}"')
            (gcs_bucket / name).mkdir()
            (gcs_bucket / name / "a.parquet").write_bytes(b"")
        assert [line for line in place.leftovers() if "abcdef" in line] == [
            *(f"bigquery: {old}", f"redshift: {old}", f"s3://source/{old}", f"gs://{gcs_bucket.name}/{old}"),
        ]
    finally:
        assert place.remove() == []
        for name in (old, young):
            s3.delete_object(Bucket="source", Key=f"{name}/in/a.csv")
            bq.delete_dataset(name)
            rs.execute(f'DROP SCHEMA IF EXISTS "{name}"')


def test_a_scenario_that_does_not_hold_is_in_the_report(
    start: Start, tmp_path: Path, fail_jobs: Any, s3: Any, bq: Any, rs: Any
) -> None:
    fail_jobs({"job": "load", "match": "acceptance_", "reason": "accessDenied", "message": "Access Denied: by a test"})
    code, out, _ = ended(start("--yes", "--only", "append-only"))
    assert code == 1
    assert "1 held, 1 not held, 0 not run" in out
    text = (tmp_path / "report.md").read_text()
    assert "| append-only-bigquery | not held |" in text
    assert "Access Denied: by a test" in text
    assert left(s3, bq, rs) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_leaves_nothing(
    number: signal.Signals, start: Start, s3: Any, bq: Any, rs: Any, tmp_path: Path
) -> None:
    process = start("--yes", "--only", "append-only", "--only", "upsert")
    assert wait_until(lambda: len(left(s3, bq, rs)) > 4, seconds=60)
    os.kill(process.pid, number)
    code, out, err = ended(process)
    assert code == 128 + number, out + err
    assert "the run was interrupted" in (tmp_path / "report.md").read_text()
    assert left(s3, bq, rs) == []


def test_it_asks_on_a_terminal_only(start: Start, s3: Any, bq: Any, rs: Any) -> None:
    code, out, err = ended(start())
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "there is no terminal to ask on; add --yes" in err
    assert left(s3, bq, rs) == []


def test_a_scenario_without_what_it_needs_is_not_run(cloud: Cloud, tmp_path: Path) -> None:
    env = {n: v for n, v in cloud.environ().items() if not n.startswith("TARGET_REDSHIFT_")}
    command = [sys.executable, "-m", "acceptance", "--yes", "--only", "append-only"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 held, 0 not held, 1 not run" in done.stdout
    assert "TARGET_REDSHIFT_HOST is not set" in (tmp_path / "acceptance.md").read_text()
