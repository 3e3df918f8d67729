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
    """What a run enters.

    Attributes:
        files: files of which a function was called.
        functions: functions that were called.
        changes: changes of file in the list of functions, which is in the order of their first calls.
    """

    files: int
    functions: int
    changes: int


def walks() -> dict[str, Walk]:
    """Run four commands, which convert two objects and load a BATCH and a RECORD, and return what each enters."""
    with tempfile.TemporaryDirectory() as name, Cloud(["bigquery"]) as cloud:
        folder = Path(name)
        pyarrow.parquet.write_table(TABLE, folder / "rows.parquet")
        pyarrow.csv.write_csv(TABLE, folder / "rows.csv")
        (folder / "batches").mkdir()
        env = cloud.environ(PYTHONPATH=str(ROOT / "tools"))
        target: Settings = {
            key: cloud.env[f"TARGET_BIGQUERY_{key.upper()}"] for key in ("project", "dataset", "api_endpoint")
        }
        target["batch_config"] = _batches(folder)
        found = {}
        for kind in ("parquet", "csv"):
            found[f"{kind} object -> BATCH"], batch = _walk("tap_s3_files.__main__", _tap(folder, kind), env)
        found["BATCH -> BigQuery"], _ = _walk("target_bigquery.__main__", target, env, batch)
        found["one RECORD -> BigQuery"], _ = _walk("target_bigquery.__main__", target, env, _one_record())
    return found


def _tap(folder: Path, kind: str) -> Settings:
    stream = {"name": f"rows_{kind}", "path": str(folder / f"*.{kind}")}
    return {"streams": [stream], "batch_config": _batches(folder)}


def _batches(folder: Path) -> Settings:
    return {"encoding": {"format": "parquet"}, "storage": {"root": (folder / "batches").as_uri()}}


def _one_record() -> str:
    properties = {"id": {"type": "integer"}, "name": {"type": ["string", "null"]}}
    schema = {"type": "SCHEMA", "stream": "one", "schema": {"properties": properties}, "key_properties": ["id"]}
    record = {"type": "RECORD", "stream": "one", "record": {"id": 1, "name": "a"}}
    state = {"type": "STATE", "value": {"bookmarks": {"one": 1}}}
    return "".join(json.dumps(message) + "\n" for message in (schema, record, state))


def _walk(module: str, settings: Settings, env: Mapping[str, str], messages: str = "") -> tuple[Walk, str]:
    """Run a connector with messages as its input and return what it entered, and its output."""
    with tempfile.TemporaryDirectory() as name:
        config, result = Path(name) / "config.json", Path(name) / "functions.json"
        config.write_text(json.dumps(settings))
        command = [sys.executable, "-m", "house.trace", str(result), module, "--config", str(config)]
        ran = subprocess.run(command, env=dict(env), input=messages, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"{module} failed: {ran.stderr}")
        entered = json.loads(result.read_text())
    files = [file for file, _ in entered]
    return Walk(len(set(files)), len(entered), sum(file != after for file, after in pairwise(files))), ran.stdout
