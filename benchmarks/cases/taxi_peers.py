"""The peers of the taxi cases: what runs, with which settings, for files of which kinds."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import programs
from benchmarks.case import Contender
from benchmarks.cases.taxi_files import Files, records, written
from benchmarks.generators import taxi
from benchmarks.harness import BenchmarkError, Command
from benchmarks.peers import Installed
from benchmarks.workbench import Workbench, program

AIRBYTE, PIPELINEWISE, TAP_FILE = "airbyte-source-s3, few", "pipelinewise-tap-s3-csv, few", "tap-universal-file, few"
STOCK, DLT = "stock SDK tap, few", "dlt, dicts, few"
KINDS: Mapping[str, Sequence[str]] = {
    "airbyte-source-s3": ("parquet", "csv", "csv.gz", "jsonl.gz"),
    "pipelinewise-tap-s3-csv": ("csv",),
    "tap-universal-file": ("csv", "csv.gz", "jsonl.gz"),
    "dlt": ("parquet", "csv", "csv.gz", "jsonl.gz"),
}
"""What each of them reads."""


def all_of(bench: Workbench, source: Files) -> list[Contender]:
    """Those that go through Python for each row; each runs once."""
    makers = {
        "airbyte-source-s3": _airbyte,
        "pipelinewise-tap-s3-csv": _pipelinewise,
        "tap-universal-file": _tap_file,
    }
    found = [
        make(bench, source, peer)
        for name, make in makers.items()
        if source.kind in KINDS[name] and (peer := bench.peer(name))
    ]
    return [*found, *dlt(bench, source, "dicts", DLT, rounds=1), _stock(bench, source)]


def airbyte(bench: Workbench, source: Files) -> list[Contender]:
    """Airbyte alone; none if it cannot be installed."""
    peer = bench.peer("airbyte-source-s3")
    return [_airbyte(bench, source, peer)] if peer else []


def missing(bench: Workbench, kind: str) -> list[str]:
    """Peers that read files of a kind, but cannot be installed."""
    return [name for name, kinds in KINDS.items() if kind in kinds and not bench.peer(name)]


def dlt(bench: Workbench, source: Files, mode: str, name: str, rounds: int | None = None) -> list[Contender]:
    """dlt from S3 to Parquet on S3; none if it cannot be installed."""
    s3, peer = bench.s3(), bench.peer("dlt")
    if not peer:
        return []
    script = Path(programs.__file__).with_name("copy_dlt.py")

    def commands(folder: Path) -> list[Command]:
        where = [s3.url(folder.name), s3.url(source.prefix), str(folder / "dlt")]
        return [Command([peer.bin / "python", script, mode, source.kind, *where], bench.env | s3.env)]

    reader = {
        "parquet": "`read_parquet(chunksize=10_000)`",
        "csv": "`read_csv(chunksize=10_000)`",
        "jsonl": "`read_jsonl(chunksize=10_000)`",
    }[source.kind.partition(".")[0]]
    if mode == "arrow":
        whole = "`read_parquet(chunksize=100_000, use_pyarrow=True)`"
        by_duckdb = "`read_csv_duckdb(chunk_size=100_000, use_pyarrow=True)`"
        reader = whole if source.kind == "parquet" else by_duckdb
    pipeline = "destination `filesystem`, `loader_file_format='parquet'`, `data_writer.buffer_max_items = 100000`"
    settings = f"{peer.title}: {reader}, {pipeline}"
    return [Contender(name, settings, commands, written(s3, source.rows), rounds)]


def _airbyte(bench: Workbench, source: Files, peer: Installed) -> Contender:
    s3 = bench.s3()
    kind = source.kind.partition(".")[0]
    stream = {"name": "trips", "globs": [f"{source.prefix}/*"], "format": {"filetype": kind}}
    config = {
        "bucket": s3.bucket,
        "endpoint": s3.endpoint,
        "region_name": s3.env["AWS_REGION"],
        **_keys(s3.env),
        "streams": [stream | {"validation_policy": "Emit Record", "schemaless": False}],
    }
    executable = peer.bin / "source-s3"
    env = bench.env | s3.env
    messages = [json.loads(line) for line in _ask([executable, "discover"], config, bench.data, env)]
    catalog = next(each["catalog"] for each in messages if each["type"] == "CATALOG")
    streams = [
        {"stream": each, "sync_mode": "full_refresh", "destination_sync_mode": "append"} for each in catalog["streams"]
    ]

    def commands(folder: Path) -> list[Command]:
        given: list[str | Path] = ["--config", _written(folder / "config.json", config)]
        given += ["--catalog", _written(folder / "catalog.json", {"streams": streams})]
        return [Command([executable, "read", *given], env)]

    settings = (
        f"{peer.title}: `source-s3 read`, full refresh, `Emit Record`, catalog discovered before, all else by default"
    )
    return Contender(AIRBYTE, settings, commands, records(source.rows), rounds=1)


def _pipelinewise(bench: Workbench, source: Files, peer: Installed) -> Contender:
    s3 = bench.s3()
    config = {
        "start_date": "2000-01-01T00:00:00Z",
        "bucket": s3.bucket,
        "aws_endpoint_url": s3.endpoint,
        **_keys(s3.env),
        "tables": [{"table_name": "trips", "search_prefix": source.prefix, "search_pattern": ".csv", "delimiter": ","}],
    }
    executable = peer.bin / "tap-s3-csv"
    env = bench.env | s3.env
    catalog = json.loads("\n".join(_ask([executable, "--discover"], config, bench.data, env)))
    for stream in catalog["streams"]:
        next(each for each in stream["metadata"] if not each["breadcrumb"])["metadata"]["selected"] = True

    def commands(folder: Path) -> list[Command]:
        given: list[str | Path] = ["--config", _written(folder / "config.json", config)]
        given += ["--properties", _written(folder / "catalog.json", catalog)]
        return [Command([executable, *given], env)]

    settings = f"{peer.title}: `tap-s3-csv`, catalog discovered before, all else by default"
    return Contender(PIPELINEWISE, settings, commands, records(source.rows), rounds=1)


def _tap_file(bench: Workbench, source: Files, peer: Installed) -> Contender:
    s3 = bench.s3()
    kind = "jsonl" if source.kind.startswith("jsonl") else "delimited"
    config = {
        "stream_name": "trips",
        "protocol": "s3",
        "filepath": f"{s3.bucket}/{source.prefix}",
        "file_type": kind,
        "delimited_delimiter": ",",
        "additional_info": False,
    }

    def commands(folder: Path) -> list[Command]:
        path = _written(folder / "config.json", config)
        return [Command([peer.bin / "tap-universal-file", "--config", path], bench.env | s3.env)]

    settings = f"{peer.title}: `additional_info: false`, all else by default"
    return Contender(TAP_FILE, settings, commands, records(source.rows), rounds=1)


def _stock(bench: Workbench, source: Files) -> Contender:
    from singer_arrow.schema.json_schema import to_json_schema

    s3 = bench.s3()
    schema = to_json_schema(taxi.trips(1, seed=0).schema)
    if source.kind.startswith("csv"):
        schema["properties"] = {name: {"type": ["string", "null"]} for name in schema["properties"]}
    config = {"bucket": s3.bucket, "prefix": source.prefix, "kind": source.kind, "schema": schema}

    def commands(folder: Path) -> list[Command]:
        path = _written(folder / "config.json", config)
        return [Command([*program("stock_tap"), "--config", path], bench.env | s3.env)]

    settings = (
        "a tap on the Singer SDK as its template makes it (`programs/stock_tap.py`), RECORD messages, all defaults"
    )
    return Contender(STOCK, settings, commands, records(source.rows), rounds=1)


def _keys(env: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): env[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}


def _ask(argv: Sequence[str | Path], config: Any, data: Path, env: Mapping[str, str]) -> list[str]:
    """The lines that a peer's discovery prints, which is not measured."""
    with tempfile.TemporaryDirectory(dir=data) as folder:
        command = [str(part) for part in (*argv, "--config", _written(Path(folder) / "config.json", config))]
        ran = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if ran.returncode:
        last = "\n    ".join(ran.stderr.strip().splitlines()[-8:])
        raise BenchmarkError(f"exit code {ran.returncode}: {' '.join(command)}\n    {last}")
    return ran.stdout.splitlines()


def _written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path
