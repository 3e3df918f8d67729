"""Files to Parquet (zstd level 1) as plain pyarrow or polars do it, file by file.

Usage: python -m benchmarks.programs.copy_floor pyarrow|polars parquet|csv|csv.gz|jsonl.gz TARGET SOURCE...

TARGET is a prefix, s3://bucket/key, as SOURCE is an object; the endpoint is in AWS_ENDPOINT_URL. For polars they may be
local paths.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyarrow import fs

BLOCK = 16 << 20


def main() -> None:
    """Copy each source."""
    who, kind, target, *sources = sys.argv[1:]
    copy = {"pyarrow": _pyarrow, "polars": _polars}[who]
    for number, source in enumerate(sources):
        copy(kind, source, f"{target}/{number}.parquet")


def _pyarrow(kind: str, source: str, target: str) -> None:
    import pyarrow.parquet as pq
    from pyarrow import fs

    endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"])
    place = fs.S3FileSystem(endpoint_override=endpoint.netloc, scheme=endpoint.scheme)
    table = _table(kind, source.removeprefix("s3://"), place)
    where = target.removeprefix("s3://")
    pq.write_table(table, where, filesystem=place, compression="zstd", compression_level=1)


def _table(kind: str, path: str, place: fs.FileSystem) -> pa.Table:
    """pyarrow's readers with its own threads; blocks of 16 MB, which serve it better than its 1 MB."""
    if kind == "parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path, filesystem=place)
    # Decompressed by its suffix. Without a buffer each read of a block would be one request of its own size.
    with place.open_input_stream(path, buffer_size=BLOCK) as stream:
        if kind.startswith("csv"):
            from pyarrow import csv

            return csv.read_csv(stream, read_options=csv.ReadOptions(block_size=BLOCK))
        from pyarrow import json

        return json.read_json(stream, read_options=json.ReadOptions(block_size=BLOCK))


def _polars(kind: str, source: str, target: str) -> None:
    import polars as pl

    options = None
    if source.startswith("s3://"):
        options = {"aws_endpoint_url": os.environ["AWS_ENDPOINT_URL"], "aws_allow_http": "true"}
    frame: pl.LazyFrame
    if kind == "parquet":
        frame = pl.scan_parquet(source, storage_options=options)
    elif kind.startswith("csv"):
        frame = pl.scan_csv(source, storage_options=options, try_parse_dates=True)
    else:
        frame = pl.scan_ndjson(source, storage_options=options)
    frame.sink_parquet(target, compression="zstd", compression_level=1, storage_options=options)


if __name__ == "__main__":
    main()
