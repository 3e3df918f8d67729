"""The example of docs/add-a-target.md loads BATCH and RECORD messages, each batch exactly once, also after kill -9."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from singer_sdk.testing import get_target_test_class

from target_sqlite import TargetSqlite

PROGRAM = Path(__file__).parents[3] / "examples/target_sqlite/target_sqlite.py"
PROPERTIES = {
    "id": {"type": "integer"},
    "name": {"type": ["string", "null"]},
    "price": {"type": ["number", "null"], "multipleOf": 0.01},
    "at": {"type": ["string", "null"], "format": "date-time"},
    "tags": {"type": ["array", "null"], "items": {"type": "string"}},
}
ROW = {"id": 1, "name": "a", "price": 1.50, "at": "2024-05-01T10:00:00Z", "tags": ["x", "y"]}
LOADED = (1, "a", "1.50", "2024-05-01T10:00:00.000000Z", '["x","y"]')
SIMPLE = {"id": {"type": "integer"}}


class Database:
    """A database, and the target that loads into it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "rows.db"

    def start(self, **settings: Any) -> subprocess.Popen[str]:
        config = {"path": str(self.path), "manifest_roots": [str(self.folder)], **settings}
        (self.folder / "config.json").write_text(json.dumps(config))
        command = [sys.executable, PROGRAM, "--config", self.folder / "config.json"]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def load(self, *messages: dict[str, Any], **settings: Any) -> str:
        """Run the target and return its output."""
        process = self.start(**settings)
        out, log = process.communicate("".join(json.dumps(message) + "\n" for message in messages))
        assert process.returncode == 0, log
        return out

    def query(self, text: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path, timeout=60)) as database:
            return database.execute(text).fetchall()

    def batch(self, number: int, ids: range) -> dict[str, Any]:
        """Write a batch file, and return its message."""
        path = self.folder / f"{number}.parquet"
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
        encoding = {"format": "parquet", "compression": "zstd"}
        more = {"batch_id": f"batch-{number}", "row_count": len(ids)}
        return {"type": "BATCH", "stream": "rows", "encoding": encoding, "manifest": [path.as_uri()], **more}


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


def schema(properties: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {"type": "SCHEMA", "stream": "rows", "schema": {"properties": properties}, "key_properties": list(keys)}


def record(**values: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": "rows", "record": values}


def state(value: int) -> dict[str, Any]:
    return {"type": "STATE", "value": {"bookmarks": {"rows": value}}}


def test_records_are_loaded(database: Database) -> None:
    out = database.load(schema(PROPERTIES), record(**ROW), record(id=2), state(1))
    assert database.query("SELECT * FROM rows") == [LOADED, (2, None, None, None, None)]
    assert json.loads(out) == state(1)["value"]


def test_a_new_property_becomes_a_column(database: Database) -> None:
    database.load(schema(SIMPLE), record(id=1))
    database.load(schema(PROPERTIES), record(**ROW))
    assert database.query("SELECT id, name FROM rows") == [(1, None), (1, "a")]


def test_upsert_replaces_rows_with_the_same_key(database: Database) -> None:
    rows = [record(id=1, name="old"), record(id=2, name="b"), record(id=1, name="new")]
    database.load(schema(PROPERTIES, "id"), *rows, load_method="upsert")
    database.load(schema(PROPERTIES, "id"), record(id=2, name="newer"), load_method="upsert")
    assert database.query("SELECT id, name FROM rows ORDER BY id") == [(1, "new"), (2, "newer")]


def test_upsert_keeps_rows_of_a_greater_rank(database: Database) -> None:
    for rank in ("a 2", "a 1", "b 1", "a 3"):
        ranked = {**database.batch(1, range(2)), "ranks": [[[1, rank], [1, "a 5"]]]}
        database.load(schema(SIMPLE, "id"), ranked, load_method="upsert")
        kept = "a 2" if rank == "a 1" else rank
        assert database.query("SELECT _sdc_rank FROM rows ORDER BY id") == [(kept,), ("a 5",)]
    ranks = [f"a 5  {reading} 00000.{place:012d}" for reading, place in (("b" * 8, 7), ("b" * 8, 1), ("a" * 8, 1))]
    for rank, kept in zip(ranks, (ranks[0], ranks[0], ranks[2]), strict=True):  # another reading has no order
        database.load(
            schema(SIMPLE, "id"), {**database.batch(1, range(1)), "ranks": [[[1, rank]]]}, load_method="upsert"
        )
        assert database.query("SELECT _sdc_rank FROM rows WHERE id = 0") == [(kept,)]


def test_a_batch_is_loaded_once_and_again_into_an_emptied_table(database: Database) -> None:
    messages = [schema(SIMPLE), database.batch(1, range(10)), state(1)]
    for _ in range(2):
        assert json.loads(database.load(*messages)) == state(1)["value"]
        assert database.query("SELECT COUNT(*) FROM rows") == [(10,)]
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.execute("DELETE FROM rows")
    database.load(*messages)
    assert database.query("SELECT COUNT(*) FROM rows") == [(10,)]


def test_each_batch_is_loaded_once_after_kill_9(database: Database) -> None:
    batches = [database.batch(n, range(n * 10, n * 10 + 10)) for n in range(100)]
    messages = [schema(SIMPLE), *(m for n, batch in enumerate(batches) for m in (batch, state(n)))]
    process = database.start(max_batch_mb=0.000001)
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
    process.stdin.flush()
    until = time.monotonic() + 60
    while not (database.path.exists() and database.path.stat().st_size and loaded(database)):
        assert time.monotonic() < until
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert 0 < loaded(database) < 1000
    out = database.load(*messages)
    assert database.query("SELECT COUNT(*), COUNT(DISTINCT id) FROM rows") == [(1000, 1000)]
    assert json.loads(out.splitlines()[-1]) == state(99)["value"]


def loaded(database: Database) -> int:
    if not database.query("SELECT 1 FROM sqlite_master WHERE name = 'rows'"):
        return 0
    return int(database.query("SELECT COUNT(*) FROM rows")[0][0])


def test_an_error_of_sqlite_is_one_line(database: Database) -> None:
    process = database.start(path=str(database.folder / "missing" / "rows.db"))
    _, log = process.communicate(json.dumps(schema(SIMPLE)) + "\n")
    assert process.returncode == 1
    assert "unable to open database file" in log
    assert "Traceback" not in log


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the folder in which the SDK's tests create the database."""
    monkeypatch.setenv("TARGET_SQLITE_PATH", str(tmp_path / "standard.db"))


TestAppend = get_target_test_class(TargetSqlite, config={})


class TestUpsert(  # type: ignore[misc]
    get_target_test_class(TargetSqlite, config={"load_method": "upsert", "add_record_metadata": True})
):
    """The standard tests but those of streams without keys, which an upsert refuses."""

    test_target_no_primary_keys = test_target_pk_updates = test_target_schema_no_properties = None
