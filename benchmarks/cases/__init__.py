"""The cases by name. Each module tells in its docstring what it compares and how."""

from collections.abc import Callable

from benchmarks.case import Case
from benchmarks.cases import (
    avro,
    coalescing,
    loads,
    memory,
    memory_inputs,
    parquet,
    records,
    redshift_bytes,
    redshift_copy,
    redshift_loads,
    rows_or_arrow,
    s3,
    scaling,
    start,
    storage_write,
    taxi,
    wide,
)
from benchmarks.workbench import Workbench

CASES: dict[str, Callable[[Workbench], Case]] = {
    "start": start.build,
    "taxi-parquet": taxi.build_parquet,
    "taxi-parquet-5": taxi.build_parquet_5,
    "taxi-csv": taxi.build_csv,
    "taxi-csv-gz": taxi.build_csv_gz,
    "taxi-jsonl-gz": taxi.build_jsonl_gz,
    "taxi-60m": taxi.build_60m,
    "parquet": parquet.build,
    "parquet-5-files": parquet.build_five,
    "s3-columns": s3.build_columns,
    "s3-parquet": s3.build_parquet,
    "s3-csv": s3.build_csv,
    "s3-csv-unlimited": s3.build_csv_unlimited,
    "s3-jsonl-gz": s3.build_jsonl_gz,
    "s3-schema": s3.build_schema,
    "s3-small": s3.build_small,
    "s3-torn": s3.build_torn,
    "avro": avro.build,
    "avro-from-jsonl": avro.build_from_jsonl,
    "wide": wide.build,
    "wide-1m": wide.build_1m,
    "record-pipe": records.build_pipe,
    "record-target": records.build_target,
    "rows-or-arrow": rows_or_arrow.build,
    "loads": loads.build,
    "coalescing": coalescing.build,
    "storage-write": storage_write.build,
    "storage-write-latency": storage_write.build_latency,
    "redshift-copy-10k": redshift_copy.build_10k,
    "redshift-copy-100k": redshift_copy.build_100k,
    "redshift-copy-1m": redshift_copy.build_1m,
    "redshift-loads": redshift_loads.build,
    "redshift-bytes": redshift_bytes.build,
    "memory": memory.build,
    "memory-5gb": memory.build_large,
    "memory-inputs": memory_inputs.build,
    "scaling": scaling.build,
    "scaling-10gb": scaling.build_large,
}
ON_REQUEST = frozenset({"memory-5gb", "scaling-10gb", "taxi-60m", "wide-1m"})
"""Cases that run only when they are named: they take long, or much of the disk."""
