"""Rows that are in memory to a BATCH file; prints the CPU seconds of that step alone as JSON.

Usage: python -m benchmarks.programs.rows_or_arrow WHO FOLDER SOURCE...

WHO is `sdk-jsonl` or `sdk-parquet`, the SDK's own batchers over a list of dicts, or `jsonl` or `parquet`, the batch
files of tap-s3-files out of Arrow. SOURCE is Parquet; it is read, and made dicts for the SDK, before the clock starts.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def main() -> None:
    """Write, and print `rows` and `cpu_s`."""
    who, folder, *sources = sys.argv[1:]
    table = pa.concat_tables(pq.read_table(source) for source in sources)
    write = (_sdk if who.startswith("sdk-") else _ours)(who.removeprefix("sdk-"), table, Path(folder))
    started = time.process_time()
    write()
    print(json.dumps({"rows": table.num_rows, "convert_cpu_s": time.process_time() - started}))


def _ours(kind: str, table: pa.Table, folder: Path) -> Callable[[], Any]:
    from singer_arrow.formats import WRITABLE

    WRITABLE[kind].write(table.slice(0, 1).to_batches(), table.schema, folder / "first")  # imports what it needs
    return lambda: WRITABLE[kind].write(table.to_batches(), table.schema, folder / f"out.{kind}")


def _sdk(kind: str, table: pa.Table, folder: Path) -> Callable[[], Any]:
    from singer_sdk.contrib.batch_encoder_jsonl import JSONLinesBatcher
    from singer_sdk.contrib.batch_encoder_parquet import ParquetBatcher
    from singer_sdk.helpers._batch import BaseBatchFileEncoding, BatchConfig, StorageTarget

    batcher = {"jsonl": JSONLinesBatcher, "parquet": ParquetBatcher}[kind]
    encoding = BaseBatchFileEncoding(kind, "gzip" if kind == "jsonl" else None)  # of Parquet it makes snappy
    config = BatchConfig(encoding, StorageTarget(folder.absolute().as_uri()), batch_size=table.num_rows)
    rows = table.to_pylist()
    return lambda: list(batcher("tap", "stream", config).get_batches(iter(rows)))


if __name__ == "__main__":
    main()
