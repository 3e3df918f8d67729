"""Files and functions that a typical run enters."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from house.source import ROOT
from local_cloud import Cloud

Settings = dict[str, Any]
TABLE = pa.table({"id": pa.array(range(1000)), "name": [f"name {number}" for number in range(1000)]})


class Walk(NamedTuple):
    """What a run, or one phase of it, enters.

    Attributes:
        functions: functions that were called.
        files: files of which a function was called.
        changes: changes of file in the list of functions, which is in the order of their first calls.
        depth: the most frames of ours on the stack at a first call.
    """

    functions: int
    files: int
    changes: int
    depth: int


Entered = list[tuple[str, str, str, int]]
"""File, function, thread and depth of each first call."""
TASK, LOADS = ("task",), ("prepare", "load")
"""Threads of the two phases: of the tap, from an object to its BATCH; of the target, from a BATCH to its rows."""
TASK_BEGINS = "convert_task"
"""The function in which a thread of the tap begins to convert; before it, the same threads infer types."""


def walks() -> dict[str, Walk]:
    """Run commands that convert an object of each format and load a BATCH, and return what each enters.

    A whole run, by the first calls in any thread; of it the phase that does the work, by the threads that do it.
    """
    with tempfile.TemporaryDirectory() as name, Cloud(["bigquery"]) as cloud:
        folder = Path(name)
        pyarrow.parquet.write_table(TABLE, folder / "rows.parquet")
        pyarrow.csv.write_csv(TABLE, folder / "rows.csv")
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TABLE.to_pylist()))
        (folder / "batches").mkdir()
        env = cloud.environ(PYTHONPATH=str(ROOT / "tools"))
        target: Settings = {
            key: cloud.env[f"TARGET_BIGQUERY_{key.upper()}"] for key in ("project", "dataset", "api_endpoint")
        }
        target["batch_config"] = _batches(folder)
        found = {}
        for kind in ("jsonl", "csv", "parquet"):
            entered, batch = _entered("tap_s3_files.__main__", _tap(folder, kind), env)
            begin = next(n for n, call in enumerate(entered) if call[1] == TASK_BEGINS)
            found[f"{kind} object -> BATCH, thread of the task"] = _walk(entered, TASK, begin)
        found["parquet, the whole run"] = _walk(entered)
        entered, _ = _entered("target_bigquery.__main__", target, env, batch)
        found["BATCH -> BigQuery, prepare and load"] = _walk(entered, LOADS)
        found["BATCH -> BigQuery, the whole run"] = _walk(entered)
    return found


def _walk(entered: Entered, threads: tuple[str, ...] = ("",), begin: int = 0) -> Walk:
    """Return what was first entered, in the whole run, by these threads and behind a place in the list."""
    seen: set[tuple[str, str]] = set()
    ours: dict[tuple[str, str], int] = {}
    for number, (file, function, thread, depth) in enumerate(entered):
        if (file, function) not in seen and thread.startswith(threads) and number >= begin:
            ours[file, function] = depth
        seen.add((file, function))
    files = [file for file, _ in ours]
    changes = sum(file != after for file, after in pairwise(files))
    return Walk(len(ours), len(set(files)), changes, max(ours.values(), default=0))


def _tap(folder: Path, kind: str) -> Settings:
    stream = {"name": f"rows_{kind}", "path": str(folder / f"*.{kind}")}
    return {"streams": [stream], "batch_config": _batches(folder)}


def _batches(folder: Path) -> Settings:
    return {"encoding": {"format": "parquet"}, "storage": {"root": (folder / "batches").as_uri()}}


def _entered(module: str, settings: Settings, env: Mapping[str, str], messages: str = "") -> tuple[Entered, str]:
    """Run a connector with messages as its input and return what it entered, and its output."""
    with tempfile.TemporaryDirectory() as name:
        config, result = Path(name) / "config.json", Path(name) / "functions.json"
        config.write_text(json.dumps(settings))
        command = [sys.executable, "-m", "house.trace", str(result), module, "--config", str(config)]
        ran = subprocess.run(command, env=dict(env), input=messages, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"{module} failed: {ran.stderr}")
        return json.loads(result.read_text()), ran.stdout
