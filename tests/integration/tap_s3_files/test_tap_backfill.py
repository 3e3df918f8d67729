"""The documented backfill workflow: its shell commands load each day once, also when rerun."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from local_cloud.programs import Programs

WORKFLOW = Path(__file__).parents[3] / "docs" / "backfill.yml"


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    return found


def step(job: dict[str, Any], name: str) -> str:
    """Return the shell commands of a step."""
    (text,) = [s["run"] for s in job["steps"] if name in (s.get("id"), s.get("name"))]
    return str(text)


def shell(text: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-c", text], cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )


def ranges(jobs: dict[str, Any], folder: Path, start: str, end: str, days: int) -> Any:
    ran = shell(
        step(jobs["plan"], "ranges"),
        folder,
        START=start,
        END=end,
        DAYS=f"{days}",
        GITHUB_OUTPUT=str(out := folder / "output"),
    )
    if ran.returncode:
        return ran.stderr
    return json.loads(out.read_text().removeprefix("ranges="))


def test_a_window_is_cut_into_ranges_without_a_gap(jobs: dict[str, Any], tmp_path: Path) -> None:
    assert ranges(jobs, tmp_path, "2024-02-27", "2024-03-03", 2) == [
        {"start": "2024-02-27", "end": "2024-02-29"},
        {"start": "2024-02-29", "end": "2024-03-02"},
        {"start": "2024-03-02", "end": "2024-03-03"},
    ]


@pytest.mark.parametrize(("start", "end"), [("2024-01-01", "2024-01-01"), ("2020-01-01", "2024-01-01")])
def test_too_many_jobs_are_an_error(start: str, end: str, jobs: dict[str, Any], tmp_path: Path) -> None:
    assert "GitHub runs 1 to 256" in ranges(jobs, tmp_path, start, end, 1)


def test_each_day_is_loaded_once_however_often_the_jobs_run(
    jobs: dict[str, Any], run: Programs, s3: Any, bucket: str, bq: Any, dataset: str, tmp_path: Path
) -> None:
    for day in range(1, 6):
        body = f"id\n{day}\n{10 * day}\n".encode()
        s3.put_object(Bucket=bucket, Key=f"in/2024/05/{day:02}/a.csv", Body=body)
    tap = {
        "streams": [{"name": "rows", "path": f"s3://{bucket}/in/{{date:%Y/%m/%d}}/*.csv"}],
        "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{bucket}/batches"}},
    }
    (tmp_path / "tap.json").write_text(json.dumps(tap))
    (tmp_path / "target.json").write_text("{}")
    window = {"TAP_S3_FILES_START_DATE": "2024-05-02", "TAP_S3_FILES_END_DATE": "2024-05-05"}
    found = shell(step(jobs["plan"], "discover"), tmp_path, **run.env, **window)
    assert found.returncode == 0, found.stderr

    def load(start: str, end: str, *, forget: bool) -> None:
        states = tmp_path / f"states-{start}.jsonl"
        (tmp_path / "states.jsonl").write_text(states.read_text() if states.exists() and not forget else "")
        env = {
            "TARGET": "target-bigquery",
            "TAP_S3_FILES_START_DATE": start,
            "TAP_S3_FILES_END_DATE": end,
            "TAP_S3_FILES_PLAN_ROOT": f"s3://{bucket}/plans/{start}_{end}",
        }
        ran = shell(step(jobs["load"], "load"), tmp_path, **run.env, **env)
        assert (ran.returncode, "there twice" in ran.stderr) == (0, False), ran.stderr
        states.write_text((tmp_path / "states.jsonl").read_text())

    cut = ranges(jobs, tmp_path, "2024-05-02", "2024-05-05", 2)
    for forget in (False, False, True):
        for part in cut:
            load(part["start"], part["end"], forget=forget)
        rows = [r["id"] for r in bq.query(f"SELECT id FROM {dataset}.rows ORDER BY id").result()]
        assert rows == [2, 3, 4, 20, 30, 40]
