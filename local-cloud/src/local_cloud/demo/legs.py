"""More sources of `make demo ARGS=--all`: a table of Delta Lake and a Flight SQL server, with rows loaded before."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cloud.demo import pipes
from local_cloud.demo.warehouse import Warehouse
from local_cloud.flightsql.client import FlightSql
from local_cloud.seed import data_folder


@dataclass(frozen=True)
class Leg:
    """A stream of a tap, whose table is to have the rows of another that was loaded from S3."""

    tap: str
    stream: dict[str, Any]
    source: str


def flight_sql() -> Leg:
    """Make a table of the Flight SQL server, from the sample's own file."""
    file = data_folder() / "weather.csv"
    FlightSql.from_environment().execute(f"CREATE TABLE weather AS FROM read_csv('{file}', nullstr = 'NA')")
    stream = {"name": "weather_by_query", "table": "weather", "replication_key": "time_hour"}
    return Leg("tap-flight-sql", stream, "weather")


def delta(bucket: Any) -> Leg:
    """Make a table of Delta Lake of the planes: two versions with rows, and one that compacts their files."""
    import deltalake
    import pyarrow as pa
    import pyarrow.parquet as pq

    objects = [o.get()["Body"].read() for o in bucket.objects.filter(Prefix="planes/")]
    rows = pa.concat_tables([pq.read_table(pa.BufferReader(data)) for data in objects])
    place, half = f"s3://{bucket.name}/lake/planes", rows.num_rows // 2
    options = {"aws_allow_http": "true", "aws_conditional_put": "etag"}
    for part in (rows.slice(0, half), rows.slice(half)):
        deltalake.write_deltalake(place, part, mode="append", storage_options=options)
    deltalake.DeltaTable(place, storage_options=options).optimize.compact()
    return Leg("tap-s3-files", {"name": "planes_of_lake", "path": place, "format": "delta"}, "planes")


def load(leg: Leg, warehouse: Warehouse, schema: str, batches: str, print_line: Callable[[str], None]) -> bool:
    """Load a leg into a warehouse, twice without STATE; return whether its rows are those loaded from S3."""
    table, source = leg.stream["name"], leg.source
    encoding = {"format": "parquet", "compression": "zstd"}
    tap = {"streams": [leg.stream], "batch_config": {"encoding": encoding, "storage": {"root": batches}}}
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        for _ in range(2):
            ran = pipes.by_shell(warehouse.target, schema, leg.tap, tap, folder=Path(name), print_line=print_line)
            if ran.code:
                return False
    columns = sorted(set(warehouse.columns(source)) & set(warehouse.columns(table)))
    found, expected = (warehouse.checksum(name, columns) for name in (table, source))
    verdict = "the same as from S3" if found == expected else f"DIFFERENT: {expected.rows:,} rows from S3"
    print_line(f"{table} in {warehouse.name}: {found.rows:,} rows, {len(columns)} columns, {verdict}")
    return found == expected
