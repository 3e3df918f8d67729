"""S3 endpoints that redirect: nothing goes to the other host, and nothing of it is read."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from local_cloud.programs import Programs
from singer_arrow.errors import ConfigError
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

OBJECT = Url.parse("s3://data/in/a.csv")
ROWS = b"id,v\n1,a\n2,b\n"
LISTING = b"""<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>data</Name>
<KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents><Key>in/a.csv</Key><LastModified>2024-01-01T00:00:00.000Z
</LastModified><ETag>"abc"</ETag><Size>13</Size></Contents></ListBucketResult>""".replace(b"\n", b"")
SECRET = base64.b64encode(b"0123456789abcdef" * 2).decode()


class Server(ThreadingHTTPServer):
    """An endpoint with one object; `redirects` says which requests go to `other`, and `requests` has all paths."""

    daemon_threads = True

    def __init__(self, redirects: Callable[[str], bool] = lambda _: False, other: str = "", status: int = 307) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.redirects, self.other, self.status, self.requests = redirects, other, status, list[str]()
        self.more: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.requests.append(f"{self.command} {self.path}")
        if self.server.redirects(self.path):
            location = {"location": self.server.other + self.path} if self.server.other else {}
            self.send(self.server.status, b"", location | self.server.more)
        elif "list-type" in self.path:
            self.send(200, LISTING, {})
        else:
            self.send(200, ROWS, {"etag": '"abc"', "last-modified": "Mon, 01 Jan 2024 00:00:00 GMT"})

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - the names of the library

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def storage(server: Server, **more: Any) -> Storage:
    keys = {"access_key_id": "AKIA", "secret_access_key": "SECRET", "session_token": "TOKEN", "region": "eu-west-1"}
    return Storage(AwsOptions(**keys, endpoint_url=server.url, **more))


USES: dict[str, Callable[[Storage], object]] = {
    "list": lambda storage: list(storage.list(Url.parse("s3://data/in/"))),
    "folders": lambda storage: storage.folders(Url.parse("s3://data/")),
    "get": lambda storage: storage.get(OBJECT),
    "part": lambda storage: storage.get(OBJECT, start=2, end=5),
    "unusual key": lambda storage: storage.get(Url("s3", "data", "in//a.csv")),
    "head": lambda storage: storage.head(OBJECT),
    "read": lambda storage: storage.read(OBJECT),
    "put": lambda storage: storage.put(OBJECT, b"x"),
    "replace": lambda storage: storage.replace(OBJECT, b"x", None),
    "delete": lambda storage: storage.delete([OBJECT]),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(use: str, status: int) -> None:
    with serving(Server()) as other, serving(Server(lambda _: True, other.url, status)) as first:
        with pytest.raises(ConfigError) as found:
            USES[use](storage(first, sse_customer_key=SECRET))
        assert str(found.value) == (
            f"The S3 endpoint {first.url} redirects to {other.url} (status {status}), which is not followed; set "
            "aws.endpoint_url (AWS_ENDPOINT_URL) to the right address, or leave it out"
        )
        assert other.requests == []
        assert len(first.requests) == 1


def test_a_redirect_with_a_region_names_it() -> None:
    with serving(Server(lambda _: True, status=301)) as server:
        server.more = {"x-amz-bucket-region": "ap-south-1"}
        for use in (USES["list"], USES["get"]):
            with pytest.raises(ConfigError, match=r"\(status 301\).*leave it out \(the bucket is in ap-south-1\)"):
                use(storage(server))


def test_an_endpoint_is_asked_once_for_each_bucket() -> None:
    with serving(Server()) as server:
        opened = storage(server)
        for _ in range(3):
            assert opened.get(OBJECT).data == ROWS
            opened.head(OBJECT)
        assert len(server.requests) == 1 + 6


@pytest.mark.parametrize("scope", ["all", "objects"])
def test_no_row_of_another_host_is_sent(cold: Programs, scope: str) -> None:
    def redirects(path: str) -> bool:
        return scope == "all" or path.startswith("/data/in/")

    with serving(Server()) as other, serving(Server(redirects, other.url)) as first:
        config = {
            "streams": [{"name": "rows", "path": "s3://data/in/*.csv"}],
            "aws": {"endpoint_url": first.url, "sse_customer_key": SECRET, "session_token": "TOKEN"},
        }
        ran = cold("tap-s3-files", config=config, env={"AWS_ENDPOINT_URL": first.url})
        assert other.requests == []
    assert ran.code == 1
    assert not ran.of_type("RECORD", "BATCH")
    assert "redirects to" in ran.stderr.splitlines()[-1]
    assert not [secret for secret in ("Traceback", "TOKEN", SECRET) if secret in ran.stderr]
