"""The files of docs/deploy for shards load rows: what each names is run as plain processes, all shards at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployed_pipeline import DEPLOY, PATH, Pipeline, moved, run_airflow

SHARDS = 4
OBJECTS = 10
AWS = """#!/usr/bin/env python3
import json, os, sys
with open(os.environ["SUBMITTED"], "a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
print(f"job-{os.urandom(4).hex()}")
"""
"""A client of AWS that writes down what it is asked for."""


@pytest.fixture
def pipeline(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline with a catalog, and objects that are a task each."""
    for number in range(OBJECTS):
        pipeline.put(f"more-{number}", f"X{number},Airport\n")
    settings = yaml.safe_load((pipeline.folder / "tap.yml").read_text())
    settings["batch_config"]["target_file_mb"] = 0.00001
    (pipeline.folder / "tap.yml").write_text(yaml.safe_dump(settings))
    discover = ["tap-s3-files", "--config", "tap.yml", "--config=ENV", "--discover"]
    found = pipeline.check(discover, pipeline.secrets, pipeline.folder).stdout
    (pipeline.folder / "catalog.json").write_text(found)
    return pipeline


def check_rows(pipeline: Pipeline) -> None:
    """Compare the table with the objects."""
    assert pipeline.rows() == ["04G", "06A", *(f"X{number}" for number in range(OBJECTS))]


def check_states(pipeline: Pipeline) -> None:
    """Check that each shard has a STATE of its own."""
    states = pipeline.states()
    assert [*states] == [f"state/{n}/{SHARDS}.json" for n in range(SHARDS)]
    shards = [state["bookmarks"]["airports"]["shard"] for state in states.values()]
    assert shards == [f"{n}/{SHARDS}" for n in range(SHARDS)]


def at_once(run: Callable[[int], Any]) -> None:
    """Run all shards."""
    with ThreadPoolExecutor(SHARDS) as pool:
        logs = [ran.stderr for ran in pool.map(run, range(SHARDS))]
    assert all("Loaded airports: " in log for log in logs)  # each has tasks


def test_shards_at_once_then_what_is_new(pipeline: Pipeline) -> None:
    pipeline.write_secrets()
    script = ["singer-arrow", "run", str(pipeline.folder / "pipeline-shards.yml")]
    plan = ["tap-s3-files", "--config", "tap.yml", "--config=ENV", "--catalog", "catalog.json", "--write-plan"]

    def load(shard: int) -> Any:
        return pipeline.check(script, {"TAP_S3_FILES_SHARD": f"{shard}/{SHARDS}"})

    pipeline.check(plan, cwd=pipeline.folder)
    at_once(load)
    check_rows(pipeline)
    check_states(pipeline)
    pipeline.put("new", "NEW,Airport\n")
    pipeline.check(plan, cwd=pipeline.folder)
    logs = [load(shard).stderr for shard in range(SHARDS)]
    assert sum("1 object" in log for log in logs) == 1
    assert len(pipeline.rows()) == OBJECTS + 3


def test_kubernetes(pipeline: Pipeline, tmp_path: Path) -> None:
    parts = list(yaml.safe_load_all((DEPLOY / "kubernetes-shards.yaml").read_text()))
    plan, load = parts
    assert [part["metadata"]["labels"]["step"] for part in parts] == ["plan", "load"]
    assert (load["spec"]["completionMode"], load["spec"]["completions"]) == ("Indexed", SHARDS)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folders = {"configMap": pipeline.folder, "emptyDir": scratch}

    def run(job: dict[str, Any], **env: str) -> Any:
        pod = job["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        volumes = {v["name"]: next(folders[kind] for kind in folders if kind in v) for v in pod["volumes"]}
        places = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
        given = {item["name"]: moved(item["value"], places) for item in container["env"]}
        return pipeline.check([moved(p, places) for p in container["command"]], pipeline.secrets | given | env)

    pipeline.folder.chmod(0o555)  # config maps are read-only
    try:
        run(plan)
        at_once(lambda shard: run(load, JOB_COMPLETION_INDEX=str(shard)))
    finally:
        pipeline.folder.chmod(0o755)
    check_rows(pipeline)
    check_states(pipeline)


def test_aws_batch(pipeline: Pipeline, tmp_path: Path) -> None:
    programs, submitted = tmp_path / "programs", tmp_path / "submitted"
    programs.mkdir()
    (programs / "aws").write_text(AWS)
    (programs / "aws").chmod(0o755)
    env = {"PATH": f"{programs}:{PATH}", "SUBMITTED": str(submitted)}
    pipeline.check(["bash", str(DEPLOY / "aws-batch-shards.sh")], env)
    plan, load = ([*map(str, json.loads(line))] for line in submitted.read_text().splitlines())

    def run(words: Sequence[str], **more: str) -> Any:
        overrides = json.loads(words[words.index("--container-overrides") + 1])
        command = [moved(part, {"/pipeline": pipeline.folder}) for part in overrides["command"]]
        return pipeline.check(command, pipeline.secrets | more)

    assert f"size={SHARDS}" in load
    assert load[load.index("--depends-on") + 1].startswith("jobId=job-")
    run(plan)
    at_once(lambda shard: run(load, AWS_BATCH_JOB_ARRAY_INDEX=str(shard)))
    check_rows(pipeline)


def test_github_actions(pipeline: Pipeline) -> None:
    jobs = yaml.safe_load((DEPLOY / "github-shards.yml").read_text())["jobs"]
    commands = {
        name: [step["run"] for step in job["steps"] if "run" in step and not step["run"].startswith("pip ")]
        for name, job in jobs.items()
    }
    for command in commands["plan"]:
        pipeline.check(["bash", "-e", "-c", command], pipeline.secrets, pipeline.folder)
    given, numbers = jobs["load"]["env"], jobs["load"]["strategy"]["matrix"]["shard"]
    assert (jobs["load"]["needs"], numbers) == ("plan", [*range(SHARDS)])

    def run(shard: int) -> Any:
        values = {"${{ strategy.job-index }}": str(shard), "${{ strategy.job-total }}": str(len(numbers))}
        env = {"TAP_S3_FILES_SHARD": given["TAP_S3_FILES_SHARD"]}
        for name, value in values.items():
            env["TAP_S3_FILES_SHARD"] = env["TAP_S3_FILES_SHARD"].replace(name, value)
        (command,) = commands["load"]
        return pipeline.check(["bash", "-e", "-c", command], pipeline.secrets | env, pipeline.folder)

    at_once(run)
    check_rows(pipeline)


@pytest.mark.soak
def test_airflow(pipeline: Pipeline, tmp_path: Path) -> None:
    run_airflow(pipeline, "airflow_shards_dag.py", "s3_to_warehouse_in_shards", tmp_path)
    check_rows(pipeline)
    check_states(pipeline)
