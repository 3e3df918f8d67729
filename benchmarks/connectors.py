"""Running our connectors in a case: configurations written to files, and what came out, counted."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from pyarrow import fs

from benchmarks.case import Facts
from benchmarks.harness import BenchmarkError, Command, Measured
from benchmarks.workbench import Workbench

LOCAL_BATCHES = {"encoding": {"format": "parquet"}, "storage": {"root": "/"}}
"""`batch_config` of a target that may load any local batch file."""


def tap(bench: Workbench, folder: Path, config: Mapping[str, Any]) -> Command:
    """tap-s3-files with a configuration, which is written to the folder; it discovers its schema by itself."""
    return Command([bench.executable("tap-s3-files"), "--config", _written(folder / "tap.json", config)], bench.env)


def target(bench: Workbench, folder: Path, config: Mapping[str, Any], stdin: Path | None = None) -> Command:
    """target-bigquery for the local BigQuery, with a dataset of its own."""
    path = _written(folder / "target.json", {"batch_config": LOCAL_BATCHES, **config})
    env = bench.env | {"TARGET_BIGQUERY_DATASET": dataset_of(folder)}
    return Command([bench.executable("target-bigquery"), "--config=ENV", "--config", path], env, stdin)


def redshift_target(bench: Workbench, folder: Path, config: Mapping[str, Any], stdin: Path, **env: str) -> Command:
    """target-redshift for the local Redshift, with a schema of its own; `env` is laid over the environment."""
    path = _written(
        folder / "target.json", {"default_target_schema": dataset_of(folder), "batch_config": LOCAL_BATCHES, **config}
    )
    return Command([bench.executable("target-redshift"), "--config=ENV", "--config", path], bench.env | env, stdin)


def dataset_of(folder: Path) -> str:
    """The dataset or schema that belongs to a run."""
    return "bench_" + "".join(letter if letter.isalnum() else "_" for letter in folder.name)


def parquet_batches(filesystem: fs.FileSystem | None, rows: int) -> Callable[[Path, Measured], Facts]:
    """Counts the rows and bytes of the Parquet files that BATCH messages name, and insists on the number of rows.

    Args:
        filesystem: where s3:// URLs are read from.
    """

    def facts(_: Path, measured: Measured) -> Facts:
        found = size = files = 0
        for line in measured.stdout.read_text().splitlines():
            message = json.loads(line)
            for url in message["manifest"] if message["type"] == "BATCH" else ():
                place, path = _place(url, filesystem)
                found += pq.read_metadata(path, filesystem=place).num_rows
                size += place.get_file_info(path).size
                files += 1
        return {"rows": expect(rows, found), "bytes": size, "files": files}

    return facts


def expect(rows: int, found: int) -> int:
    """The number of rows, if it is the one that is due.

    Raises:
        BenchmarkError: it is another one.
    """
    if found != rows:
        raise BenchmarkError(f"{found:,} rows came out where {rows:,} went in")
    return found


def _place(url: str, filesystem: fs.FileSystem | None) -> tuple[fs.FileSystem, str]:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return fs.LocalFileSystem(), unquote(parts.path)
    if parts.scheme != "s3" or filesystem is None:
        raise BenchmarkError(f"a batch file is at {url}, where none was asked for")
    return filesystem, f"{parts.netloc}/{unquote(parts.path).lstrip('/')}"


def _written(path: Path, config: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(config))
    return path
