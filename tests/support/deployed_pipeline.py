"""The folder of docs/deploy as a test runs it, and the schedulers that are installed for it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.peers import Peer
from forked_programs import forked_executables

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs/deploy"
TOOLS = Path(sys.executable).parent
PATH = f"{TOOLS}:/usr/bin:/bin"
SCHEDULERS = {"apache-airflow": Peer("apache-airflow", "3.13"), "dagster": Peer("dagster", "3.13")}


@dataclass
class Pipeline:
    """A folder with the files of docs/deploy, whose objects and tables are those of one test.

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

    def states(self) -> dict[str, Any]:
        """Return all STATEs, by the key of their object behind `deploy/`."""
        prefix = f"{self.dataset}/deploy/"
        found = self.s3.list_objects_v2(Bucket="stage", Prefix=f"{prefix}state")["Contents"]
        read = (self.s3.get_object(Bucket="stage", Key=o["Key"])["Body"].read() for o in found)
        return {o["Key"].removeprefix(prefix): json.loads(text) for o, text in zip(found, read, strict=True)}

    def rows(self) -> list[str]:
        found = self.bq.query(f"SELECT faa FROM {self.dataset}.airports ORDER BY faa").result()
        return [row["faa"] for row in found]

    def write_secrets(self) -> None:
        """Write the secrets to .env."""
        (self.folder / ".env").write_text("".join(f"{k}={v}\n" for k, v in self.secrets.items()))

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
            env={"PATH": f"{forked_executables()}:{PATH}", "HOME": str(self.folder)} | dict(env or {}),
            cwd=cwd or self.folder.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == code, ran.stdout[-4000:] + ran.stderr[-4000:]
        return ran


def moved(text: str, places: Mapping[str, Path]) -> str:
    """Return a command line with the folders of a container or machine as those of this test."""
    for place, folder in places.items():
        text = re.sub(rf"{re.escape(place)}(?![\w.-])", str(folder), text)
    return text


def scheduler(name: str) -> Path:
    """Return the folder of the executables of a scheduler, which is installed on first use."""
    folder = ROOT / "benchmarks/data/schedulers"
    pins = ROOT / "tests/support/schedulers"
    return peers.install(name, folder, print, pins=pins, peers=SCHEDULERS).bin


def run_airflow(pipeline: Pipeline, file: str, dag: str, folder: Path) -> None:
    """Execute a DAG of docs/deploy by Airflow itself, which is installed on first use."""
    programs = scheduler("apache-airflow")
    pipeline.write_secrets()
    dags = folder / "airflow/dags"
    dags.mkdir(parents=True)
    (dags / "dag.py").write_text(moved((DEPLOY / file).read_text(), {"/opt/pipeline": pipeline.folder}))
    env = {"AIRFLOW_HOME": str(dags.parent), "AIRFLOW__CORE__LOAD_EXAMPLES": "false", "PATH": f"{PATH}:{programs}"}
    pipeline.check([str(programs / "airflow"), "db", "migrate"], env)
    pipeline.check([str(programs / "airflow"), "dags", "test", dag], env)
