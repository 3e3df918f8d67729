"""Pipelines of `singer-arrow run` in which a process is killed or sleeps, then a second run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forked_programs import ForkedPrograms
from google.api_core.exceptions import NotFound
from running import family_of, running
from warehouses import WAREHOUSES, Warehouse

from fault_suite.site import CLEAR, LONGEST_S, Outcome
from fault_suite.source import Comparison
from local_cloud import Cloud
from local_cloud.programs import Programs
from local_cloud.s3 import setup

APPEND, UPSERT, OVERWRITE = METHODS = ("append-only", "upsert", "overwrite")
SERVICES = ("bigquery", "redshift")
RUNNER, TAP, TARGET = VICTIMS = ("singer-arrow", "tap-s3-files", "target")
CLAIMED, BATCH, STATE, PUT, WRITTEN = ("claimed", "first batch", "first STATE", "PUT of STATE", "PUT of STATE, written")
DELETE, DELETED, MARK = AFTER_LOAD = ("DELETE", "DELETE, done", "PUT of the mark of after_load")
"""Moments of runs that delete what is loaded."""
HANGS = {
    PUT: r"^PUT .*/state\.json",
    WRITTEN: r"^PUT .*/state\.json",
    DELETE: r"^DELETE .*/in/",
    DELETED: r"^DELETE .*/in/",
    MARK: r"^PUT .*/after-load-",
}
OBJECTS, ROWS = 6, 10
Rows = Counter[tuple[int, str]]


@dataclass(frozen=True)
class RunCase:
    """A run in which something happens to a process, followed by another run.

    Attributes:
        service: bigquery or redshift.
        method: The load method; `overwrite` is with FULL_TABLE.
        who: The interrupted program.
        moment: When it is killed: the STATE is claimed, the first batch file is there, the first STATE is written, or a
            PUT of STATE is under way, which is executed or not; or the same of a DELETE of an object that is loaded, or
            of the mark before the first: an object is replaced then.
        sleeps: Whether the whole run sleeps until the second one has ended, instead of the kill.
    """

    service: str
    method: str
    who: str
    moment: str
    sleeps: bool = False

    @property
    def name(self) -> str:
        """The display name."""
        return f"{self.way}: {self.who} {'sleeps' if self.sleeps else 'killed'}, {self.moment}"

    @property
    def way(self) -> str:
        """The line of the totals that counts the case."""
        return f"run, {self.service}, {self.method}"

    @property
    def victim(self) -> str:
        """The interrupted program, for the totals."""
        return f"target-{self.service}" if self.who == TARGET else self.who


def cases() -> Iterator[RunCase]:
    """Return all kills and sleeps for each warehouse and load method."""
    for service in SERVICES:
        for method in METHODS:
            for moment in (CLAIMED, BATCH, STATE):
                for who in VICTIMS:
                    yield RunCase(service, method, who, moment)
            for moment in (PUT, WRITTEN):
                yield RunCase(service, method, RUNNER, moment)
            for moment in AFTER_LOAD if method != OVERWRITE else ():
                for who in (RUNNER, TAP) if moment != MARK else (TAP,):
                    yield RunCase(service, method, who, moment)
            for moment in (CLAIMED, BATCH):
                yield RunCase(service, method, RUNNER, moment, sleeps=True)


def few(service: str) -> list[RunCase]:
    """Return some cases: those of both warehouses have each load method and each victim twice."""
    first = [
        RunCase(service, APPEND, RUNNER, PUT),
        RunCase(service, UPSERT, TARGET, STATE),
        RunCase(service, OVERWRITE, TAP, BATCH),
    ]
    second = [
        RunCase(service, APPEND, TAP, DELETE),
        RunCase(service, UPSERT, RUNNER, DELETED),
        RunCase(service, OVERWRITE, RUNNER, BATCH, sleeps=True),
    ]
    return first if service == "bigquery" else second


class RunSite:
    """Runs cases in a local cloud. Not thread-safe."""

    def __init__(self, cloud: Cloud, folder: Path, clients: Mapping[str, Any]) -> None:
        self._cloud, self._folder, self._clients = cloud, folder, clients
        self._s3 = setup.client("s3", cloud.s3_url)
        self._proxy = cloud.fault_proxy(cloud.s3_url)
        self._bucket = f"runs-{uuid.uuid4().hex[:12]}"
        self._s3.create_bucket(Bucket=self._bucket)
        env = cloud.environ(TMPDIR=str(folder), AWS_ENDPOINT_URL=self._proxy.url)
        env.pop("TARGET_BIGQUERY_DATASET", None)
        self._run, self._forked = Programs(env, folder), ForkedPrograms(env, folder)

    def try_out(self, case: RunCase) -> Outcome:
        """Run a pipeline with the fault, then again; compare the table after each run."""
        self._place = uuid.uuid4().hex[:10]
        warehouse = WAREHOUSES[case.service](self._cloud, self._clients[case.service], f"run_{self._place}")
        path, wrong, old = self._write_pipeline(case, warehouse), list[str](), Rows()
        try:
            if case.method != APPEND:
                old = self._put_objects("old")
                self._again(path, wrong)
            new = self._put_objects("new")
            code, log, came = self._broken(case, path, wrong)
            found = _rows(warehouse)
            torn = case.method == OVERWRITE and found not in (old, new)
            if torn:
                wrong.append(f"the table was neither the old one nor the new one: {found}")
            if case.moment in AFTER_LOAD:
                newer = self._put_objects("newer", 1)
                new = newer + (new if case.method == APPEND else Rows({row: 1 for row in new if row[0] >= ROWS}))
            self._again(path, wrong)
            if case.moment in AFTER_LOAD and (left := self._keys("in/")):
                wrong.append(f"objects were left: {left}")
            there = _rows(warehouse)
            end = Comparison((new - there).total(), (there - new).total())
            wrong += [f"{fault} at the end" for fault in end.faults()]
        finally:
            self._proxy.clear()
            warehouse.drop()
        kind = f"run: {'asleep' if case.sleeps else 'killed'}, {case.moment}"
        return Outcome(case, code, {kind: 1} if came else {}, True, end, 0, tuple(wrong), log, int(torn))

    def _write_pipeline(self, case: RunCase, warehouse: Warehouse) -> Path:
        root = f"s3://{self._bucket}/{self._place}"
        stream: dict[str, Any] = {
            "name": "rows",
            "path": f"{root}/in/*.csv",
            "key_properties": ["id"],
            "schema": {"id": "integer"},
        }
        if case.method == OVERWRITE:
            stream["replication_method"] = "FULL_TABLE"
        if case.moment in AFTER_LOAD:
            stream["after_load"] = {"delete": True}
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"{root}/stage"}, "target_file_mb": 0.00001}
        target = warehouse.config | {"load_method": case.method, "max_batch_age_seconds": 0.2}
        path = self._folder / f"{self._place}.json"
        described = {
            "tap": {"name": "tap-s3-files", "config": {"streams": [stream], "batch_config": batches}},
            "target": {"name": f"target-{case.service}", "config": target},
            "state": f"{root}/state.json",
        }
        path.write_text(json.dumps(described))
        return path

    def _put_objects(self, content: str, count: int = OBJECTS) -> Rows:
        """Write the first objects, or all, with a content, and return their rows."""
        rows = [(number, content) for number in range(count * ROWS)]
        for first in range(0, len(rows), ROWS):
            text = "".join(f"{number},{name}\n" for number, name in rows[first : first + ROWS])
            self._s3.put_object(Bucket=self._bucket, Key=f"{self._place}/in/{first}.csv", Body=f"id,v\n{text}".encode())
        return Rows(rows)

    def _start(self, path: Path) -> subprocess.Popen[bytes]:
        command = self._run.command("singer-arrow", "run", path)
        with (self._folder / "log").open("wb") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._run.env)

    def _again(self, path: Path, wrong: list[str]) -> None:
        """Run the pipeline, which must succeed."""
        ran = self._forked("singer-arrow", "run", path)
        if ran.code != 0:
            wrong.append(f"a run without faults ended with {ran.code}: {ran.stderr[-2000:]}")

    def _broken(self, case: RunCase, path: Path, wrong: list[str]) -> tuple[int | None, str, bool]:
        """Run the pipeline with the fault; return its exit code, its log, and whether the fault came in time."""
        if case.moment in HANGS:
            done = case.moment in (WRITTEN, DELETED)
            skip = 0 if case.moment == MARK else 1
            self._proxy.set({"match": HANGS[case.moment], "action": "hang", "skip": skip, "forward": done})
        before, known = self._keys("stage/"), self._state().get("bookmarks")
        with self._start(path) as process:
            moments: Mapping[str, Callable[[], object]] = {
                CLAIMED: lambda: "run" in self._state(),
                BATCH: lambda: self._keys("stage/") - before,
                STATE: lambda: self._state().get("bookmarks") != known,
            }
            hung: Callable[[], object] = lambda: self._proxy.report()["rules"][0]["fired"]  # noqa: E731
            _wait(lambda: process.poll() is not None or moments.get(case.moment, hung)())
            program = f"/{case.victim} "
            _wait(lambda: process.poll() is not None or _member(process.pid, program))
            family, victim = family_of(process.pid), _member(process.pid, program)
            if victim is not None:
                for pid in family if case.sleeps else (victim,):
                    _send(pid, signal.SIGSTOP if case.sleeps else signal.SIGKILL)
                if case.sleeps:
                    self._again(path, wrong)
                    for pid in family:
                        _send(pid, signal.SIGCONT)
            if not _wait(lambda: process.poll() is not None and not family & set(running())):
                wrong.append(f"processes did not end: {family & set(running())}")
        self._proxy.clear()
        log = (self._folder / "log").read_text(errors="replace")
        lines = [line for line in log.splitlines() if line.startswith("singer-arrow:")]
        if "Traceback" in log:
            wrong.append("a traceback was shown")
        if process.returncode == CLEAR and len(lines) != 1:
            wrong.append(f"failed with {len(lines)} lines instead of one")
        return process.returncode, log, victim is not None

    def _keys(self, below: str) -> set[str]:
        found = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=f"{self._place}/{below}").get("Contents", [])
        return {o["Key"] for o in found if o["Key"].endswith((".parquet", ".csv"))}

    def _state(self) -> dict[str, Any]:
        try:
            data = self._s3.get_object(Bucket=self._bucket, Key=f"{self._place}/state.json")["Body"].read()
        except self._s3.exceptions.NoSuchKey:
            return {}
        state: dict[str, Any] = json.loads(data)
        return state


def _rows(warehouse: Warehouse) -> Rows:
    """Return the rows of the table; none if it is not there."""
    try:
        if "rows" not in warehouse.tables():
            return Rows()
    except NotFound:  # the dataset is not there
        return Rows()
    return Rows((row["id"], row["v"]) for row in warehouse.table("rows"))


def _member(pid: int, program: str) -> int | None:
    """Return the process of a program among a process and its descendants."""
    known = running()
    return next((member for member in family_of(pid) if program in known.get(member, (0, ""))[1][:400]), None)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _wait(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False
