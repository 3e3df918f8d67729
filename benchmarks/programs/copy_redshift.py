"""One COPY of events into a new temporary table, as a client of Redshift sends it, by redshift_connector.

Usage: python -m benchmarks.programs.copy_redshift URL OPTIONS

OPTIONS is what follows the credentials, such as "FORMAT AS JSON 'auto' GZIP". It takes the cluster from
TARGET_REDSHIFT_* and the keys from AWS_*, and prints JSON: `copy_s`, the seconds until COPY was answered, and `rows`.
"""

import json
import os
import sys
import time
import uuid

import redshift_connector

from benchmarks.generators.events import REDSHIFT, TYPES


def main() -> None:
    """Create the table, COPY, count."""
    url, options = sys.argv[1:]
    host, port, user, password, database = (
        os.environ[f"TARGET_REDSHIFT_{name}"] for name in ("HOST", "PORT", "USER", "PASSWORD", "DBNAME")
    )
    keys = (os.environ[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"))
    credentials = "aws_access_key_id={};aws_secret_access_key={}".format(*keys)
    table = f"copy_{uuid.uuid4().hex}"
    columns = ", ".join(f'"{name}" {REDSHIFT[kind]}' for name, kind in TYPES.items())
    connection = redshift_connector.connect(
        host=host, port=int(port), user=user, password=password, database=database, ssl=False, timeout=None
    )
    connection.autocommit = True
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMP TABLE {table} ({columns})")
        started = time.perf_counter()
        cursor.execute(f"COPY {table} FROM '{url}' CREDENTIALS '{credentials}' {options}")
        seconds = time.perf_counter() - started
        cursor.execute(f"SELECT COUNT(*) FROM {table}")
        ((rows,),) = cursor.fetchall()
    print(json.dumps({"copy_s": seconds, "rows": rows}))


if __name__ == "__main__":
    main()
