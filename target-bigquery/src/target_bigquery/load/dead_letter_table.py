"""Writes the table `_sdc_rejected`: the rows that were not loaded, and why.

They are written before the load job of the other rows of their batches, by a MERGE that skips existing rows, so a batch
that is loaded again adds none of its rows a second time.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from singer_arrow.errors import LoadError
from singer_arrow.formats import WRITABLE
from singer_arrow.load.dead_letters import BatchRejects, parts_of
from singer_arrow.naming import REJECTED, staging_name
from target_bigquery import sql
from target_bigquery.connection.client import BigQuery
from target_bigquery.connection.resources import RefusedDataError
from target_bigquery.load import load_job
from target_bigquery.load.uploads import PARQUET_CODEC, Upload
from target_bigquery.tables import migrate

MOST_RECORD = 8 << 20
"""Bytes of a record in one row; what is longer takes several."""
_SCHEMA = pa.schema(
    [(field["name"], pa.int64() if field["type"] == "INTEGER" else pa.string()) for field in migrate.REJECTED_FIELDS]
)


class DeadLetterTable:
    """The table of rows that are not loaded; safe to use from any thread, and created when there is the first."""

    def __init__(self, client: BigQuery, temporary: Callable[[str], Path]) -> None:
        self._client, self._temporary = client, temporary
        self._lock = threading.Lock()
        self._exists = False

    def write(self, stream: str, batches: Sequence[BatchRejects]) -> None:
        """Write rows, one call at a time: they are durable once it returns."""
        client, name = self._client, staging_name(REJECTED, uuid.uuid4().hex)
        with self._lock:
            if not self._exists:
                migrate.prepare_rejected(client)
                migrate.remove_leftovers(client, REJECTED)
                self._exists = True
            path, rows = self._temporary(".parquet"), list(_rows(stream, batches))
            batch = pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
            WRITABLE["parquet"].write([batch], _SCHEMA, path, compression=PARQUET_CODEC)
            upload = Upload(path, "parquet", len(rows), path.stat().st_size, is_temporary=True)
            try:
                migrate.create_staging_table(client, name, migrate.REJECTED_FIELDS)
                load_job.run_until_done(client, upload, name, migrate.REJECTED_FIELDS)
            except RefusedDataError as error:  # it is not for a row of the stream
                raise LoadError(str(error)) from None
            finally:
                path.unlink(missing_ok=True)
            what = f"Writing to {client.path(REJECTED)}"
            client.query(sql.add_rejected(client.quoted(REJECTED), client.quoted(name)), what=what)
            client.delete_table(name)


def _rows(stream: str, batches: Sequence[BatchRejects]) -> Iterator[dict[str, object]]:
    for batch in batches:
        for rejected in batch.rows:
            for number, part in enumerate(parts_of(rejected, MOST_RECORD), 1):
                yield {
                    "stream": stream,
                    "batch_id": batch.batch_id,
                    "file": part.file,
                    "position": part.position,
                    "column_name": part.column,
                    "reason": part.reason,
                    "record": part.record,
                    "part": number,
                }
