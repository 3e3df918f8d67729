"""Files on S3 to Parquet on S3 by dlt: its filesystem source and its filesystem destination. Runs in dlt's environment.

Usage: python copy_dlt.py dicts|arrow parquet|csv|csv.gz|jsonl.gz TARGET SOURCE_PREFIX WORK_FOLDER

`arrow` is `use_pyarrow=True`, which dlt has for Parquet, and for CSV by DuckDB. It prints the number of rows loaded.
"""

import os
import sys

ROWS = 100_000


def main() -> None:
    """Run a pipeline and print how many rows it normalized."""
    mode, kind, target, source, folder = sys.argv[1:]
    os.environ |= {"DLT_DATA_DIR": folder, "RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}
    os.environ["DATA_WRITER__BUFFER_MAX_ITEMS"] = str(ROWS)  # as dlt's pages on performance advise
    import dlt
    from dlt.sources.filesystem import readers

    keys = {
        "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "endpoint_url": os.environ["AWS_ENDPOINT_URL"],
        "region_name": os.environ["AWS_REGION"],
    }
    found = readers(bucket_url=source, credentials=keys, file_glob="*")
    if kind == "parquet":
        resource = found.read_parquet(chunksize=ROWS if mode == "arrow" else 10_000, use_pyarrow=mode == "arrow")
    elif kind == "jsonl.gz":
        resource = found.read_jsonl(chunksize=10_000)
    elif mode == "arrow":
        resource = found.read_csv_duckdb(chunk_size=ROWS, use_pyarrow=True)
    else:
        resource = found.read_csv(chunksize=10_000)
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=f"{folder}/pipelines",
        destination=dlt.destinations.filesystem(bucket_url=target, credentials=keys),
        dataset_name="out",
    )
    pipeline.run(resource.with_name("trips"), loader_file_format="parquet")
    print(pipeline.last_trace.last_normalize_info.row_counts["trips"])


if __name__ == "__main__":
    main()
