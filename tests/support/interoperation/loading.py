"""Load captures into both warehouses and rows of tap-s3-files into public targets; return the results."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warehouses import Warehouse

from interoperation import environments
from interoperation.captures import Capture
from interoperation.capturing import ENCODINGS
from interoperation.taps import RECORD, Places
from interoperation.targets import TARGETS, Place
from interoperation.values import differences
from local_cloud import Cloud
from local_cloud.programs import Programs, Ran
from local_cloud.s3 import setup

SAME = "all values"
REFUSED = "refused: "
SECONDS = 120


def into_warehouse(capture: Capture, warehouse: Warehouse, cloud: Cloud, folder: Path) -> str:
    """Return how a capture arrived: `SAME`, the first difference, or the error message.

    Args:
        capture: The output of a tap.
        warehouse: Has a schema of its own for this run.
        cloud: The local cloud.
        folder: An empty folder for batch files.
    """
    config = {"batch_config": {"encoding": {"format": "jsonl"}, "storage": {"root": str(folder)}}}
    own = {f"TARGET_{name}": warehouse.schema for name in ("BIGQUERY_DATASET", "REDSHIFT_DEFAULT_TARGET_SCHEMA")}
    run = Programs(cloud.environ(**own), folder)
    ran = run(warehouse.program, stdin=capture.messages(folder), config=["ENV", config], timeout=SECONDS)
    if ran.code:
        return f"{REFUSED}{_last_words(ran).replace(f'{folder.as_uri()}/', '')}"
    found = warehouse.run(f"SELECT * FROM {warehouse.quoted(capture.facts.table)}")
    return differences(capture.expected(), found, capture.facts.key) or SAME


def _last_words(ran: Ran) -> str:
    assert "Traceback" not in ran.stderr, ran.stderr
    line = next(line for line in reversed(ran.stderr.splitlines()) if "| ERROR" in line)
    return line.split("|", 3)[3].strip()


def from_ours(name: str, kind: str, where: Places, cloud: Cloud, folder: Path) -> str:
    """Return how rows of tap-s3-files arrive in a public target: `SAME`, or what is wrong.

    Args:
        name: A name of `TARGETS`.
        kind: The kind of messages.
        where: The sources.
        cloud: The local cloud.
        folder: An empty folder.

    Raises:
        BenchmarkError: The target cannot be installed.
    """
    target = TARGETS[name]
    installed = environments.install({name: target.peer}, name)
    sent = Programs(cloud.environ(), folder)("tap-s3-files", config=_ours(kind, where, folder)).check().stdout
    out = folder / "out"
    out.mkdir()
    unique = uuid.uuid4().hex[:8]
    setup.client("s3", cloud.s3_url).create_bucket(Bucket=f"loaded-{unique}")
    place = Place(out, f"s_{unique}", where.postgres, cloud.s3_url, f"loaded-{unique}", installed.bin)
    (folder / "target.json").write_text(json.dumps(target.config(place)))
    script = [target.script] if target.script else []
    ran = subprocess.run(
        [installed.bin / target.program, *script, "--config", folder / "target.json"],
        input=sent.encode(),
        cwd=out,
        env=cloud.environ(),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    if ran.returncode:
        words = ran.stderr.decode(errors="replace").strip().splitlines()
        return f"ended with exit code {ran.returncode}: {words[-1] if words else ''}"
    return differences(target.expected(), target.found(place), "id") or SAME


def _ours(kind: str, where: Places, folder: Path) -> Mapping[str, Any]:
    stream = {"name": "things", "path": str(where.folder / "csv" / "things.csv"), "key_properties": ["id"]}
    config = {"streams": [stream | {"schema": {"amount": "decimal(12,2)"}}], "metadata_columns": False}
    if kind == RECORD:
        return config
    batches = {"encoding": ENCODINGS[kind], "storage": {"root": (folder / "batches").as_uri()}}
    return config | {"batch_config": batches}
