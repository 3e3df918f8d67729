"""Parquet to Parquet as plain pyarrow does it: read_table, write_table (zstd level 1).

Usage: python -m benchmarks.programs.copy_parquet TARGET_FOLDER SOURCE...

The folder and the sources are paths, or s3://bucket/key with the endpoint in AWS_ENDPOINT_URL.
"""

import os
import sys
from urllib.parse import urlsplit

import pyarrow.parquet as pq
from pyarrow import fs


def main() -> None:
    """Copy each source, one after the other, with pyarrow's own threads."""
    folder, *sources = sys.argv[1:]
    filesystem, folder = _filesystem(folder)
    for number, source in enumerate(sources):
        table = pq.read_table(source.removeprefix("s3://"), filesystem=filesystem)
        target = f"{folder}/{number}.parquet"
        pq.write_table(table, target, filesystem=filesystem, compression="zstd", compression_level=1)


def _filesystem(url: str) -> tuple[fs.FileSystem, str]:
    if not url.startswith("s3://"):
        return fs.LocalFileSystem(), url
    endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"])
    return fs.S3FileSystem(endpoint_override=endpoint.netloc, scheme=endpoint.scheme), url.removeprefix("s3://")


if __name__ == "__main__":
    main()
