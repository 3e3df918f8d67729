"""A Redshift target on the Singer SDK's sink for SQL, as its template makes it: the peer of target-redshift.

The SDK's SQLSink decodes a batch file to records (process_batch_files), and inserts them: 10,000 records a batch where
they come as messages, a whole file where they come as BATCH. Its own INSERT takes one row a statement; this one takes
as many as Redshift's 32,767 parameters allow, which is faster and what the better targets do. Each batch is one
transaction. Rows are appended; there is no temporary table and no MERGE.

Usage: python -m benchmarks.programs.stock_redshift_target [--config FILE] < MESSAGES

It takes the cluster from TARGET_REDSHIFT_* and the schema from TARGET_REDSHIFT_DEFAULT_TARGET_SCHEMA.
"""

import os
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from singer_sdk import Target
from singer_sdk import typing as th
from singer_sdk.sinks import BatchSink

PARAMETERS = 32_767
TYPES = {"integer": "BIGINT", "number": "DOUBLE PRECISION", "boolean": "BOOLEAN", "string": "VARCHAR(65535)"}


class StockSink(BatchSink):
    """Records to INSERT statements of many rows."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        names = ("host", "port", "user", "password", "dbname")
        given = {name: os.environ[f"TARGET_REDSHIFT_{name.upper()}"] for name in names}
        self._connection = psycopg.connect(make_conninfo(**given), autocommit=True)
        self._columns = list(self.schema["properties"])
        self._schema = os.environ["TARGET_REDSHIFT_DEFAULT_TARGET_SCHEMA"]
        self._table = sql.Identifier(self._schema, self.stream_name)

    def setup(self) -> None:
        """Create the schema and the table."""
        columns = sql.SQL(", ").join(
            sql.SQL("{} " + _type(of)).format(sql.Identifier(name)) for name, of in self.schema["properties"].items()
        )
        self._connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._schema)))
        self._connection.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._table, columns))

    def process_batch(self, context: dict[str, Any]) -> None:
        """Insert what was gathered."""
        with self._connection.transaction():
            many = PARAMETERS // len(self._columns)
            for first in range(0, len(context["records"]), many):
                records = context["records"][first : first + many]
                values = [record.get(name) for record in records for name in self._columns]
                self._connection.execute(self._insert(len(records)), values)

    def _insert(self, rows: int) -> sql.Composed:
        row = sql.SQL("({})").format(sql.SQL(", ").join([sql.Placeholder()] * len(self._columns)))
        names = sql.SQL(", ").join(map(sql.Identifier, self._columns))
        many = sql.SQL(", ").join([row] * rows)
        return sql.SQL("INSERT INTO {} ({}) VALUES {}").format(self._table, names, many)


class StockTarget(Target):
    """The SDK's target with the sink above; every setting is left at its default."""

    name = "stock-redshift-target"
    config_jsonschema = th.PropertiesList().to_dict()
    default_sink_class = StockSink


def _type(of: dict[str, Any]) -> str:
    if of.get("format") == "date-time":
        return "TIMESTAMP"
    return next(column for name, column in TYPES.items() if name in of["type"])


if __name__ == "__main__":
    StockTarget.cli()
