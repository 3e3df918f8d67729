"""The two warehouses behind one interface, for tests of both: load, and read back."""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import local_settings
from singer_lines import Message, load

from local_cloud import Cloud
from singer_arrow.load.convert import RANK
from singer_arrow.sdk.target import WarehouseTarget
from target_bigquery.target import TargetBigQuery
from target_redshift.target import TargetRedshift

Row = dict[str, Any]
LEDGER = "_sdc_batches"
READERS: dict[int, Callable[[Any], Any]] = {4000: json.loads, 6551: bytes.fromhex}
"""Parsers of SUPER and VARBYTE values, types that psycopg lacks."""

REBUILT = {
    "bigquery": ["CREATE OR REPLACE TABLE {rows} AS SELECT * FROM {rows}"],
    "redshift": [
        "CREATE TABLE {deep_copy} (id BIGINT, name VARCHAR(256)) DISTKEY (id)",
        "INSERT INTO {deep_copy} SELECT id, name FROM {rows}",
        "DROP TABLE {rows}",
        "ALTER TABLE {deep_copy} RENAME TO rows",
    ],
}
"""Statements that put a copy of table `rows` in its place, by warehouse."""


def without_ranks(rows: Iterable[Row]) -> list[Row]:
    """Return the rows without the column that each upsert adds."""
    return [{name: value for name, value in row.items() if name != RANK} for row in rows]


class Warehouse(abc.ABC):
    """A schema of a warehouse, and the target that loads into it.

    Attributes:
        name: `bigquery` or `redshift`.
        program: The target's executable.
        target: The target class.
        schema: The schema (BigQuery: dataset) of this test; the target creates it.
        config: Settings for the target in this process; AWS_ variables come from the environment.
    """

    name: str
    program: str
    target: type[WarehouseTarget]

    def __init__(self, schema: str, config: dict[str, Any]) -> None:
        self.schema = schema
        self.config = config | {"default_target_schema": schema}

    def load(
        self,
        messages: Iterable[Message] | str,
        *,
        on_state: Callable[[Message], None] = lambda _: None,
        **settings: Any,
    ) -> WarehouseTarget:
        """Run the target in this process; `on_state` is called with each STATE before it is written."""
        return load(messages, self.config | settings, self.target, on_state)

    @abc.abstractmethod
    def run(self, text: str) -> list[Row]:
        """Return the rows of a query."""

    def query(self, text: str) -> list[Row]:
        """Return the rows of a query, in which `{rows}` and so on are replaced by tables of the schema."""
        return self.run(re.sub(r"\{(\w+)\}", lambda found: self.quoted(found[1]), text))

    def do(self, statements: dict[str, list[str]]) -> None:
        """Execute the statements for this warehouse, as `query` does."""
        for text in statements[self.name]:
            self.query(text)

    def one(self, text: str) -> tuple[Any, ...]:
        """Return the only row of a query."""
        (row,) = self.query(text)
        return tuple(row.values())

    def table(self, name: str = "rows", order: str = "id") -> list[Row]:
        """Return the rows of a table, without their ranks."""
        return without_ranks(self.run(f"SELECT * FROM {self.quoted(name)} ORDER BY {order}"))

    @abc.abstractmethod
    def quoted(self, table: str, schema: str = "") -> str:
        """Return the name of a table, quoted for SQL."""

    @abc.abstractmethod
    def columns(self, table: str, schema: str = "") -> dict[str, str]:
        """Return the columns of a table in order, with the type names of the warehouse."""

    @abc.abstractmethod
    def tables(self, schema: str = "") -> list[str]:
        """Return the tables of the schema."""

    @abc.abstractmethod
    def create(self) -> None:
        """Create the schema."""

    @abc.abstractmethod
    def drop(self, schema: str = "") -> None:
        """Remove the schema with its tables."""

    def contents(self, schema: str = "") -> dict[str, Any]:
        """Return columns and rows of all tables of the schema except the ledger; rows without ranks."""
        found = {}
        for name in self.tables(schema):
            if name != LEDGER:
                rows = without_ranks(self.run(f"SELECT * FROM {self.quoted(name, schema)}"))
                lines = sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)
                found[name] = (self.columns(name, schema), lines)
        return found


class BigQuery(Warehouse):
    """The local BigQuery."""

    name = "bigquery"
    program = "target-bigquery"
    target = TargetBigQuery

    def __init__(self, cloud: Cloud, client: Any, schema: str) -> None:
        super().__init__(schema, local_settings.of_bigquery(cloud))
        self._client = client

    def run(self, text: str) -> list[Row]:
        """Return the rows of a query."""
        return [dict(r) for r in self._client.query(text).result()]

    def quoted(self, table: str, schema: str = "") -> str:
        """Return the name of a table, quoted for SQL."""
        return f"`{schema or self.schema}.{table}`"

    def columns(self, table: str, schema: str = "") -> dict[str, str]:
        """Return the columns of a table in order, with the type names of BigQuery."""
        found = self._client.get_table(f"{schema or self.schema}.{table}")
        return {f.name: json.dumps(f.to_api_repr()) if f.fields else f.field_type for f in found.schema}

    def tables(self, schema: str = "") -> list[str]:
        """Return the tables of the dataset."""
        return [t.table_id for t in self._client.list_tables(schema or self.schema)]

    def create(self) -> None:
        """Create the dataset."""
        self._client.create_dataset(self.schema)

    def drop(self, schema: str = "") -> None:
        """Remove the dataset with its tables."""
        self._client.delete_dataset(schema or self.schema, delete_contents=True, not_found_ok=True)


class Redshift(Warehouse):
    """The local Redshift."""

    name = "redshift"
    program = "target-redshift"
    target = TargetRedshift

    def __init__(self, cloud: Cloud, connection: Any, schema: str) -> None:
        super().__init__(schema, local_settings.of_redshift(cloud))
        self._connection = connection

    def run(self, text: str) -> list[Row]:
        """Return the rows of a query, with SUPER and VARBYTE values parsed."""
        cursor = self._connection.execute(text, prepare=False)  # a prepared one fails once a table has other columns
        columns = [(column.name, READERS.get(column.type_code)) for column in cursor.description or ()]
        assert len(dict(columns)) == len(columns), columns
        return [
            {name: read(v) if read and v is not None else v for (name, read), v in zip(columns, row, strict=True)}
            for row in (cursor.fetchall() if columns else ())
        ]

    def quoted(self, table: str, schema: str = "") -> str:
        """Return the name of a table, quoted for SQL."""
        return ".".join('"' + name.replace('"', '""') + '"' for name in (schema or self.schema, table))

    def columns(self, table: str, schema: str = "") -> dict[str, str]:
        """Return the columns of a table in order, with the type names of Redshift."""
        found = self._connection.execute(
            "SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale "
            "FROM svv_columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            [schema or self.schema, table],
        )
        return {name: _kind(*facts) for name, *facts in found.fetchall()}

    def tables(self, schema: str = "") -> list[str]:
        """Return the tables of the schema."""
        found = self._connection.execute(
            "SELECT table_name FROM svv_tables WHERE table_schema = %s", [schema or self.schema]
        )
        return [name for (name,) in found.fetchall()]

    def create(self) -> None:
        """Create the schema."""
        self._connection.execute(f'CREATE SCHEMA "{self.schema}"')

    def drop(self, schema: str = "") -> None:
        """Remove the schema with its tables."""
        name = (schema or self.schema).replace('"', '""')
        self._connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


WAREHOUSES = {"bigquery": BigQuery, "redshift": Redshift}


def _kind(data_type: str, length: int | None, precision: int | None, scale: int | None) -> str:
    if data_type == "character varying":
        return f"varchar({length})"
    return f"decimal({precision},{scale})" if data_type == "numeric" else data_type
