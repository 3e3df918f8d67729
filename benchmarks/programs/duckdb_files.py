"""Files to Parquet (zstd level 1), or into Arrow, as plain DuckDB does it. Runs in DuckDB's environment.

Usage: python duckdb_files.py copy parquet|csv|csv.gz|jsonl.gz TARGET SOURCE...
       python duckdb_files.py read columns|parquet|schema|csv|jsonl-gz|small URL COLUMNS

TARGET is a prefix as SOURCE is an object or a local file. COLUMNS is JSON: the SQL types of the columns by name, for
`columns` those to read. `read` prints rows and seconds, without imports and with a connection to S3 open. S3 is read by
DuckDB's own extension httpfs, from its package; the endpoint and the keys are those of the environment.
"""

import json
import os
import resource
import sys
import time
from contextlib import suppress
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import duckdb

READERS = {"parquet": "read_parquet", "csv": "read_csv", "jsonl": "read_ndjson"}


def main() -> None:
    """Copy files, or read once."""
    verb, *given = sys.argv[1:]
    if verb == "copy":
        _copy(*given)
    else:
        json.dump(_read(*given), sys.stdout)


def _copy(kind: str, target: str, *sources: str) -> None:
    connection = _connection(target)
    reader = READERS[kind.partition(".")[0]]
    for number, source in enumerate(sources):
        where = f"'{target}/{number}.parquet' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
        connection.execute(f"COPY (FROM {reader}('{source}')) TO {where}")


def _read(shape: str, url: str, columns: str) -> dict[str, float]:
    connection, types = _connection(url), json.loads(columns)
    kind = {"csv": "csv", "jsonl-gz": "jsonl", "small": "jsonl"}.get(shape, "parquet")
    source = f"{url}*.jsonl" if shape == "small" else url
    options = "" if kind == "parquet" else f", columns={types}"
    query = f"FROM {READERS[kind]}('{source}'{options})"
    if shape == "columns":
        query = f"SELECT {', '.join(types)} {query}"
    before, clock = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    found = connection.execute(f"DESCRIBE {query}" if shape == "schema" else query).to_arrow_table()
    seconds, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rows": found.num_rows, "read_s": seconds, "read_cpu_s": cpu}


def _connection(url: str) -> Any:
    """Return DuckDB, with a connection to S3 if the URL is there."""
    connection = duckdb.connect()
    if url.startswith("s3://"):
        (extension,) = files("duckdb_extension_httpfs").joinpath("extensions").glob("*/httpfs.duckdb_extension")  # type: ignore[attr-defined]
        connection.execute(f"LOAD '{extension}'")
        endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"])
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{os.environ['AWS_ACCESS_KEY_ID']}', REGION '{os.environ['AWS_REGION']}', "
            f"SECRET '{os.environ['AWS_SECRET_ACCESS_KEY']}', ENDPOINT '{endpoint.netloc}', URL_STYLE 'path', "
            f"USE_SSL {endpoint.scheme == 'https'})"
        )
        with suppress(duckdb.HTTPException):
            connection.execute("FROM read_blob('s3://bench/none')")
    return connection


if __name__ == "__main__":
    main()
