"""PostgreSQL for the contenders that read rows: the server below the local Redshift, on a Unix socket."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

from benchmarks.harness import BenchmarkError
from local_cloud.errors import LocalCloudError
from local_cloud.redshift.postgres import SUPERUSER, Postgres

_TYPES = {pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint", pa.string(): "text"}


@contextmanager
def serving_postgres() -> Iterator[Postgres]:
    """Yield a running server.

    Raises:
        BenchmarkError: There is none on this machine; one line with the reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        postgres = Postgres(Path(folder))
        try:
            try:
                postgres.start()
            except LocalCloudError as error:
                raise BenchmarkError(f"there is no PostgreSQL server: {error}") from None
            yield postgres
        finally:
            postgres.stop()


def conninfo(postgres: Postgres) -> str:
    """Return the connection string for psycopg."""
    return f"{postgres.conninfo} dbname=postgres"


def sqlalchemy_url(postgres: Postgres, driver: str) -> str:
    """Return the URL for SQLAlchemy with a driver, such as psycopg."""
    # Taps want a host and a password too, which the socket does without.
    return f"postgresql+{driver}://{SUPERUSER}:none@localhost/postgres?host={postgres.socket.parent}&port=5432"


def load(postgres: Postgres, name: str, table: pa.Table) -> None:
    """Create a table with these rows by COPY."""
    import psycopg

    columns = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in table.schema)
    with psycopg.connect(conninfo(postgres), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        with cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
            for batch in table.to_batches(max_chunksize=10_000):
                sink = pa.BufferOutputStream()
                pc.write_csv(batch, sink, pc.WriteOptions(include_header=False))
                copy.write(sink.getvalue().to_pybytes())
        cursor.execute(f"VACUUM ANALYZE {name}")
