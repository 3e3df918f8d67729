"""Helpers for tests of target-redshift: batch files, runs in this process, and reading tables back."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import local_settings
import pyarrow as pa
from singer_lines import COLUMNS, Message, batch_of, counted, load
from warehouses import without_ranks

from local_cloud import Cloud
from singer_arrow.formats import WRITABLE, WriteOptions
from singer_arrow.load.method import NO_LOG
from singer_arrow.naming import STAGING
from singer_arrow.schema.json_schema import from_json_schema
from target_redshift.client import Redshift
from target_redshift.ledger import MARK
from target_redshift.target import TargetRedshift
from target_redshift.types import table_column

ORDERS = pa.schema([("id", pa.int64()), ("note", pa.string()), ("at", pa.timestamp("us", "UTC"))])
Open = Callable[..., Redshift]


def rows(client: Redshift, table: str) -> list[Any]:
    """Return the rows of a table, ordered by its first column."""
    return client.query(f"SELECT * FROM {client.quoted(table)} ORDER BY 1", what="test").rows


class RedshiftBatches:
    """Writes batch files to S3 or into a folder, and returns their messages."""

    def __init__(self, s3: Any, bucket: str, folder: Path) -> None:
        self._s3, self._bucket, self._folder = s3, bucket, folder
        self._count = 0

    def __call__(
        self,
        content: list[dict[str, Any]],
        *,
        stream: str = "rows",
        columns: pa.Schema | dict[str, Any] = COLUMNS,
        file_format: str = "parquet",
        where: str = "s3",
        batch_id: str | None = None,
        version: int | None = None,
        compression: str | None = None,
    ) -> Message:
        """Return a BATCH message of one file; with an id as tap-s3-files sends, or without one."""
        self._count += 1
        arrow = columns if isinstance(columns, pa.Schema) else from_json_schema(columns)
        suffix = "jsonl.gz" if file_format == "jsonl" and compression != "none" else file_format
        path = self._folder / f"{self._count}.{suffix}"
        if file_format == "jsonl" and not isinstance(columns, pa.Schema):  # a tap without batch ids
            path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in content).encode()))
        else:
            batches = pa.Table.from_pylist(content, arrow).to_batches()
            WRITABLE[file_format].write(batches, arrow, path, WriteOptions(compression))
        size = path.stat().st_size
        url = path.as_uri()
        if where == "s3":
            self._s3.upload_file(str(path), self._bucket, f"batches/{path.name}")
            url = f"s3://{self._bucket}/batches/{path.name}"
        message = batch_of(url, file_format, stream, version=version)
        return message if batch_id is None else message | counted(batch_id, len(content), size)


class Loads:
    """Runs target-redshift in this process, with a schema of its own, and reads the result.

    Attributes:
        config: Settings of the target.
        batch: Writes batch files.
    """

    def __init__(self, cloud: Cloud, connection: Any, schema: str, batch: RedshiftBatches) -> None:
        self.config = local_settings.of_redshift(cloud, default_target_schema=schema)
        self.batch, self.schema = batch, schema
        self._connection = connection

    def run(self, messages: Iterable[Message], **settings: Any) -> dict[str, int]:
        """Run the target; return the counts of stream `rows` that are not 0."""
        target = load(messages, self.config | settings, TargetRedshift)
        return {name: n for name, n in target.run.tallies.of("rows").counts().items() if n}

    def sql(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query, if any; `{rows}` and so on are replaced by tables of the schema."""
        named = re.sub(r"\{(\w+)\}", lambda found: f'"{self.schema}"."{found[1]}"', text)
        cursor = self._connection.execute(named, values or None)
        return list(cursor.fetchall()) if cursor.description else []

    def table(self, name: str = "rows", order: str = "id") -> list[dict[str, Any]]:
        """Return the rows of a table, without their ranks."""
        cursor = self._connection.execute(f'SELECT * FROM "{self.schema}"."{name}" ORDER BY {order}')
        names = [c.name for c in cursor.description]
        return without_ranks(dict(zip(names, row, strict=True)) for row in cursor.fetchall())

    def ids(self) -> list[int]:
        """Return the ids in the table, sorted."""
        return [row[0] for row in self.sql("SELECT id FROM {rows} ORDER BY id")]

    def columns(self, name: str = "rows") -> dict[str, str]:
        """Return the columns of a table and their types."""
        rows = self.sql(
            "SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale "
            "FROM svv_columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            self.schema,
            name,
        )
        return {name: str(table_column(name, *facts)) for name, *facts in rows}

    def ledger(self) -> dict[str, int]:
        """Return the number of rows of each batch in the ledger."""
        found = self.sql("SELECT batch_id, rows FROM {_sdc_batches}")
        return {b: n for b, n in found if not b.startswith((MARK, NO_LOG))}

    def staging_tables(self) -> list[str]:
        """Return the remaining staging tables."""
        found = self.sql("SELECT table_name FROM svv_tables WHERE table_schema = %s", self.schema)
        return [name for (name,) in found if name.startswith(STAGING)]
