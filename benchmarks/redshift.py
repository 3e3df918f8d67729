"""What arrived in the local Redshift, and what passed on the way: asked of the services themselves."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.case import Facts
from benchmarks.connectors import dataset_of, expect, redshift_target
from benchmarks.harness import BenchmarkError, Measured, measure
from benchmarks.workbench import Workbench

COLUMNS = (("copies", "COPYs"), ("files", "files"), ("rows_per_s", "rows / s"))
"""Columns for cases that load: see `loaded`."""
_COPIES = """
    SELECT COUNT(DISTINCT query), COUNT(*) FROM stl_load_commits
    WHERE EXTRACT(EPOCH FROM curtime) >= {} AND status = 1
"""


@dataclass(frozen=True)
class Staged:
    """A set of files in S3 that one COPY loads.

    Attributes:
        url: what COPY is given: the one file, or a manifest.
        bytes: what the files amount to, without the manifest.
        files: their number.
    """

    url: str
    bytes: int
    files: int


def connect(env: dict[str, str]) -> Any:
    """A psycopg connection of the local Redshift, with autocommit."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    names = ("host", "port", "user", "password", "dbname")
    given = {name: env[f"TARGET_REDSHIFT_{name.upper()}"] for name in names}
    return psycopg.connect(make_conninfo(**given), autocommit=True)


def slices(env: dict[str, str]) -> int:
    """The number of slices of the local Redshift."""
    with connect(env) as connection:
        (count,) = connection.execute("SELECT COUNT(*) FROM stv_slices").fetchone()
    return int(count)


def loaded(bench: Workbench, table: str, rows: int) -> Callable[[Path, Measured], Facts]:
    """Insists on the number of rows, counts COPYs and the files that they read; drops the schema."""

    def facts(folder: Path, measured: Measured) -> Facts:
        schema = dataset_of(folder)
        with connect(bench.env) as connection:
            (found,) = connection.execute(f'SELECT COUNT(*) FROM "{schema}"."{table}"').fetchone()
            copies, files = connection.execute(_COPIES.format(int(measured.started))).fetchone()
            connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
        return {"rows": expect(rows, found), "copies": copies, "files": files, "rows_per_s": rows / measured.wall}

    return facts


def staged(s3: Any, bucket: str, name: str, files: Sequence[tuple[str, bytes]]) -> Staged:
    """Put files (name and content) below `name`, and a manifest where there are several."""
    entries: list[dict[str, Any]] = []
    for each, content in files:
        key = f"{name}/{each}"
        s3.put_object(Bucket=bucket, Key=key, Body=content)
        entries.append({"url": f"s3://{bucket}/{key}", "mandatory": True, "meta": {"content_length": len(content)}})
    size = sum(len(content) for _, content in files)
    if len(files) == 1:
        return Staged(entries[0]["url"], size, 1)
    s3.put_object(Bucket=bucket, Key=f"{name}.manifest", Body=json.dumps({"entries": entries}).encode())
    return Staged(f"s3://{bucket}/{name}.manifest", size, len(files))


def staged_by_target(bench: Workbench, s3: Any, messages: Path, folder: Path) -> list[tuple[str, bytes]]:
    """The files (name and content) that target-redshift, with its defaults, stages for these messages.

    It removes them when they are loaded; so that they can be listed afterwards, its stage is a bucket with versions.

    Raises:
        BenchmarkError: It staged none.
    """
    bucket = f"stage-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    folder.mkdir()
    stage = {"s3_stage": f"s3://{bucket}/stage"}
    measure([redshift_target(bench, folder, stage, messages, TARGET_REDSHIFT_S3_STAGE=stage["s3_stage"])], folder)
    with connect(bench.env) as connection:
        connection.execute(f'DROP SCHEMA "{dataset_of(folder)}" CASCADE')
    found: list[tuple[str, bytes]] = []
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for version in page.get("Versions", ()):
            key = version["Key"]
            content = s3.get_object(Bucket=bucket, Key=key, VersionId=version["VersionId"])["Body"].read()
            if not _is_manifest(content):
                found.append((f"{len(found):03d}-{key.rpartition('/')[2]}", content))
    if not found:
        raise BenchmarkError("target-redshift staged no file")
    return found


def _is_manifest(content: bytes) -> bool:
    return content.lstrip().startswith(b'{"entries"')
