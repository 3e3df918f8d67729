"""Records of jobs, tables and datasets in SQLite, which looks one up by key a hundred times as fast as DuckDB."""

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any

from local_bigquery.catalog import iam, metadata, row_access
from local_bigquery.engine import database
from local_bigquery.engine.database import RESOURCES
from local_bigquery.jobs import store
from local_bigquery.settings import settings
from local_bigquery.sql.rules import information_schema

TABLES = {
    "iam_policies": ("resource TEXT PRIMARY KEY", "policy TEXT NOT NULL"),
    "jobs": (
        *("project_id TEXT", "job_id TEXT", "parent_job_id TEXT", "state TEXT NOT NULL"),
        *("creation_time INTEGER NOT NULL", "resource TEXT NOT NULL", "PRIMARY KEY (project_id, job_id)"),
    ),
} | {
    name: (*(f"{key} TEXT" for key in keys), "resource TEXT NOT NULL", f"PRIMARY KEY ({', '.join(keys)})")
    for name, keys in RESOURCES.items()
}
"""The server's own tables, so that its statements are valid for them unchanged."""

FUNCTIONS: dict[str, Callable[[Any, Any], bool]] = {
    "starts_with": str.startswith,
    "list_contains": lambda listed, value: value in json.loads(listed),
}
"""DuckDB's functions that the statements call."""


class Records:
    """The server's records, safe to use from any thread; with `kept` they outlive the server."""

    def __init__(self, *, kept: bool) -> None:
        path = ":memory:"
        if kept:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
            path = str(settings.data_dir / "records.sqlite")
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute("ATTACH ? AS emulator", [path])
        self._connection.execute(
            "PRAGMA emulator.synchronous = OFF"
        )  # safe if the process ends, not if the machine does
        for name, function in FUNCTIONS.items():
            self._connection.create_function(name, 2, function, deterministic=True)
        for name, columns in TABLES.items():
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS emulator.{name} ({', '.join(columns)})")
        self._connection.execute("CREATE INDEX IF NOT EXISTS emulator.times ON jobs (project_id, creation_time)")

    def fetch(self, sql: str, params: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        values = [json.dumps(value) if isinstance(value, list) else value for value in params or ()]
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def show_jobs(self) -> None:
        """Copy the jobs to where queries of INFORMATION_SCHEMA look for them."""
        rows = self.fetch("SELECT * FROM emulator.jobs")
        with database.cursor() as cursor:
            cursor.execute("BEGIN; DELETE FROM emulator.jobs")
            if rows:
                columns = ", ".join("unnest(?)" for _ in rows[0])
                cursor.execute(f"INSERT INTO emulator.jobs SELECT {columns}", [*map(list, zip(*rows, strict=True))])
            cursor.execute("COMMIT")


def patch(*, kept: bool) -> None:
    """Replace where the server keeps its records; with `kept` they outlive the server."""
    records = Records(kept=kept)
    for module in (metadata, iam, row_access, store):
        module.fetch = module.execute = records.fetch

    information_schema.JOBS = _Jobs(information_schema.JOBS, records)


class _Jobs:
    """The query of jobs, which is formatted just before it runs."""

    def __init__(self, text: str, records: Records) -> None:
        self._text, self._records = text, records

    def format(self, **names: str) -> str:
        self._records.show_jobs()
        return self._text.format(**names)
