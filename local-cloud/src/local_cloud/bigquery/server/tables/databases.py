"""Tables in DuckDB's own files: DuckLake writes a Parquet file for each change and reads its catalog again after it."""

import functools
from pathlib import Path
from typing import Any

import duckdb
from local_bigquery.catalog.tables import RESULTS
from local_bigquery.engine import database
from local_bigquery.engine.database import quote
from local_bigquery.errors import BigQueryError
from local_bigquery.settings import settings
from local_bigquery.sql import native
from local_bigquery.sql.dialect import FUNCTIONS, MACRO

TAKEN = frozenset({"emulator", "bq", "system", "temp", "memory"})  # databases, not available as projects


def _source(path: Path, name: str, *, kept: bool) -> str:
    """Return the statement that attaches a file. One that is not kept has no log, which would wait for the disk."""
    place = str(path).replace("'", "''")
    return f"ATTACH IF NOT EXISTS '{place}' AS {quote(name)}" + ("" if kept else " (RECOVERY_MODE no_wal_writes)")


def patch(*, kept: bool) -> None:
    """Replace how the server, which needs none of DuckLake's features, opens its databases, `kept` or temporary."""

    def attach(connection: Any, project_id: str) -> None:
        if project_id.casefold() in TAKEN:
            message = f"The local BigQuery has no project {project_id}, which is a database of its own"
            raise BigQueryError("invalid", message)
        connection.execute(_source(_folder() / f"{project_id}.duckdb", project_id, kept=kept))
        database._attached.add(project_id)

    def connect() -> Any:
        _folder().mkdir(parents=True, exist_ok=True)
        # a table may have the name of a Python module, which is no relation
        connection = duckdb.connect(config={"TimeZone": "UTC", "python_enable_replacements": "false"})
        connection.execute(_source(settings.data_dir / "emulator.duckdb", "emulator", kept=kept))
        # No client asks for the results of an earlier server's queries, and nothing else drops them.
        connection.execute(f"DROP SCHEMA IF EXISTS {quote('emulator', RESULTS)} CASCADE")
        connection.execute(database.EMULATOR_SCHEMA)
        connection.execute("ATTACH ':memory:' AS bq")
        native.register(connection)
        for path in FUNCTIONS:
            connection.execute(MACRO.sub(r"CREATE MACRO bq.main.\1", path.read_text()))
        for project_id in {path.stem for path in _folder().glob("*.duckdb")} | {settings.default_project_id}:
            attach(connection, project_id)
        default = quote(settings.default_project_id, settings.default_dataset_id)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {default}")
        return connection

    database._attach = attach
    database._connect = functools.cache(connect)
    database.projects = lambda: sorted(database._attached)


def _folder() -> Path:
    folder: Path = settings.data_dir / "projects"
    return folder
