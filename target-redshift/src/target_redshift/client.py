"""Client of one Redshift schema and the catalog of its tables."""

from __future__ import annotations

import logging
from datetime import datetime

from singer_arrow.errors import SchemaError, SingerArrowError
from target_redshift import resources, sql
from target_redshift.connection import Connection
from target_redshift.resources import Table

logger = logging.getLogger("target-redshift")
_TABLE = "r"
UNKNOWN_SLICES = 4
"""Assumed number of slices if the cluster does not report it."""


class Redshift(Connection):
    """One database and schema; safe to use from any thread, and opened on first use."""

    def path(self, table: str) -> str:
        """Return `schema.table`, for messages."""
        return f"{self.settings.schema}.{table}"

    def quoted(self, table: str) -> str:
        return sql.quoted(self.settings.schema, table)

    def table(self, name: str) -> Table | None:
        """Return a table; None if it does not exist. A view of that name is an error."""
        key, what = [self.settings.schema, name], f"Reading table {self.path(name)}"
        # Columns before comments: a run adds a column and its comment in one transaction, so no comment is missed
        rows = self.query(sql.COLUMNS, key, what=what).rows
        found = self.query(sql.TABLE, key, what=what).rows
        if not found:
            return None
        created, kind, *_ = found[0]
        if kind != _TABLE:
            hint = "rename it, or give the stream another table by the setting tables"
            raise SchemaError(f"{self.path(name)} is a view, and rows go into tables; {hint}")
        rows = rows or self.query(sql.COLUMNS, key, what=what).rows  # the table was created in between
        comments = {column and str(column): str(text) for *_, column, text in found if text is not None}
        columns = resources.columns_from_catalog(rows, comments)
        return Table(name, columns, created, comments.get(None))

    def layout(self, table: str) -> tuple[str | None, list[str]]:
        """Return the dist key of a table, if it has one, and its sort keys, in order."""
        key, what = [self.settings.schema, table], f"Reading the layout of table {self.path(table)}"
        rows = self.query(sql.LAYOUT, key, what=what).rows
        dist = next((str(name) for name, is_dist, _ in rows if is_dist), None)
        places = {str(name): abs(int(place or 0)) for name, _, place in rows}
        return dist, sorted((name for name, place in places.items() if place), key=places.__getitem__)

    def tables_named(self, prefix: str) -> list[tuple[str, datetime | None]]:
        """Names of the tables that begin with the prefix, and when they were created."""
        what = f"Listing tables of schema {self.settings.schema}"
        rows = self.query(sql.TABLES, [self.settings.schema], what=what).rows
        return [(str(name), created) for name, created in rows if str(name).startswith(prefix)]

    def is_empty(self, table: str) -> bool:
        what = f"Looking for rows of table {self.path(table)}"
        return not self.query(sql.has_rows(self.quoted(table)), what=what).rows

    def now(self) -> datetime:
        """Return the server's time, in UTC, without a zone."""
        now: datetime = self.query(sql.NOW, what="Asking for the time").value
        return now

    def slices(self) -> int:
        """Return the number of slices of the cluster: COPY reads that many files at a time."""
        if self.settings.slices:
            return self.settings.slices
        try:
            return max(1, int(self.query(sql.SLICES, what="Asking for the number of slices").value or 0))
        except SingerArrowError as error:
            logger.info("%s; uploads are made for %d slices, set slices to the real number", error, UNKNOWN_SLICES)
            return UNKNOWN_SLICES

    def drop_table(self, name: str) -> None:
        self.query(sql.drop_table(self.quoted(name)), what=f"Dropping table {self.path(name)}")
