"""The state that all sessions share: PostgreSQL, its catalog, and the cluster's settings."""

import threading
from collections.abc import Sequence
from importlib import resources
from typing import Any, LiteralString

import psycopg

from local_cloud.errors import LocalCloudError
from local_cloud.redshift.faults import Faults, Statements
from local_cloud.redshift.postgres import Postgres
from local_cloud.redshift.sql.names import LongNames

USER, DATABASE = "demo", "dev"


class Cluster:
    """A cluster of Redshift on a PostgreSQL; `slices` to show and to load with, `password` of the first user."""

    def __init__(self, postgres: Postgres, *, password: str, slices: int) -> None:
        self.postgres = postgres
        self.slices = slices
        self.faults = Faults()
        self.statements = Statements()
        self._lock = threading.Lock()
        if postgres.is_new:
            with psycopg.connect(postgres.conninfo + " dbname=template1", autocommit=True) as connection:
                connection.execute(f"ALTER DATABASE postgres RENAME TO {DATABASE}")
        self._admin = psycopg.connect(postgres.conninfo, autocommit=True)
        self._prepare(password)
        self.names = LongNames(self.rows("SELECT short, long FROM local_cloud.long_names"), self._keep_name)

    def rows(self, sql: LiteralString, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a statement, executed by the superuser outside of any session's transaction."""
        with self._lock:
            cursor = self._admin.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def many(self, sql: LiteralString, values: Sequence[Sequence[object]]) -> None:
        """Execute a statement once for each row of values."""
        with self._lock, self._admin.cursor() as cursor:
            cursor.executemany(sql, values)

    def password_of(self, user: str) -> str | None:
        """Return the md5 of a user's password and name, or None without such a user or without a password."""
        found = self.rows("SELECT rolpassword FROM pg_authid WHERE rolname = %s AND rolcanlogin", (user,))
        return found[0][0] if found else None

    def terminate(self, pid: int) -> None:
        """Ask a session of PostgreSQL to end. Does nothing if it has ended."""
        self.rows("SELECT pg_terminate_backend(%s)", (pid,))

    def _prepare(self, password: str) -> None:
        catalog = resources.files(__package__).joinpath("catalog.sql").read_text()
        if not self.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'local_cloud'"):
            self._admin.execute("SET allow_system_table_mods = on")
            self._admin.execute(catalog)
            self._admin.execute("RESET allow_system_table_mods")
            self._admin.execute(f"CREATE ROLE {USER} SUPERUSER LOGIN")
            self.rows("INSERT INTO local_cloud.about (catalog) VALUES (md5(%s))", (catalog,))
        elif not self.rows("SELECT 1 FROM local_cloud.about WHERE catalog = md5(%s)", (catalog,)):
            raise LocalCloudError(
                "the data of the local Redshift are of another version: remove redshift/ from --data-dir"
            )
        quoted = password.replace("'", "''")
        self._admin.execute(f"ALTER ROLE {USER} PASSWORD '{quoted}'")
        self.rows("DELETE FROM local_cloud.slices")
        self.rows("INSERT INTO local_cloud.slices SELECT generate_series(0, %s - 1)", (self.slices,))

    def _keep_name(self, short: str, long: str) -> None:
        self.rows("INSERT INTO local_cloud.long_names VALUES (%s, %s) ON CONFLICT DO NOTHING", (short, long))
