"""The files of docs/deploy load rows: each scheduler's file is parsed, and what it names is run as plain processes.

Airflow and Dagster are installed and execute their file. Docker, Kubernetes, GitHub and cron are not: their commands
run with the environment, the folders and nothing else that the file gives them.
"""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

import pytest
import yaml
from deployed_pipeline import DEPLOY, PATH, TOOLS, Pipeline, moved, run_airflow, scheduler


def test_a_second_run_continues_also_after_a_failure(pipeline: Pipeline) -> None:
    pipeline.write_secrets()
    command = ["singer-arrow", "run", str(pipeline.folder / "pipeline.yml")]
    pipeline.check(command)
    pipeline.put("b", "06C,Schaumburg\n")
    assert "1 object" in pipeline.check(command).stderr
    assert pipeline.rows() == ["04G", "06A", "06C"]
    states = pipeline.states()
    settings = (pipeline.folder / "pipeline.yml").read_text()
    (pipeline.folder / "pipeline.yml").write_text(settings.replace("path:", "pfad:"))
    pipeline.check(command, code=1)
    assert pipeline.states() == states
    assert [*states] == ["state.json"]
    (pipeline.folder / "pipeline.yml").write_text(settings)
    assert "0 objects" in pipeline.check(command).stderr


def test_docker_compose(pipeline: Pipeline) -> None:
    service = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())["services"]["load"]
    pipeline.write_secrets()
    env = {name: pipeline.secrets[name] for name in service["environment"] if name in pipeline.secrets}
    (volume,) = service["volumes"]
    places = {volume.removeprefix("./:").removesuffix(":ro"): pipeline.folder}
    pipeline.folder.chmod(0o555)
    try:
        pipeline.check([moved(part, places) for part in service["command"]], env)
    finally:
        pipeline.folder.chmod(0o755)
    assert pipeline.rows() == ["04G", "06A"]


def test_docker_run(pipeline: Pipeline) -> None:
    text = (DEPLOY / "docker-run.sh").read_text()
    docker, run, *words = shlex.split(text.replace("\\\n", " "), comments=True)
    assert [docker, run] == ["docker", "run"]
    parser = argparse.ArgumentParser()
    parser.add_argument("--rm", action="store_true")
    parser.add_argument("--volume")
    parser.add_argument("--env", action="append")
    given, (image, *command) = parser.parse_known_args(words)
    assert image == "singer-arrow"
    pipeline.write_secrets()
    env = {name: pipeline.secrets[name] for name in given.env if name in pipeline.secrets}
    places = {given.volume.removeprefix("$PWD:").removesuffix(":ro"): pipeline.folder}
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
    job = yaml.safe_load((DEPLOY / "kubernetes.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = sorted(path.name for path in pipeline.folder.iterdir())
    folders = {"configMap": pipeline.folder, "emptyDir": scratch}
    places = {mount["mountPath"]: folders[next(iter(volumes[mount["name"]]))] for mount in container["volumeMounts"]}
    assert container["envFrom"] == [{"secretRef": {"name": "pipeline"}}]
    env = pipeline.secrets | {item["name"]: moved(item["value"], places) for item in container["env"]}
    pipeline.folder.chmod(0o555)  # config maps are read-only
    try:
        pipeline.check([moved(part, places) for part in container["command"]], env)
    finally:
        pipeline.folder.chmod(0o755)
    assert pipeline.rows() == ["04G", "06A"]
    assert [*pipeline.states()] == ["state.json"]
    assert sorted(path.name for path in pipeline.folder.iterdir()) == before


def test_github_actions(pipeline: Pipeline) -> None:
    """The steps with commands run, but for the installation; what other actions do is in the secrets."""
    (job,) = yaml.safe_load((DEPLOY / "github-actions.yml").read_text())["jobs"].values()
    values = {"${{ vars.GCP_PROJECT }}": "local"}
    env = {name: values.get(value, value) for name, value in job["env"].items()} | pipeline.secrets
    install, *commands = [step["run"] for step in job["steps"] if "run" in step]
    assert install == "pip install wheels/*.whl"
    for command in commands:
        pipeline.check(["bash", "-e", "-c", command], env, pipeline.folder)
    assert pipeline.rows() == ["04G", "06A"]
    assert [*pipeline.states()] == ["state.json"]


@pytest.mark.soak
def test_airflow(pipeline: Pipeline, tmp_path: Path) -> None:
    run_airflow(pipeline, "airflow_dag.py", "s3_to_warehouse", tmp_path)
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
