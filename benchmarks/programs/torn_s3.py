"""Read an object while it is overwritten: `torn_s3 READER URL DIRECT_ENDPOINT READS`; prints how the readings ended.

The bytes of a version are all the same, and those of the next version are others. A reading with bytes of two versions
is torn; one that raises is not. polars reads no bytes as such, and is not among the readers.
"""

import io
import itertools
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.programs.read_s3 import boto3_client, bucket_and_key, pyarrow_files

SIZE = 24 << 20
PIECE = 4 << 20
PAUSE = 0.15
"""Seconds between two versions."""


def ours(url: str) -> Callable[[], bytes]:
    """singer_arrow's reader, of any version."""
    from singer_arrow.reading.objects import ObjectReader
    from singer_arrow.storage.store import Storage
    from singer_arrow.storage.urls import Url

    storage, at = Storage(), Url.parse(url)
    return lambda: b"".join(ObjectReader(storage, at).chunks())


def pyarrow(url: str) -> Callable[[], bytes]:
    """pyarrow's file, read in pieces of 4 MiB."""
    files, path = pyarrow_files(), url.removeprefix("s3://")

    def read() -> bytes:
        with files.open_input_file(path) as file:
            return b"".join(iter(lambda: file.read(PIECE), b""))

    return read


def boto3(url: str) -> Callable[[], bytes]:
    """boto3's `download_fileobj`."""
    client, (bucket, key) = boto3_client(), bucket_and_key(url)

    def read() -> bytes:
        data = io.BytesIO()
        client.download_fileobj(bucket, key, data)
        return data.getvalue()

    return read


def smart_open(url: str) -> Callable[[], bytes]:
    """smart_open's file, read from its end and from its start, as readers of Parquet do."""
    from smart_open import open as open_any

    client = boto3_client()

    def read() -> bytes:
        with open_any(url, "rb", transport_params={"client": client}) as file:
            file.seek(-PIECE, io.SEEK_END)
            tail: bytes = file.read()
            file.seek(0)
            head: bytes = file.read()
            return head + tail

    return read


READERS = {"singer_arrow": ours, "pyarrow": pyarrow, "boto3": boto3, "smart_open": smart_open}


def main() -> None:
    """Read so often, and count."""
    reader, url, direct, reads = sys.argv[1:]
    (bucket, key), stop = bucket_and_key(url), threading.Event()
    writer: Any = boto3_client(direct)

    def write(number: int) -> None:
        writer.put_object(Bucket=bucket, Key=key, Body=bytes([65 + number % 26]) * SIZE)

    def overwrite() -> None:
        for number in itertools.count(1):
            if stop.wait(PAUSE):
                return
            write(number)

    write(0)
    read, ends = READERS[reader](url), Counter(whole=0, torn=0, raised=0)
    thread = threading.Thread(target=overwrite)
    thread.start()
    try:
        for _ in range(int(reads)):
            ends[_end(read)] += 1
    finally:
        stop.set()
        thread.join()
    json.dump({"rows": int(reads), **ends}, sys.stdout)


def _end(read: Callable[[], bytes]) -> str:
    try:
        data = read()
    except Exception:  # noqa: BLE001 - each library has its own
        return "raised"
    return "whole" if data == data[:1] * len(data) else "torn"


if __name__ == "__main__":
    main()
