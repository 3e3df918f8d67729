"""Use the SDK after an import without its optional libraries; prints nothing if all works."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from singer_arrow.sdk.cli import DEFERRED, import_sdk

HEAVY = [*DEFERRED, "fsspec", "psutil", "jsonpath_ng", "asyncio", "multiprocessing", "http.client", "ssl"]

before = [name for name in HEAVY if name in sys.modules]
import_sdk()
assert [name for name in HEAVY if name in sys.modules] == before, [n for n in HEAVY if n in sys.modules]

import requests  # noqa: E402
import singer_sdk.streams.rest  # noqa: E402
from singer_sdk import BatchSink, RESTStream, Tap, Target  # noqa: E402
from singer_sdk import typing as th  # noqa: E402
from singer_sdk.authenticators import BearerTokenAuthenticator  # noqa: E402
from singer_sdk.helpers._batch import StorageTarget  # noqa: E402
from singer_sdk.pagination import JSONPathPaginator  # noqa: E402

assert sys.modules["requests"] is requests
assert singer_sdk.streams.rest.requests.Session is requests.Session
assert singer_sdk.streams.rest.requests.exceptions.Timeout is requests.exceptions.Timeout

PAGES = {"/rows": {"rows": [{"id": 1}], "next": "2"}, "/rows?page=2": {"rows": [{"id": 2}], "next": None}}


class Handler(BaseHTTPRequestHandler):
    """An HTTP service of two pages that is busy at first."""

    busy = True

    def do_GET(self) -> None:
        """Answer a request."""
        assert self.headers["Authorization"] == "Bearer secret"
        if Handler.busy:
            Handler.busy = False
            self.send_error(503)
            return
        body = json.dumps(PAGES[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def rows_of_rest(url: str) -> Iterator[dict[str, Any]]:
    """Return the rows of an SDK stream over HTTP, with session, paginator, retries and authenticator."""

    class Rows(RESTStream[str]):
        name, path, url_base = "rows", "/rows", url
        records_jsonpath = "$.rows[*]"
        schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()
        authenticator = property(lambda _: BearerTokenAuthenticator(token="secret"))  # type: ignore[assignment]

        def get_new_paginator(self) -> JSONPathPaginator:
            return JSONPathPaginator("$.next")

        def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
            return {"page": next_page_token} if next_page_token else {}

        def backoff_wait_generator(self) -> Iterator[float]:  # type: ignore[override]
            while True:
                yield 0.0

        def backoff_jitter(self, value: float) -> float:
            return value

    class Service(Tap):
        name = "tap-service"
        config_jsonschema = th.PropertiesList().to_dict()

        def discover_streams(self) -> list[RESTStream[str]]:
            return [Rows(self)]

    yield from Service(config={}).streams["rows"].get_records(None)
    assert not Handler.busy


class Sink(BatchSink):
    """Counts its records."""

    seen: list[str] = []  # noqa: RUF012 - of all

    def process_batch(self, context: dict[str, Any]) -> None:
        """Record the stream's name."""
        Sink.seen.append(self.stream_name)


class Counting(Target):
    """A target that drains its sinks in parallel."""

    name, default_sink_class = "target-counting", Sink
    config_jsonschema = th.PropertiesList().to_dict()
    max_parallelism = 2


server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert [row["id"] for row in rows_of_rest(f"http://127.0.0.1:{server.server_port}")] == [1, 2]
server.shutdown()
server.server_close()

root = Path(sys.argv[1])
storage = StorageTarget(root.as_uri())
with storage.open("batch.jsonl", "wb") as file:
    file.write(b"{}\n")
assert (root / "batch.jsonl").read_bytes() == b"{}\n"
head, tail = StorageTarget.split_url(f"{root.as_uri()}/batch.jsonl")
with StorageTarget.from_url(head).open(tail, "rb") as file:
    assert file.read() == b"{}\n"

lines = [
    {"type": kind, "stream": stream, **more}
    for stream in ("a", "b")
    for kind, more in (
        ("SCHEMA", {"schema": {"properties": {"id": {"type": "integer"}}}, "key_properties": []}),
        ("RECORD", {"record": {"id": 1}}),
    )
]
(root / "messages").write_text("".join(json.dumps(line) + "\n" for line in lines))
with (root / "messages").open() as messages:
    Counting(config={}).listen(messages)
assert sorted(Sink.seen) == ["a", "b"]
assert "joblib" in sys.modules
