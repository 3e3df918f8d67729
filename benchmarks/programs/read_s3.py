"""Read from S3 into Arrow with one library: `read_s3 READER SHAPE URL`; prints rows and seconds.

Imports, clients and a first request, which opens a connection, come before the clock. Each library is set as its
documentation advises for reading much from far away; the types of text are given to all.
"""

import io
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from benchmarks.generators import taxi

COLUMNS = ("tpep_pickup_datetime", "trip_distance", "total_amount")
SHAPES = ("columns", "parquet", "schema", "csv", "jsonl-gz", "small")
BLOCK = 16 << 20
THREADS = 32
Read = Callable[[], int]
"""What is timed: gives rows, or of a schema its columns."""


def ours(shape: str, url: str) -> Read:
    """singer_arrow: a reader of the object, through its format."""
    from singer_arrow.errors import NotFoundError
    from singer_arrow.formats import FORMATS
    from singer_arrow.formats.base import JoiningFormat
    from singer_arrow.read_options import ReadOptions
    from singer_arrow.reading.objects import ObjectReader, prefetch_groups
    from singer_arrow.reading.parallel import Budget
    from singer_arrow.storage.store import Storage
    from singer_arrow.storage.urls import Url

    storage, budget, at, options = Storage(), Budget(), Url.parse(url), ReadOptions()
    kind = FORMATS[_format(shape)]
    none = Url.parse(f"s3://{at.bucket}/none")
    with suppress(NotFoundError):
        storage.get(none)
    if shape == "small":
        list(storage.list(none))

    def read() -> int:
        if shape == "small":
            objects = sorted(storage.list(at), key=lambda info: info.url.key)
            rows = 0
            for readers in prefetch_groups(storage, objects, budget):
                batches = kind.join(readers, _schema(), options) if isinstance(kind, JoiningFormat) else None
                if batches is None:
                    batches = [batch for reader in readers for batch in kind.read(reader, _schema(), options)]
                rows += sum(batch.num_rows for batch in batches)
            return rows
        reader, schema = ObjectReader(storage, at, budget=budget), _schema()
        if _format(shape) == "parquet":
            schema = kind.infer(reader, options, sample_bytes=0)
            if shape == "schema":
                return len(schema)
            if shape == "columns":
                schema = pa.schema([schema.field(name) for name in COLUMNS])
        return sum(batch.num_rows for batch in kind.read(reader, schema, options))

    return read


def pyarrow(shape: str, url: str) -> Read:
    """pyarrow, files one by one: `pre_buffer`, 32 threads for requests, blocks of 16 MiB."""
    import pyarrow.csv as pc
    import pyarrow.dataset as ds
    import pyarrow.json as pj
    import pyarrow.parquet as pq

    files, path = pyarrow_files(), url.removeprefix("s3://")

    def read() -> int:
        if shape == "schema":
            return len(pq.read_schema(path, filesystem=files))
        if _format(shape) == "parquet":
            columns = list(COLUMNS) if shape == "columns" else None
            return int(pq.read_table(path, filesystem=files, columns=columns, pre_buffer=True).num_rows)
        if shape == "small":
            found: Any = ds.dataset(path, filesystem=files, format="json", schema=_schema())
            return int(found.scanner(fragment_readahead=THREADS, batch_readahead=THREADS).count_rows())
        codec = "gzip" if shape == "jsonl-gz" else None
        with files.open_input_stream(path, compression=codec, buffer_size=BLOCK) as source:
            if shape == "csv":
                types = pc.ConvertOptions(column_types=_schema())
                return int(pc.read_csv(source, pc.ReadOptions(block_size=BLOCK), convert_options=types).num_rows)
            return int(pj.read_json(source, pj.ReadOptions(block_size=BLOCK), _json_options()).num_rows)

    return read


def pyarrow_dataset(shape: str, url: str) -> Read:
    """pyarrow.dataset: `pre_buffer`, 32 threads for requests, read-ahead of 32 batches and files."""
    import pyarrow.dataset as ds

    files, path = pyarrow_files(), url.removeprefix("s3://")
    prefetch = ds.ParquetFragmentScanOptions(pre_buffer=True)

    def read() -> int:
        form: Any = ds.ParquetFileFormat(default_fragment_scan_options=prefetch)
        found: Any = ds.dataset(path, filesystem=files, format=form)
        if shape == "schema":
            return len(found.schema)
        columns = list(COLUMNS) if shape == "columns" else None
        scanner = found.scanner(columns=columns, batch_readahead=THREADS, fragment_readahead=THREADS)
        return int(scanner.to_table().num_rows)

    return read


def polars(shape: str, url: str) -> Read:
    """polars: lazy scans, collected by the streaming engine."""
    import polars as pl

    options = {
        "aws_endpoint_url": os.environ["AWS_ENDPOINT_URL"],
        "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "aws_region": os.environ["AWS_REGION"],
        "aws_allow_http": "true",
    }
    empty: Any = pl.from_arrow(_schema().empty_table())

    def read() -> int:
        if _format(shape) == "parquet":
            scan = pl.scan_parquet(url, storage_options=options)
            if shape == "schema":
                return len(scan.collect_schema())
            query = scan.select(COLUMNS) if shape == "columns" else scan
        elif shape == "csv":
            query = pl.scan_csv(url, storage_options=options, schema=empty.schema)
        else:
            every = f"{url}*.jsonl" if shape == "small" else url
            query = pl.scan_ndjson(every, storage_options=options, schema=empty.schema)
        return int(query.collect(engine="streaming").to_arrow().num_rows)

    return read


def boto3(shape: str, url: str) -> Read:
    """boto3: `download_fileobj` by 32 threads in parts of 8 MiB, then isal and pyarrow; small objects by 32 threads."""
    from concurrent.futures import ThreadPoolExecutor

    from boto3.s3.transfer import TransferConfig
    from isal import igzip

    client, (bucket, key) = boto3_client(), bucket_and_key(url)
    config = TransferConfig(max_concurrency=THREADS, multipart_chunksize=8 << 20, multipart_threshold=8 << 20)

    def body(name: str) -> bytes:
        answer: bytes = client.get_object(Bucket=bucket, Key=name)["Body"].read()
        return answer

    def read() -> int:
        if shape == "small":
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key)
            names = [each["Key"] for page in pages for each in page["Contents"]]
            with ThreadPoolExecutor(THREADS) as pool:
                return _parsed(io.BytesIO(b"".join(pool.map(body, names))), shape)
        data = io.BytesIO()
        client.download_fileobj(bucket, key, data, Config=config)
        if shape == "jsonl-gz":
            data = io.BytesIO(igzip.decompress(data.getvalue()))
        data.seek(0)
        return _parsed(data, shape)

    return read


def smart_open(shape: str, url: str) -> Read:
    """smart_open: the object as a file, into pyarrow; small objects one after the other."""
    from isal import igzip
    from smart_open import open as open_any

    client, (bucket, key) = boto3_client(), bucket_and_key(url)
    params = {"client": client}

    def texts() -> Iterator[bytes]:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key)
        for page in pages:
            for each in page["Contents"]:
                with open_any(f"s3://{bucket}/{each['Key']}", "rb", transport_params=params) as file:
                    yield file.read()

    def read() -> int:
        if shape == "small":
            return _parsed(io.BytesIO(b"".join(texts())), shape)
        with open_any(url, "rb", compression="disable", transport_params=params) as file:
            return _parsed(igzip.GzipFile(fileobj=file) if shape == "jsonl-gz" else file, shape)

    return read


def limit(shape: str, url: str) -> Read:
    """limit: as many answers of S3 as must come one after the other, then pyarrow, of bytes that are in memory."""
    client, (bucket, key) = boto3_client(), bucket_and_key(url)
    data = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    answers = 2 if _format(shape) == "parquet" else 1  # the footer, then the chunks; or the ranges of a text

    def read() -> int:
        for _ in range(answers):
            client.head_object(Bucket=bucket, Key=key)
        return _parsed(pa.BufferReader(data), shape)

    return read


READERS = {
    "singer_arrow": ours,
    "pyarrow": pyarrow,
    "pyarrow.dataset": pyarrow_dataset,
    "polars": polars,
    "boto3": boto3,
    "smart_open": smart_open,
    "limit": limit,
}


def _parsed(file: Any, shape: str) -> int:
    import pyarrow.csv as pc
    import pyarrow.json as pj
    import pyarrow.parquet as pq

    if shape == "schema":
        return len(pq.read_schema(file))
    if _format(shape) == "parquet":
        columns = list(COLUMNS) if shape == "columns" else None
        return int(pq.read_table(file, columns=columns, pre_buffer=False).num_rows)
    if shape == "csv":
        types = pc.ConvertOptions(column_types=_schema())
        return int(pc.read_csv(file, pc.ReadOptions(block_size=BLOCK), convert_options=types).num_rows)
    return int(pj.read_json(file, pj.ReadOptions(block_size=BLOCK), _json_options()).num_rows)


def _format(shape: str) -> str:
    return {"csv": "csv", "jsonl-gz": "jsonl", "small": "jsonl"}.get(shape, "parquet")


def _schema() -> pa.Schema:
    return taxi.trips(1, 0).schema


def _json_options() -> Any:
    import pyarrow.json as pj

    return pj.ParseOptions(explicit_schema=_schema(), unexpected_field_behavior="ignore")


def pyarrow_files() -> Any:
    """pyarrow's S3, with a connection."""
    from pyarrow import fs

    pa.set_io_thread_count(THREADS)
    files = fs.S3FileSystem(
        endpoint_override=os.environ["AWS_ENDPOINT_URL"],
        access_key=os.environ["AWS_ACCESS_KEY_ID"],
        secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region=os.environ["AWS_REGION"],
    )
    files.get_file_info("bench/none")
    return files


def boto3_client(endpoint: str | None = None) -> Any:
    """boto3's client, with a connection; of the environment's endpoint by default."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError

    client = boto3.client(
        "s3", endpoint_url=endpoint, config=Config(max_pool_connections=THREADS, s3={"addressing_style": "path"})
    )
    with suppress(ClientError):
        client.head_object(Bucket="bench", Key="none")
    return client


def bucket_and_key(url: str) -> tuple[str, str]:
    """What an s3:// URL names."""
    parts = urlsplit(url)
    return parts.netloc, parts.path.lstrip("/")


def main() -> None:
    """Read once, and print rows and seconds."""
    reader, shape, url = sys.argv[1:]
    read = READERS[reader](shape, url)
    before, clock = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    rows = read()
    seconds, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    json.dump({"rows": rows, "read_s": seconds, "read_cpu_s": cpu}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # threads of libraries that still hold a file of Python's would end the process badly


if __name__ == "__main__":
    main()
