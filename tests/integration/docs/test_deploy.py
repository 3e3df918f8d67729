"""The files of docs/deploy load rows: each scheduler's file is parsed, and what it names is run as plain processes.

Airflow and Dagster are installed and execute their file. Docker, Kubernetes, GitHub and cron are not: their commands
run with the environment, the folders and nothing else that the file gives them.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shlex
from pathlib import Path

import pytest
import yaml
from deployed_pipeline import DEPLOY, PATH, TOOLS, Pipeline, moved, run_airflow, scheduler


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
