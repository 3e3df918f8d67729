"""The script that schedulers run, and what the documentation gives schedulers."""

from __future__ import annotations

import ast
import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from local_cloud.programs import Programs

PAGE = (Path(__file__).parents[3] / "docs/scheduling.md").read_text()


def block(name: str) -> str:
    """Return a tested block of the page."""
    found = re.search(rf"<!-- tested: {re.escape(name)} -->\n```\w*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


class Folder:
    """The folder that load.sh runs in, for a bucket and a dataset."""

    def __init__(self, run: Programs, s3: Any, bucket: str, bq: Any, dataset: str, path: Path) -> None:
        self.run, self.s3, self.bucket, self.bq, self.dataset, self.path = run, s3, bucket, bq, dataset, path
        streams = [{"name": "orders", "path": f"s3://{bucket}/in/*.csv"}]
        storage = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{bucket}/stage"}}
        self.write("tap.json", json.dumps({"streams": streams, "batch_config": storage}))
        project, endpoint = (run.env[f"TARGET_BIGQUERY_{name}"] for name in ("PROJECT", "API_ENDPOINT"))
        self.write("target.json", json.dumps({"project": project, "api_endpoint": endpoint, "dataset": dataset}))
        self.write("load.sh", block("load.sh"))
        (path / "load.sh").chmod(0o755)

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def put(self, name: str, text: str) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=f"in/{name}", Body=text.encode())

    def load(self) -> subprocess.CompletedProcess[str]:
        command = [self.path / "load.sh"]
        return subprocess.run(command, env=self.run.env, cwd="/", capture_output=True, text=True, check=False)

    def ids(self) -> list[int]:
        return [row["id"] for row in self.bq.query(f"SELECT id FROM `{self.dataset}.orders` ORDER BY id").result()]


@pytest.fixture
def folder(run: Programs, s3: Any, bucket: str, bq: Any, dataset: str, tmp_path: Path) -> Folder:
    return Folder(run, s3, bucket, bq, dataset, tmp_path)


def test_the_script_loads_what_is_new_and_keeps_the_state(folder: Folder) -> None:
    folder.put("1.csv", "id\n1\n2\n")
    assert folder.load().returncode == 0
    first = json.loads((folder.path / "state.json").read_text())
    assert folder.load().returncode == 0
    assert json.loads((folder.path / "state.json").read_text())["bookmarks"].keys() == first["bookmarks"].keys()
    folder.put("2.csv", "id\n3\n")
    assert folder.load().returncode == 0
    assert folder.ids() == [1, 2, 3]


def test_the_script_fails_with_the_tap_and_continues_from_its_state(folder: Folder) -> None:
    folder.put("1.csv", "id\n1\n")
    assert folder.load().returncode == 0
    kept = (folder.path / "state.json").read_text()
    folder.put("2.csv", "id\n2,3\n")
    failed = folder.load()
    assert failed.returncode == 1
    assert "[bad-row]" in failed.stderr
    assert (
        json.loads((folder.path / "state.json").read_text())["bookmarks"].keys() == json.loads(kept)["bookmarks"].keys()
    )
    folder.put("2.csv", "id\n2\n")
    assert folder.load().returncode == 0
    assert folder.ids() == [1, 2]


def test_the_script_leaves_a_run_that_still_lasts_alone(folder: Folder) -> None:
    holder = subprocess.Popen(["flock", "--no-fork", folder.path / "load.lock", "sleep", "60"])
    try:
        while subprocess.run(["flock", "-n", folder.path / "load.lock", "true"], check=False).returncode == 0:
            assert holder.poll() is None
        ran = folder.load()
    finally:
        holder.send_signal(signal.SIGTERM)
        holder.wait()
    assert (ran.returncode, ran.stderr) == (0, "load.sh: the run before still lasts\n")
    assert not (folder.path / "state.json").exists()


def test_schedulers_run_the_script_one_at_a_time_with_time_to_end() -> None:
    spec = yaml.safe_load(block("cronjob.yaml"))["spec"]
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (spec["concurrencyPolicy"], container["command"]) == ("Forbid", ["bash", "load.sh"])
    assert pod["terminationGracePeriodSeconds"] > 20
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert re.search(r"^(\S+ ){5}/srv/orders/load\.sh ", block("crontab"), re.MULTILINE)


@pytest.mark.parametrize("name", ["airflow.py", "dagster.py"])
def test_definitions_of_schedulers_are_python_that_runs_the_script(name: str) -> None:
    tree = ast.parse(block(name))
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert any(text.strip() == "/srv/orders/load.sh" for text in texts)
    assert "*/5 * * * *" in texts
