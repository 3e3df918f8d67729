"""ROAPI, a Flight SQL server of other makers: DataFusion behind one endpoint and a password."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from flight_tap import Tap
from forked_programs import ForkedPrograms
from waiting import wait_until

from local_cloud.environment import without_proxy

ROAPI = Path(sys.executable).with_name("roapi")
ROWS = 30_000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "Name": [f"name {n}" for n in range(ROWS)],
        "at": pc.cast(pa.array([1_700_000_000_000_000 + n for n in range(ROWS)]), pa.timestamp("us")),
        "price": pc.cast(pa.array([n / 4 for n in range(ROWS)]), pa.decimal128(12, 2)),
        "day": pc.cast(pa.array([n % 20_000 for n in range(ROWS)], pa.int32()), pa.date32()),
    }
)
SETTINGS: dict[str, Any] = {"tls": False, "username": "reader", "password": "a-secret-word"}

pytestmark = pytest.mark.skipif(not ROAPI.exists(), reason="its wheel for this platform is not installed")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server with a table `rows`."""
    folder = tmp_path_factory.mktemp("roapi")
    pq.write_table(TABLE, folder / "rows.parquet")
    http, flight, postgres = free_port(), free_port(), free_port()
    (folder / "roapi.yml").write_text(
        f"""
addr: {{http: "127.0.0.1:{http}", flight_sql: "127.0.0.1:{flight}", postgres: "127.0.0.1:{postgres}"}}
tables: [{{name: rows, uri: {folder}/rows.parquet}}]
flight_sql_config: {{auth_basic: {{username: reader, password: a-secret-word}}}}
"""
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([ROAPI, "-c", folder / "roapi.yml"], stdout=log, stderr=log)
    try:
        wait_until(lambda: "for FlightSQL traffic" in (folder / "log").read_text(), 60)
        yield f"grpc://127.0.0.1:{flight}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def roapi(tmp_path: Path, uri: str) -> Tap:
    return Tap(ForkedPrograms(without_proxy({}), tmp_path), tmp_path / "batches")


def test_a_whole_table(roapi: Tap, uri: str) -> None:
    ran = roapi({"name": "rows", "table": "rows"}, uri=uri, **SETTINGS).check()
    found = roapi.table(ran).sort_by("id")
    assert found.column_names == TABLE.column_names
    for name in TABLE.column_names:
        assert found[name].cast(TABLE[name].type).combine_chunks().equals(TABLE[name].combine_chunks())


@pytest.mark.parametrize("key", ["id", "Name", "at", "price", "day"])
def test_windows(roapi: Tap, uri: str, key: str) -> None:
    stream = {"name": "rows", "query": "SELECT * FROM rows WHERE id < 20000", "replication_key": key}
    first = roapi(stream, uri=uri, **SETTINGS).check()
    assert roapi.ids(first) == list(range(20_000))
    state = first.of_type("STATE")[-1]["value"]
    largest = pc.max(TABLE.filter(pc.field("id") < 20_000)[key])
    rest = TABLE.filter(pc.field(key) > largest)["id"].to_pylist()
    second = roapi({**stream, "query": "SELECT * FROM rows"}, uri=uri, state=state, **SETTINGS).check()
    assert roapi.ids(second) == rest


def test_errors_are_one_line(roapi: Tap, uri: str) -> None:
    for options, text in (
        ({**SETTINGS, "password": "another-word"}, "correct username and password"),
        (SETTINGS, "table 'roapi.public.nowhere' not found"),
    ):
        ran = roapi({"name": "rows", "table": "nowhere"}, uri=uri, **options)
        assert ran.code == 1
        assert text in ran.stderr.splitlines()[-1]
        assert not any(secret in ran.stderr for secret in ("another-word", "a-secret-word"))
        assert "Traceback" not in ran.stderr
