"""Run public taps on sources with the same rows, and record their messages as captures."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interoperation import captures, environments, sources
from interoperation.captures import Facts
from interoperation.sources import NESTED
from interoperation.taps import ARROW, JSONL, PARQUET, RECORD, TAPS, Places, Tap
from interoperation.things import THINGS
from local_cloud import Cloud
from local_cloud.s3 import setup

SECONDS = 120
ENCODINGS: Mapping[str, dict[str, str]] = {
    JSONL: {"format": "jsonl", "compression": "gzip"},
    PARQUET: {"format": "parquet", "compression": "gzip"},
    ARROW: {"format": "arrow"},
}
_ENDINGS = {RECORD: "record", JSONL: "batch-jsonl", PARQUET: "batch-parquet", ARROW: "batch-arrow"}
_SCHEMA = {
    "id": {"type": ["integer", "null"]},
    "day": {"type": ["string", "null"], "format": "date"},
    "at": {"type": ["string", "null"], "format": "date-time"},
    "good": {"type": ["boolean", "null"]},
    "big": {"type": ["integer", "null"]},
    "amount": {"type": ["number", "null"]},
    "score": {"type": ["number", "null"]},
    "name": {"type": ["string", "null"]},
    "note": {"type": ["string", "null"]},
    "tags": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
    "place": {"type": "object", "properties": {"lat": {"type": "number"}, "floor": {"type": "integer"}}},
}


class TapError(Exception):
    """Raised when a tap fails; the message is its last line."""


@contextmanager
def places(folder: Path, cloud: Cloud) -> Iterator[Places]:
    """Create all sources below a folder, for the duration of the `with` block."""
    files = folder / "files"
    bucket = f"things-{uuid.uuid4().hex[:8]}"
    path = sources.write_csv(files / "csv" / "things.csv")
    s3 = setup.client("s3", cloud.s3_url)
    s3.create_bucket(Bucket=bucket)
    s3.upload_file(str(path), bucket, "csv/things.csv")
    sources.write_csv(files / "plain" / "things.csv", [row for row in THINGS if "," not in row["name"]])
    sources.write_jsonl(files / "things.jsonl")
    sources.write_json_files(files / "json")
    sources.write_excel(files / "things.xlsx")
    sources.write_geojson(files / "things.geojson")
    sources.write_feed(files / "feed.xml")
    sources.write_dbf(files / "things.dbf")
    _write_singer(files / "singer" / "things.singer.jsonl")
    env = {name: value for name, value in cloud.env.items() if name.startswith("AWS_")}
    with sources.postgres(folder / "postgres") as socket, sources.http(files) as address:
        yield Places(files, bucket, socket, address, env)


def _write_singer(path: Path) -> None:
    path.parent.mkdir()
    schema = {"type": "object", "properties": _SCHEMA}
    head = {"type": "SCHEMA", "stream": "things", "schema": schema, "key_properties": ["id"]}
    lines = [head, *({"type": "RECORD", "stream": "things", "record": row} for row in NESTED)]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"type": "STATE", "value": {"done": True}}]))


def capture(name: str, kind: str, where: Places, folder: Path) -> str:
    """Run a tap once, write its messages as a capture, and return the tap's version.

    Args:
        name: A name of `TAPS`.
        kind: One of the tap's kinds of messages.
        where: The sources.
        folder: An empty folder for files of this run.

    Raises:
        TapError: The tap failed, or wrote no messages of this kind.
        BenchmarkError: The tap cannot be installed.
    """
    tap = TAPS[name]
    package, environment = tap.peer.package, tap.environment(kind)
    installed = environments.install({environment: tap.peer}, environment)
    batches = folder / "batches"
    batches.mkdir(parents=True)
    config = tap.config(where)
    if kind != RECORD:
        config["batch_config"] = {"encoding": ENCODINGS[kind], "storage": {"root": batches.as_uri()}}
    messages = _run(installed.bin / tap.program, tap, config, where, folder)
    message_type = "RECORD" if kind == RECORD else "BATCH"
    if not any(json.loads(line)["type"] == message_type for line in messages.splitlines()):
        raise TapError(f"no {message_type} among its messages")
    expected = tap.expected()
    facts = Facts(
        tap=package,
        version=environments.versions(environment)[package],
        library=environments.library(environment),
        python=tap.peer.python,
        kind=kind,
        rows=len(expected),
        table=tap.table,
        key=tap.key,
        note=tap.note,
    )
    captures.write(captures.FOLDER / f"{name}-{_ENDINGS[kind]}", facts, messages, batches, expected)
    return facts.version


def _run(program: Path, tap: Tap, config: dict[str, Any], where: Places, folder: Path) -> bytes:
    (folder / "config.json").write_text(json.dumps(config))
    script = [str(tap.script)] if tap.script else []
    line = [str(program), *script, "--config", str(folder / "config.json")]
    if tap.catalog:
        (folder / "catalog.json").write_bytes(_select_all(_call([*line, "--discover"], where, folder)))
        line += [tap.catalog, str(folder / "catalog.json")]
    return _call(line, where, folder)


def _select_all(found: bytes) -> bytes:
    catalog = json.loads(found)
    for stream in catalog["streams"]:
        for metadata in stream["metadata"]:
            if not metadata["breadcrumb"]:
                metadata["metadata"] |= {"selected": True, "replication-method": "FULL_TABLE"}
    return json.dumps(catalog).encode()


def _call(line: list[str], where: Places, folder: Path) -> bytes:
    env = os.environ | where.env
    ran = subprocess.run(line, cwd=folder, env=env, capture_output=True, timeout=SECONDS, check=False)
    if ran.returncode:
        words = ran.stderr.decode(errors="replace").strip().splitlines()
        raise TapError(f"exit code {ran.returncode}: {words[-1] if words else ''}")
    return ran.stdout
