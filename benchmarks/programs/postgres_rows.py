"""Rows of a PostgreSQL table to a Parquet file: `python -m benchmarks.programs.postgres_rows DRIVER ADDRESS FILE`.

DRIVER is `psycopg` (its C implementation, a cursor on the server, binary values) or `sqlalchemy` (psycopg below it,
rows in partitions). 10,000 rows at a time become columns by `zip`, and a row group of 64 MiB a call of `write_table`.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

QUERY = "SELECT * FROM hits"
ROWS = 10_000
_TYPES = {21: pa.int16(), 23: pa.int32(), 20: pa.int64(), 25: pa.string()}
"""Arrow's types by PostgreSQL's numbers of types."""


def _psycopg(address: str) -> Iterator[tuple[Any, list[Sequence[Any]]]]:
    import psycopg

    with psycopg.connect(address) as connection, connection.cursor("hits", binary=True) as cursor:
        cursor.execute(QUERY)
        while rows := cursor.fetchmany(ROWS):
            yield cursor.description, rows


def _sqlalchemy(address: str) -> Iterator[tuple[Any, list[Sequence[Any]]]]:
    import sqlalchemy as sa

    with sa.create_engine(address).connect().execution_options(yield_per=ROWS) as connection:
        result = connection.execute(sa.text(QUERY))
        description = result.cursor.description
        for rows in result.partitions():
            yield description, list(rows)


def main(driver: str, address: str, path: str) -> None:
    """Write the file."""
    writer, held = None, list[pa.RecordBatch]()
    for description, rows in {"psycopg": _psycopg, "sqlalchemy": _sqlalchemy}[driver](address):
        schema = pa.schema([(column[0], _TYPES[column[1]]) for column in description])
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        held.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        writer = writer or pq.ParquetWriter(path, schema, compression="zstd")
        if sum(batch.nbytes for batch in held) >= 64 << 20:
            writer.write_table(pa.Table.from_batches(held))
            held = []
    assert writer is not None
    if held:
        writer.write_table(pa.Table.from_batches(held))
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
