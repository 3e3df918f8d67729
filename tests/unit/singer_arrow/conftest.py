"""Objects on local disk, read through a storage that records requests; and a service that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import S3Store

from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Fetched, Url


class RecordingStorage(Storage):
    """Storage that records its requests, and answers each after `delay` seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int | None, int | None, int | None]] = []
        self.pinned: list[bool] = []
        self.delay = 0.0

    def get(self, url: Url, **options: Any) -> Fetched:
        self.asked.append((options.get("start"), options.get("end"), options.get("suffix")))
        self.pinned.append(options.get("version_of") is not None)
        time.sleep(self.delay)
        return super().get(url, **options)


class Objects:
    """Writes and reads objects."""

    def __init__(self, folder: Path) -> None:
        self.storage = RecordingStorage()
        self._root = Url.parse(str(folder))

    def url(self, name: str) -> Url:
        return self._root.join(name)

    def write(self, data: bytes, name: str = "object") -> Url:
        self.storage.put(self.url(name), data)
        return self.url(name)

    def reader(self, data: bytes, name: str = "object", *, listed: bool = False, **more: Any) -> ObjectReader:
        """Return a reader of an object of these bytes; with `listed`, it has the metadata of a listing."""
        url = self.write(data, name)
        self.storage.asked.clear()
        self.storage.pinned.clear()
        info = self.storage.head(url) if listed else None
        return ObjectReader(self.storage, url, info=info, **{"budget": Budget(), **more})

    def infer(self, data: bytes, name: str, *, sample_bytes: int = 1 << 20, **options: Any) -> pa.Schema:
        return _format(name).infer(self.reader(data, name), ReadOptions(**options), sample_bytes=sample_bytes)

    def read(self, data: bytes, name: str, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
        """Return the object's rows, in the schema given or inferred; each batch is checked."""
        schema = self.infer(data, name, **options) if schema is None else schema
        batches = list(_format(name).read(self.reader(data, name), schema, ReadOptions(**options)))
        for batch in batches:
            batch.validate(full=True)
            assert batch.schema.equals(schema, check_metadata=True)
        return pa.Table.from_batches(batches, schema)


def _format(name: str) -> Any:
    return FORMATS[next(f for f in FORMATS if f".{f}" in name)]


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    return Objects(tmp_path_factory.mktemp("objects"))


@pytest.fixture
def answering() -> Iterator[tuple[list[tuple[int, str]], S3Store]]:
    """A store that returns given answers in order."""
    answers = list[tuple[int, str]]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Last-Modified", "Wed, 01 May 2024 00:00:00 GMT")
            self.send_header("ETag", '"e"')
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield (
            answers,
            S3Store(
                "bucket",
                config={"endpoint": f"http://127.0.0.1:{server.server_port}", "region": "r", "skip_signature": True},
                client_options={"allow_http": True},
                retry_config={"max_retries": 0},
            ),
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
