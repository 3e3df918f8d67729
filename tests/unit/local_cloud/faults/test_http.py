"""Errors in the format of the requested service, and bodies of every kind."""

import asyncio
import json

import pytest

from local_cloud.faults import http


def head(text: str) -> http.Head:
    async def read() -> http.Head:
        reader = asyncio.StreamReader()
        reader.feed_data(text.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        return await http.read_head(reader)

    return asyncio.run(read())


def body(of: http.Head, sent: bytes, *, is_request: bool = False) -> list[tuple[bytes, int]]:
    async def read() -> list[tuple[bytes, int]]:
        reader = asyncio.StreamReader()
        reader.feed_data(sent)
        reader.feed_eof()
        return [piece async for piece in http.read_body(reader, of, is_request=is_request)]

    return asyncio.run(read())


def test_a_head() -> None:
    request = head("GET /b/a%20b?x=1 HTTP/1.1\nHost: h\nContent-Length: 12")
    assert request.first_line == ("GET", "/b/a%20b?x=1", "HTTP/1.1")
    assert (request.length, request.chunked) == (12, False)
    assert head("HTTP/1.1 503 Slow Down\nTransfer-Encoding: chunked").first_line == ("HTTP/1.1", "503", "Slow Down")


def test_bodies_are_passed_on_as_they_are() -> None:
    chunked = b"5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nTrailer: z\r\n\r\n"
    pieces = body(head("HTTP/1.1 200 OK\nTransfer-Encoding: chunked"), chunked)
    assert b"".join(data for data, _ in pieces) == chunked
    assert sum(size for _, size in pieces) == 6
    assert body(head("HTTP/1.1 200 OK\nContent-Length: 3"), b"abcdef") == [(b"abc", 3)]
    assert body(head("HTTP/1.1 200 OK"), b"until the end") == [(b"until the end", 13)]
    assert body(head("GET / HTTP/1.1"), b"GET / again", is_request=True) == []


def test_a_body_that_ends_too_early() -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        body(head("HTTP/1.1 200 OK\nContent-Length: 9"), b"abc")


def test_errors_of_each_service() -> None:
    s3 = http.error(head("GET /b/k HTTP/1.1"), 503, "SlowDown", "a < b")
    assert s3.startswith(b"HTTP/1.1 503 ")
    assert s3.endswith(b"<Error><Code>SlowDown</Code><Message>a &lt; b</Message></Error>")
    assert http.error(head("HEAD /b/k HTTP/1.1"), 503, "SlowDown", "").endswith(b"\r\n\r\n")
    bigquery = http.error(head("GET /bigquery/v2/projects/p/jobs/j HTTP/1.1"), 403, "quotaExceeded", "too many")
    assert json.loads(bigquery.partition(b"\r\n\r\n")[2])["error"]["errors"][0]["reason"] == "quotaExceeded"
    sqs = http.error(head("POST / HTTP/1.1\nX-Amz-Target: AmazonSQS.ReceiveMessage"), 403, "AccessDenied", "no")
    assert json.loads(sqs.partition(b"\r\n\r\n")[2]) == {"__type": "AccessDenied", "message": "no"}
