"""Queries of the local Redshift by psycopg, which is not the driver of target-redshift."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from local_cloud.demo.checksum import HEX_DIGITS, Checksum, Column, Kind

_KINDS: dict[str, Kind] = {
    "smallint": "integer",
    "integer": "integer",
    "bigint": "integer",
    "real": "float",
    "double precision": "float",
    "boolean": "boolean",
    "date": "date",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamp",
    "character varying": "text",
    "numeric": "decimal",
    "super": "nested",
}
_TEXT: dict[Kind, str] = {
    "float": "CAST(CAST(FLOOR({0} * 1000000 + 0.5) AS BIGINT) AS VARCHAR)",
    "boolean": "CASE WHEN {0} THEN 'true' WHEN NOT {0} THEN 'false' END",
    "date": "TO_CHAR({0}, 'YYYY-MM-DD')",
    "timestamp": "CAST(CAST(EXTRACT(EPOCH FROM DATE_TRUNC('second', {0})) AS BIGINT) * 1000000"
    " + CAST(TO_CHAR({0}, 'US') AS BIGINT) AS VARCHAR)",
    "text": "{0}",
    "decimal": "CAST(CAST({0} * 1000000000 AS BIGINT) AS VARCHAR)",
    "nested": "REPLACE(JSON_SERIALIZE({0}), ' ', '')",
}
_COLUMNS = """
    SELECT column_name, data_type FROM svv_columns
    WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_COPIES = "SELECT COUNT(DISTINCT query) FROM stl_load_commits WHERE filename LIKE %s"


class Redshift:
    """The local Redshift as a `local_cloud.demo.warehouse.Warehouse`."""

    name = "Redshift"
    target = "target-redshift"
    loads = "COPYs"

    def __init__(self, *, schema: str, batches: str) -> None:
        import psycopg
        from psycopg.conninfo import make_conninfo

        self._schema = schema
        self._batches = batches
        names = ("host", "port", "user", "password", "dbname")
        given = {name: os.environ[f"TARGET_REDSHIFT_{name.upper()}"] for name in names}
        self._connection = psycopg.connect(make_conninfo(**given), autocommit=True)

    def columns(self, table: str) -> list[Column]:
        """Return the columns that came from the source."""
        found = self._rows(_COLUMNS, self._schema, table)
        return [Column(name, _KINDS[kind]) for name, kind in found if not name.startswith("_sdc_")]

    def checksum(self, table: str, columns: Sequence[Column]) -> Checksum:
        """Return the checksum of all rows, computed by Redshift."""
        texts = (_TEXT.get(c.kind, "CAST({0} AS VARCHAR)").format(f'"{c.name}"') for c in sorted(columns))
        row = " || CHR(2) || ".join(f"COALESCE({text}, CHR(1))" for text in texts)
        digits = f"SUBSTRING(MD5({row}), 1, {HEX_DIGITS})"
        query = (
            f"SELECT COUNT(*), COALESCE(SUM(STRTOL({digits}, 16)), 0) "  # noqa: S608 - our own names
            f'FROM "{self._schema}"."{table}"'
        )
        ((rows, value),) = self._rows(query)
        return Checksum(rows, int(value))

    def load_count(self, table: str) -> int:
        """Return the number of successful COPY statements of batch files into a table."""
        ((count,),) = self._rows(_COPIES, f"{self._batches}/{table}-%")
        return int(count)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.encode(), values or None).fetchall()
