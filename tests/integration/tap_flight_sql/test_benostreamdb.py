"""BenoStreamDB, a Flight SQL server of other makers on DataFusion, where it is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from adbc_driver_flightsql import dbapi
from flight_tap import Tap
from forked_programs import ForkedPrograms
from waiting import wait_until

from local_cloud.environment import without_proxy

PROGRAM = shutil.which("benostreamdb-flight", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
ROWS = 3_000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int32()),
        "name": [f"name {n}" for n in range(ROWS)],
        "price": pc.cast(pa.array([n / 4 for n in range(ROWS)]), pa.float64()),
    }
)
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="benostreamdb-flight of PyPI is not installed"),
    pytest.mark.filterwarnings("ignore:Cannot disable autocommit"),
]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server with a table `rows`."""
    folder = tmp_path_factory.mktemp("benostreamdb")
    assert PROGRAM
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, metrics = one.getsockname()[1], other.getsockname()[1]
    places = {"BSDB_WAREHOUSE": str(folder), "BSDB_FLIGHT_PORT": str(port), "BSDB_METRICS_PORT": str(metrics)} | {
        "HOME": str(folder)
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([PROGRAM], stdout=log, stderr=log, cwd=folder, env=os.environ | places)
    try:
        wait_until(lambda: "Listening on" in (folder / "log").read_text(), 60)
        uri = f"grpc://127.0.0.1:{port}"
        with dbapi.connect(uri) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE rows (id INT, name VARCHAR, price DOUBLE)")
            for first in range(0, ROWS, 1000):
                values = ", ".join(f"({n}, 'name {n}', {n / 4})" for n in range(first, first + 1000))
                cursor.execute(f"INSERT INTO rows VALUES {values}")
        yield uri
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def tap(tmp_path: Path) -> Tap:
    return Tap(ForkedPrograms(without_proxy({}), tmp_path), tmp_path / "batches")


def test_a_whole_table(tap: Tap, uri: str) -> None:
    ran = tap({"name": "rows", "table": "rows"}, uri=uri, tls=False).check()
    found = tap.table(ran).sort_by("id")
    assert found.column_names == TABLE.column_names
    for name in TABLE.column_names:
        assert found[name].cast(TABLE[name].type).combine_chunks().equals(TABLE[name].combine_chunks())


@pytest.mark.parametrize("key", ["id", "price"])
def test_windows(tap: Tap, uri: str, key: str) -> None:
    stream = {"name": "rows", "query": "SELECT * FROM rows WHERE id < 2000", "replication_key": key}
    first = tap(stream, uri=uri, tls=False).check()
    assert tap.ids(first) == list(range(2000))
    state = first.of_type("STATE")[-1]["value"]
    second = tap({**stream, "query": "SELECT * FROM rows"}, uri=uri, state=state, tls=False).check()
    assert tap.ids(second) == list(range(2000, ROWS))
