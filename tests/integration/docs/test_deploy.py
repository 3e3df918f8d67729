"""The files of docs/deploy load rows: each scheduler's file is parsed, and what it names is run as plain processes.

Airflow and Dagster are installed and execute their file. Docker, Kubernetes, GitHub and cron are not: their commands
run with the environment, the folders and nothing else that the file gives them.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks import peers
from benchmarks.peers import Peer

from local_cloud import Cloud

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "docs/deploy"
TOOLS = Path(sys.executable).parent
PATH = f"{TOOLS}:/usr/bin:/bin"
SCHEDULERS = {"apache-airflow": Peer("apache-airflow", "3.13"), "dagster": Peer("dagster", "3.13")}


@dataclass
class Pipeline:
    """A folder with load.sh, tap.yml and pipeline.env, whose objects and tables are those of one test.

    Attributes:
        folder: the folder.
        secrets: what a scheduler's secrets, or the roles of its machines, give to a run.
    """

    folder: Path
    secrets: dict[str, str]
    s3: Any
    bq: Any
    dataset: str

    def put(self, name: str, rows: str) -> None:
        self.s3.put_object(Bucket="source", Key=f"{self.dataset}/airports/{name}.csv", Body=f"faa,name\n{rows}")

    def rows(self) -> list[str]:
        found = self.bq.query(f"SELECT faa FROM {self.dataset}.airports ORDER BY faa").result()
        return [row["faa"] for row in found]

    def write_secrets(self) -> None:
        """Append the secrets to pipeline.env, whose own example is replaced."""
        (self.folder / "pipeline.env").write_text("".join(f"{k}={v}\n" for k, v in self.secrets.items()))

    def check(
        self,
        command: list[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        code: int = 0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with an environment of its own, and fail unless its exit code is right."""
        ran = subprocess.run(
            command,
            env={"PATH": PATH, "HOME": str(self.folder)} | dict(env or {}),
            cwd=cwd or self.folder.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == code, ran.stdout[-4000:] + ran.stderr[-4000:]
        return ran


@pytest.fixture
def pipeline(cloud: Cloud, s3: Any, bq: Any, dataset: str, tmp_path: Path) -> Pipeline:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    for name in ("load.sh", "tap.yml", "pipeline.env"):
        shutil.copy(DEPLOY / name, folder)
    settings = (folder / "tap.yml").read_text()
    for bucket in ("source", "stage"):
        settings = settings.replace(f"s3://{bucket}/", f"s3://{bucket}/{dataset}/")
    (folder / "tap.yml").write_text(settings)
    made = Pipeline(folder, {**cloud.env, "TARGET_BIGQUERY_DATASET": dataset}, s3, bq, dataset)
    made.put("a", "04G,Lansdowne\n06A,Moton\n")
    return made


def moved(text: str, places: Mapping[str, Path]) -> str:
    """Return a command line with the folders of a container or machine as those of this test."""
    for place, folder in places.items():
        text = text.replace(place, str(folder))
    return text


def test_a_second_run_continues_and_a_run_at_the_same_time_does_nothing(pipeline: Pipeline) -> None:
    pipeline.write_secrets()
    script = ["bash", str(pipeline.folder / "load.sh")]
    pipeline.check(script)
    pipeline.put("b", "06C,Schaumburg\n")
    assert "1 object" in pipeline.check(script).stderr
    assert pipeline.rows() == ["04G", "06A", "06C"]
    with (pipeline.folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert pipeline.check(script).stderr == "load.sh: the run before still lasts\n"
    settings = (pipeline.folder / "tap.yml").read_text()
    (pipeline.folder / "tap.yml").write_text("streams: [{}]\n")
    pipeline.check(script, code=1)
    assert (pipeline.folder / "states.jsonl").read_text() == ""
    (pipeline.folder / "tap.yml").write_text(settings)
    assert "0 objects" in pipeline.check(script).stderr


def test_docker_compose(pipeline: Pipeline) -> None:
    service = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())["services"]["load"]
    pipeline.write_secrets()
    env = dict(line.split("=", 1) for line in (pipeline.folder / service["env_file"]).read_text().splitlines())
    env |= {name: pipeline.secrets[name] for name in service["environment"] if name in pipeline.secrets}
    (volume,) = service["volumes"]
    places = {volume.removeprefix("./:"): pipeline.folder}
    pipeline.check(
        [moved(part, places) for part in service["command"]], env, Path(moved(service["working_dir"], places))
    )
    assert pipeline.rows() == ["04G", "06A"]


def test_docker_run(pipeline: Pipeline) -> None:
    text = (DEPLOY / "docker-run.sh").read_text()
    docker, run, *words = shlex.split(text.replace("\\\n", " "), comments=True)
    assert [docker, run] == ["docker", "run"]
    parser = argparse.ArgumentParser()
    parser.add_argument("--rm", action="store_true")
    for option in ("--env-file", "--volume"):
        parser.add_argument(option)
    parser.add_argument("--env", action="append")
    given, (image, *command) = parser.parse_known_args(words)
    assert image == "singer-arrow"
    pipeline.write_secrets()
    env = dict(line.split("=", 1) for line in (pipeline.folder / given.env_file).read_text().splitlines())
    env |= {name: pipeline.secrets[name] for name in given.env if name in pipeline.secrets}
    places = {given.volume.removeprefix("$PWD:"): pipeline.folder}
    pipeline.check([moved(part, places) for part in command], env)
    assert pipeline.rows() == ["04G", "06A"]


def test_cron(pipeline: Pipeline) -> None:
    """cron runs `sh -c LINE` with HOME, LOGNAME, SHELL and the variables of its table alone."""
    pipeline.write_secrets()
    env, lines = {"LOGNAME": "root", "SHELL": "/bin/sh"}, []
    for line in (DEPLOY / "crontab").read_text().splitlines():
        name, mark, value = line.partition("=")
        if mark and name.isidentifier():
            env[name] = moved(value, {"/opt/singer-arrow/bin": TOOLS})
        elif line and not line.startswith("#"):
            lines.append(line.split(None, 5)[5])
    (command,) = lines
    assert "%" not in command  # a line break to cron
    pipeline.check(["/bin/sh", "-c", moved(command, {"/opt/pipeline": pipeline.folder})], env)
    assert pipeline.rows() == ["04G", "06A"]
    assert "Loaded airports: 2 rows" in (pipeline.folder / "log.txt").read_text()


def test_kubernetes(pipeline: Pipeline, tmp_path: Path) -> None:
    claim, job = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}
    assert volumes["state"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    state, scratch = tmp_path / "claim", tmp_path / "scratch"
    state.mkdir()
    scratch.mkdir()
    (pipeline.folder / "pipeline.env").unlink()  # its lines are in the secret
    folders = {"configMap": pipeline.folder, "persistentVolumeClaim": state, "emptyDir": scratch}
    places = {mount["mountPath"]: folders[next(iter(volumes[mount["name"]]))] for mount in container["volumeMounts"]}
    assert container["envFrom"] == [{"secretRef": {"name": "pipeline"}}]
    env = pipeline.secrets | {item["name"]: moved(item["value"], places) for item in container["env"]}
    pipeline.folder.chmod(0o555)  # config maps are read-only
    try:
        pipeline.check([moved(part, places) for part in container["command"]], env)
    finally:
        pipeline.folder.chmod(0o755)
    assert pipeline.rows() == ["04G", "06A"]
    assert (state / "states.jsonl").read_text()
    assert sorted(path.name for path in pipeline.folder.iterdir()) == ["load.sh", "tap.yml"]


def test_github_actions(pipeline: Pipeline) -> None:
    """The steps with commands run, but for the installation; what other actions do is in the secrets."""
    (job,) = yaml.safe_load((DEPLOY / "github-actions.yml").read_text())["jobs"].values()
    (pipeline.folder / "pipeline.env").unlink()
    values = {"${{ vars.GCP_PROJECT }}": "local"}
    env = {name: values.get(value, value) for name, value in job["env"].items()} | pipeline.secrets
    install, *commands = [step["run"] for step in job["steps"] if "run" in step]
    assert install == "pip install wheels/*.whl"
    for command in commands:
        pipeline.check(["bash", "-e", "-c", command], env, pipeline.folder)
    assert pipeline.rows() == ["04G", "06A"]
    cached = {step["with"]["path"] for step in job["steps"] if "cache" in step.get("uses", "")}
    assert cached == {"state"}
    assert (pipeline.folder / "state/states.jsonl").read_text()


def scheduler(name: str) -> Path:
    """Return the folder of the executables of a scheduler, which is installed on first use."""
    folder = ROOT / "benchmarks/data/schedulers"
    pins = ROOT / "tests/support/schedulers"
    return peers.install(name, folder, print, pins=pins, peers=SCHEDULERS).bin


@pytest.mark.soak
def test_airflow(pipeline: Pipeline, tmp_path: Path) -> None:
    """Airflow itself, installed on first use, executes the DAG."""
    programs = scheduler("apache-airflow")
    pipeline.write_secrets()
    dags = tmp_path / "airflow/dags"
    dags.mkdir(parents=True)
    text = (DEPLOY / "airflow_dag.py").read_text()
    (dags / "dag.py").write_text(moved(text, {"/opt/pipeline": pipeline.folder}))
    env = {"AIRFLOW_HOME": str(dags.parent), "AIRFLOW__CORE__LOAD_EXAMPLES": "false", "PATH": f"{PATH}:{programs}"}
    pipeline.check([str(programs / "airflow"), "db", "migrate"], env)
    pipeline.check([str(programs / "airflow"), "dags", "test", "s3_to_warehouse"], env)
    assert pipeline.rows() == ["04G", "06A"]


@pytest.mark.soak
def test_dagster(pipeline: Pipeline, tmp_path: Path) -> None:
    """Dagster itself, installed on first use, executes the job."""
    programs = scheduler("dagster")
    pipeline.write_secrets()
    text = (DEPLOY / "dagster_job.py").read_text()
    (tmp_path / "job.py").write_text(moved(text, {"/opt/pipeline": pipeline.folder}))
    env = {"PATH": f"{PATH}:{programs}", "DAGSTER_DISABLE_TELEMETRY": "yes", "PYTHONPATH": os.fspath(tmp_path)}
    command = [str(programs / "dagster"), "job", "execute", "-f", "job.py", "-j", "s3_to_warehouse"]
    pipeline.check(command, env, tmp_path)
    assert pipeline.rows() == ["04G", "06A"]
