"""Serve BigQuery's REST and Storage APIs, and Google Cloud Storage, on free ports of 127.0.0.1."""

import contextlib
import importlib.util
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import uvicorn

from local_cloud.bigquery.server import costs, jobs, loads, locations, writes
from local_cloud.bigquery.server.tables import (
    alterations,
    capitals,
    databases,
    layouts,
    lookups,
    records,
    schemas,
    turns,
)
from local_cloud.environment import STAGE_BUCKET
from local_cloud.gcs import server as gcs_server
from local_cloud.gcs.objects import Objects
from local_cloud.lifeline import Ready, end_with_parent, remove_tree


class _Server(uvicorn.Server):  # type: ignore[misc] # uvicorn is not installed where types are checked
    """A uvicorn server that reports when it is ready and leaves signals to the lifeline."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()


def _link_extensions(home: Path) -> None:
    """Link DuckDB's extensions, which are packages of the environment, under `home`, so that none is downloaded."""
    row = duckdb.connect().execute("PRAGMA platform").fetchone()
    assert row is not None
    version = f"v{duckdb.__version__}"
    directory = home / ".duckdb" / "extensions" / version / row[0]
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("icu", "httpfs", "spatial"):
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).parent / "extensions" / version / f"{name}.duckdb_extension"
        link = directory / source.name
        if not link.exists():
            link.symlink_to(source)


def main() -> None:
    """Serve until the parent ends. Arguments: a run directory, removed at the end, and a data directory."""
    ready = Ready()
    run_dir, data_dir = Path(sys.argv[1]), Path(sys.argv[2])
    end_with_parent(lambda: remove_tree(run_dir))
    _link_extensions(Path.home())

    from local_bigquery.app import app
    from local_bigquery.engine import database
    from local_bigquery.settings import settings

    settings.data_dir = data_dir
    settings.gcs_local_root = data_dir / "gcs"
    objects = Objects(settings.gcs_local_root)
    objects.create_bucket(STAGE_BUCKET)
    kept = run_dir.resolve() not in data_dir.resolve().parents
    databases.patch(kept=kept)
    records.patch(kept=kept)
    for part in (capitals, lookups, loads, schemas, layouts, alterations, turns, locations, jobs, costs, writes):
        part.patch()
    database.connection()
    grpc_port = writes.start("127.0.0.1")
    listening = socket.create_server(("127.0.0.1", 0))
    facts = {"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "grpc": f"127.0.0.1:{grpc_port}"}
    facts |= {"gcs": gcs_server.start(objects).url, "gcs_folder": str(objects.folder)}
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    _Server(config, lambda: ready.report(facts)).run(sockets=[listening])
