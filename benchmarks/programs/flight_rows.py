"""A table of a Flight SQL server by the driver alone: `python -m benchmarks.programs.flight_rows WHAT FOLDER`.

WHAT is `memory`: all rows as one Arrow table in memory (`fetch_arrow_table`), whose seconds are printed as JSON;
`parquet`: the record batches of one endpoint after the other into one Parquet file, zstd, as `pq.write_table` writes;
or `records`: the rows of DB-API as RECORD messages of a tap on the Singer SDK's defaults; of the table `some_hits`. The
environment of tap-flight-sql names the server.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pyarrow.parquet as pq
from singer_sdk import Stream, Tap

QUERY = "SELECT * FROM hits"
ROW_QUERY = "SELECT * FROM some_hits"


def _connect() -> Any:
    login = {name.lower(): os.environ[f"TAP_FLIGHT_SQL_{name}"] for name in ("USERNAME", "PASSWORD")}
    options = {"adbc.flight.sql.client_option.with_max_msg_size": str(1 << 30), **login}
    return flight_sql.connect(os.environ["TAP_FLIGHT_SQL_URI"], db_kwargs=options, autocommit=True)


def _read_into_memory() -> None:
    with _connect() as connection, connection.cursor() as cursor:
        begun = time.monotonic()
        cursor.execute(QUERY)
        table = cursor.fetch_arrow_table()
        seconds = time.monotonic() - begun
    print(json.dumps({"rows": table.num_rows, "columns": table.num_columns, "bytes": table.nbytes, "read_s": seconds}))


def _write_parquet(folder: Path) -> None:
    with _connect() as connection, connection.cursor() as cursor:
        cursor.execute(QUERY)
        batches = iter(cursor.fetch_record_batch())
        first = next(batches)
        with pq.ParquetWriter(folder / "hits.parquet", first.schema, compression="zstd") as writer:
            held = [first]
            for batch in batches:
                held.append(batch)
                if sum(b.nbytes for b in held) >= 64 << 20:
                    writer.write_table(pa.Table.from_batches(held))
                    held = []
            if held:
                writer.write_table(pa.Table.from_batches(held))


class Hits(Stream):
    """The rows of the table."""

    name = "hits"

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - the SDK's signature
        """Yield a dict for each row."""
        with _connect() as connection, connection.cursor() as cursor:
            cursor.execute(ROW_QUERY)
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(10_000):
                yield from (dict(zip(names, row, strict=True)) for row in rows)


class RowTap(Tap):
    """The SDK's tap with the stream above; every setting is left at its default."""

    name = "row-tap"
    config_jsonschema = {"type": "object", "properties": {}}  # noqa: RUF012 - the SDK's form

    def discover_streams(self) -> list[Stream]:
        """Return the one stream."""
        with _connect() as connection, connection.cursor() as cursor:
            schema = cursor.adbc_execute_schema(ROW_QUERY)
        kinds = {f.name: "integer" if pa.types.is_integer(f.type) else "string" for f in schema}
        properties = {name: {"type": [kind, "null"]} for name, kind in kinds.items()}
        return [Hits(self, schema={"type": "object", "properties": properties})]


if __name__ == "__main__":
    if sys.argv[1] == "memory":
        _read_into_memory()
    elif sys.argv[1] == "parquet":
        _write_parquet(Path(sys.argv[2]))
    else:
        RowTap().sync_all()
