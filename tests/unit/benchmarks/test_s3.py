"""The S3 proxy with latency: requests and answers pass unchanged, and are counted."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from benchmarks.case import Contender
from benchmarks.harness import Command, measure
from benchmarks.s3 import LocalS3, counted, serving_s3

from local_cloud.loopback import LoopbackServer
from local_cloud.process import Service

BODY = bytes(range(256)) * 20_000


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalS3]:
    """Start moto, used on machines without Go; building versitygw takes minutes."""
    data = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(data))
        with serving_s3(0, data=data, log=lambda _: None) as running:
            yield running
    assert not list(data.iterdir())


def far_client(s3: LocalS3) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        aws_access_key_id=s3.env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=s3.env["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
    )


def test_objects_pass_unchanged_and_are_counted(s3: LocalS3) -> None:
    client = far_client(s3)
    s3.shape(latency_ms=0)
    client.put_object(Bucket=s3.bucket, Key="there/and back", Body=BODY)
    found = client.get_object(Bucket=s3.bucket, Key="there/and back")["Body"].read()
    part = client.get_object(Bucket=s3.bucket, Key="there/and back", Range="bytes=10-19")["Body"].read()
    client.head_object(Bucket=s3.bucket, Key="there/and back")

    asked = s3.counters()
    assert (found, part) == (BODY, BODY[10:20])
    assert s3.cpu_seconds() > 0
    assert asked.requests == {"PUT": 1, "GET": 2, "HEAD": 1}
    assert asked.bytes_down == len(BODY) + 10
    assert asked.bytes_up >= len(BODY)  # with the checksums of chunks


def test_what_a_contender_asks_is_among_its_facts(s3: LocalS3, tmp_path: Path) -> None:
    url = s3.upload(Path(__file__), "this.py")
    signed = far_client(s3).generate_presigned_url("get_object", Params={"Bucket": s3.bucket, "Key": "this.py"})
    script = "import sys, urllib.request as u; print(len(u.urlopen(sys.argv[1]).read()))"
    reading = Contender(
        "reads",
        "",
        lambda _: [Command([sys.executable, "-c", script, signed], s3.env)],
        lambda _, measured: {"bytes": int(measured.stdout.read_text())},
    )
    contender = counted(s3, reading, latency_ms=1)
    facts = contender.facts(tmp_path, measure(contender.commands(tmp_path), tmp_path))

    size = Path(__file__).stat().st_size
    assert url == "s3://bench/this.py"
    assert (facts["bytes"], facts["requests"], facts["gets"], facts["mb_down"]) == (size, 1, 1, size / 1e6)


class Upstream(BaseHTTPRequestHandler):
    """Answers with the digest of the request, in chunks, after an interim answer if one is requested."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (hashlib.sha256(content).hexdigest().encode(), b"-" * 100_000):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the test closes connections on purpose
            self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def near(tmp_path: Path) -> Iterator[str]:
    """Return host:port of the proxy in front of that server."""
    upstream = LoopbackServer(Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    command = [sys.executable, "-m", "benchmarks.services.latency", f"127.0.0.1:{upstream.server_port}"]
    service = Service("latency", command, log=tmp_path / "log")
    yield urlsplit(str(service.facts["url"])).netloc
    service.stop()
    upstream.shutdown()
    upstream.server_close()
    assert (tmp_path / "log").read_text() == ""


def test_chunks_pass_both_ways_on_one_connection(near: str) -> None:
    parts = [b"a" * 70_000, b"b", b"c" * 3_000_000]
    connection = http.client.HTTPConnection(near)
    for body in (parts, b"".join(parts)) * 2:
        connection.request("PUT", "/", body)
        answer = connection.getresponse().read()
        assert answer == hashlib.sha256(b"".join(parts)).hexdigest().encode() + b"-" * 100_000
    connection.request("GET", "/__shape__")
    counted = json.loads(connection.getresponse().read())
    connection.close()

    size = sum(map(len, parts))
    assert counted == {
        "requests": {"PUT": 4},
        "bytes_up": 4 * size,
        "bytes_down": 4 * (100_000 + 64),
        "connections": 1,
    }


def test_connections_at_once_are_all_counted(near: str) -> None:
    def exchange(_: int) -> bytes:
        connection = http.client.HTTPConnection(near)
        connection.request("PUT", "/", BODY)
        connection.getresponse().read()
        connection.request("GET", "/")
        body = connection.getresponse().read()
        connection.close()
        return body

    with ThreadPoolExecutor(8) as pool:
        assert all(body == BODY for body in pool.map(exchange, range(24)))
    connection = http.client.HTTPConnection(near)
    connection.request("GET", "/__shape__")
    counted = json.loads(connection.getresponse().read())
    connection.close()

    assert counted == {
        "requests": {"PUT": 24, "GET": 24},
        "bytes_up": 24 * len(BODY),
        "bytes_down": 24 * (len(BODY) + 100_064),
        "connections": 25,
    }


def test_answers_wait_and_connections_have_a_rate(near: str) -> None:
    connection = http.client.HTTPConnection(near)
    shape = {"latency_ms": 40, "rate_mb_s": 50}
    connection.request("PUT", "/__shape__", json.dumps(shape))
    connection.getresponse().read()
    started = time.monotonic()
    connection.request("GET", "/")
    answer = connection.getresponse()
    first = time.monotonic()
    body = answer.read()
    done = time.monotonic()
    connection.close()

    assert body == BODY
    assert first - started >= 0.04
    assert done - started >= 0.04 + (len(BODY) - 200_000) / 50e6  # buffered bytes are sent at once


def test_a_client_that_disconnects_does_not_disturb_others(near: str) -> None:
    for _ in range(3):
        leaving = http.client.HTTPConnection(near)
        leaving.request("GET", "/")
        leaving.getresponse().read(10)
        leaving.sock.close()
    connection = http.client.HTTPConnection(near)
    connection.request("GET", "/")
    assert connection.getresponse().read() == BODY
    connection.close()
