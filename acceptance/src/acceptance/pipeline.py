"""Objects, runs of the executables, and rows of one scenario."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from acceptance.site import Site, Warehouse
from singer_arrow.storage.urls import Url

Row = tuple[Any, ...]
Config = Mapping[str, Any]
_LOGGED = re.compile(r"\b(ERROR|CRITICAL|Error|WARNING)\b")


class NotHeldError(Exception):
    """A run or a table is not as a scenario describes it."""


def check(condition: object, text: str) -> None:
    """Raise `NotHeldError` with a text unless a condition holds."""
    if not condition:
        raise NotHeldError(text)


def parquet(columns: Mapping[str, Any] | pa.Table, **options: Any) -> bytes:
    """Return a table, or columns of values, as the bytes of a Parquet file."""
    out = io.BytesIO()
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(dict(columns)), out, **options)
    return out.getvalue()


def csv(rows: Iterable[Row], header: str = "id,name") -> bytes:
    """Return rows as the bytes of a CSV file."""
    return "".join(f"{line}\n" for line in (header, *(",".join(map(str, row)) for row in rows))).encode()


def numbered(first: int, end: int, name: str = "row") -> list[Row]:
    """Return rows of an id and a name."""
    return [(i, f"{name} {i}") for i in range(first, end)]


class Running:
    """A tap and the target behind it; `wait` returns their log."""

    def __init__(self, pipeline: Pipeline, tap: Config, target: Config, *, state: bool) -> None:
        self._pipeline, site = pipeline, pipeline.site
        folder = pipeline.folder / str(len(list(pipeline.folder.iterdir())))
        folder.mkdir()
        self.folder = folder
        (folder / "tap.json").write_text(json.dumps(tap, default=str))
        (folder / "target.json").write_text(json.dumps(target, default=str))
        known = ["--state", str(folder / "state.json")] if state and pipeline.state else []
        (folder / "state.json").write_text(json.dumps(pipeline.state))
        command = [_program("tap-s3-files"), "--config=ENV", "--config", str(folder / "tap.json"), *known]
        with (folder / "tap.log").open("wb") as log:
            self.tap = site.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        command = [_program(pipeline.warehouse.program), "--config=ENV", "--config", str(folder / "target.json")]
        with (folder / "target.log").open("wb") as log, (folder / "states").open("wb") as states:
            env = os.environ | pipeline.names
            self.target = site.start(command, stdin=self.tap.stdout, stdout=states, stderr=log, env=env)
        assert self.tap.stdout is not None
        self.tap.stdout.close()

    def states(self) -> list[str]:
        """Return the STATE messages that the target has written as a whole."""
        return [line for line in (self.folder / "states").read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def kill(self, side: str) -> None:
        """Kill one side, as `kill -9` does: the target once a STATE has left it, the tap once it has written a file."""
        child: subprocess.Popen[bytes] = getattr(self, side)

        def has_begun() -> bool:
            if side == "target":
                return bool(self.states())
            return any("/_plans/" not in key for key in self._pipeline.objects("batches"))

        self._pipeline.site.wait([child], has_begun)
        if child.poll() is not None:
            raise NotHeldError(f"The {side} had ended before it could be killed; run the scenario again")
        os.killpg(child.pid, signal.SIGKILL)

    def wait(self) -> str:
        """Wait for both, keep the last STATE, and return both logs."""
        self._pipeline.site.wait([self.tap, self.target])
        if states := self.states():
            self._pipeline.state = json.loads(states[-1])
        return "".join((self.folder / name).read_text(errors="replace") for name in ("tap.log", "target.log"))


class Pipeline:
    """What a scenario has: a folder of the bucket, a table named like the scenario, and the STATE between runs."""

    def __init__(self, site: Site, name: str, warehouse: Warehouse) -> None:
        self.site, self.warehouse = site, warehouse
        self.kind = warehouse.program.removeprefix("target-")
        self.stream = name.replace("-", "_")
        self.root = site.bucket._replace(key=f"{site.name}/{self.kind}/{self.stream}")
        self.folder = site.folder / self.kind / self.stream
        self.folder.mkdir(parents=True)
        self.state: dict[str, Any] | None = None
        self.words = ""
        self.notes: dict[str, Any] = {}
        self.counted = 0
        self.names = {
            "TARGET_BIGQUERY_DATASET": site.name,
            "TARGET_REDSHIFT_DEFAULT_TARGET_SCHEMA": site.name,
            "TARGET_REDSHIFT_S3_STAGE": f"{site.bucket}{site.name}/stage",
        }

    # Objects ----------------------------------------------------------------------------------------------------------

    def url(self, key: str) -> Url:
        return self.root._replace(key=f"{self.root.key}/{key}")

    def put(self, key: str, content: bytes | str | Mapping[str, Any] | Iterable[Row]) -> None:
        """Write an object below `in/`: bytes or text as they are, columns as Parquet, rows of id and name as CSV."""
        if isinstance(content, Mapping):
            content = parquet(content)
        if not isinstance(content, bytes | str):
            content = csv(content)
        self.site.storage.put(self.url(f"in/{key}"), content.encode() if isinstance(content, str) else content)

    def objects(self, folder: str) -> list[str]:
        """Return the keys below a folder of the scenario."""
        return [info.url.key for info in self.site.storage.list(self.url(f"{folder}/"))]

    # Runs -------------------------------------------------------------------------------------------------------------

    def tap(self, more: Config | None = None, **stream: Any) -> dict[str, Any]:
        """Return settings of the tap, with some of its only stream."""
        described = {"name": self.stream, "path": f"{self.url('in/**')}", "key_properties": ["id"]} | stream
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": str(self.url("batches"))}}
        return {"streams": [described], "batch_config": batches, "metadata_columns": False, **(more or {})}

    def start(
        self, tap: Config | None = None, target: Config | None = None, *, state: bool = True, **stream: Any
    ) -> Running:
        """Start a tap, with the last STATE, and its target; `tap` and `target` are further settings of each."""
        labels = {"labels": {"acceptance": self.stream}} if self.kind == "bigquery" else {}
        return Running(self, self.tap(tap, **stream), labels | dict(target or {}), state=state)

    def run(
        self,
        tap: Config | None = None,
        target: Config | None = None,
        *,
        state: bool = True,
        fails: str = "",
        **stream: Any,
    ) -> str:
        """Run both to their end, and return their log. They must succeed, or end with one line that has a text.

        Of a failure the lines of errors are kept for the report: the words of the service are in them.
        """
        running = self.start(tap, target, state=state, **stream)
        log = running.wait()
        failed = [n for n, c in (("tap", running.tap), ("target", running.target)) if c.returncode]
        errors = [line for line in log.splitlines() if _LOGGED.search(line)]
        if failed:
            self.words = "\n".join(errors[-3:] or log.splitlines()[-3:])
        if fails:
            check(failed, f"The run succeeded, and should have failed with {fails!r}")
            found = re.search(fails, log, re.IGNORECASE)
            check(found, f"The run failed, and {fails!r} is not in its log")
            check("Traceback" not in log, "The run failed with a traceback")
        else:
            check(not failed, f"The {' and the '.join(failed)} failed")
        return log

    def program(self, *command: str, fails: bool = False) -> str:
        """Run an executable alone, in the scenario's folder, and return all that it wrote."""
        with (self.folder / "log").open("wb") as log:
            line = [_program(command[0]), *command[1:]]
            env = os.environ | self.names
            child = self.site.start(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=env)
        self.site.wait([child])
        text = (self.folder / "log").read_text(errors="replace")
        if bool(child.returncode) != fails:
            self.words = "\n".join(text.splitlines()[-3:])
            raise NotHeldError(f"{command[0]} ended with exit code {child.returncode}")
        return text

    # Tables -----------------------------------------------------------------------------------------------------------

    def rows(self, columns: str = "id, name", table: str = "") -> list[Row]:
        """Return the rows of a table, sorted."""
        found = self.warehouse.query(f"SELECT {columns} FROM {self.warehouse.quoted(table or self.stream)}")
        self.counted += len(found)
        return sorted(found, key=repr)

    def expect(self, rows: Iterable[Row], columns: str = "id, name", table: str = "") -> None:
        """Check that a table has these rows and no others."""
        found, expected = self.rows(columns, table), sorted(rows, key=repr)
        if found != expected:
            lacking = [row for row in expected if row not in found][:3]
            beyond = [row for row in found if row not in expected][:3]
            text = f"{table or self.stream} has {len(found)} rows, and {len(expected)} were expected"
            raise NotHeldError(f"{text}; not found: {lacking}; not expected: {beyond}")

    def columns(self, table: str = "") -> dict[str, str]:
        """Return the columns of a table with the warehouse's names of their types."""
        return self.warehouse.columns(table or self.stream)

    def poll(self, function: Callable[[], Any], running: Running) -> list[Any]:
        """Return what a function returned again and again until a run was over."""
        answers = []
        while running.target.poll() is None or running.tap.poll() is None:
            answers.append(function())
        return answers


def _program(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or name
