"""The parts of HTTP/1.1 that a proxy needs to pass messages on."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request or an answer, with its original bytes."""

    raw: bytes
    first_line: tuple[str, str, str]
    headers: dict[str, str]

    @property
    def chunked(self) -> bool:
        """Whether the body is chunked."""
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    @property
    def length(self) -> int | None:
        """The length of the body from Content-Length, or None without one."""
        length = self.headers.get("content-length")
        return None if length is None else int(length)


async def read_head(reader: asyncio.StreamReader) -> Head:
    """Return the head of a message, or raise IncompleteReadError if the connection ends before the empty line."""
    raw = await reader.readuntil(b"\r\n\r\n")
    first, *lines = raw.decode("latin-1").split("\r\n")
    parts = (*first.split(" ", 2), "", "")
    pairs = (line.partition(":") for line in lines if line)
    return Head(raw, (parts[0], parts[1], parts[2]), {name.strip().lower(): value.strip() for name, _, value in pairs})


async def read_body(reader: asyncio.StreamReader, head: Head, *, is_request: bool) -> AsyncIterator[tuple[bytes, int]]:
    """Yield the body as on the wire, each piece with its bytes of content; IncompleteReadError if it ends too early."""
    if head.chunked:
        async for piece in _chunks(reader):
            yield piece
        return
    left = head.length
    if left is None:
        while not is_request and (data := await reader.read(CHUNK)):
            yield data, len(data)
        return
    while left:
        data = await reader.read(min(CHUNK, left))
        if not data:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(data)
        yield data, len(data)


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, int]]:
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        if size == 0:
            break
        yield line + await reader.readexactly(size + 2), size
    yield line, 0
    while True:
        trailer = await reader.readuntil(b"\r\n")
        yield trailer, 0
        if trailer == b"\r\n":
            return


def answer(status: int, content_type: str, body: bytes, *, close: bool) -> bytes:
    """Return a complete answer."""
    lines = [f"HTTP/1.1 {status} {'Error' if status >= 400 else 'OK'}", f"Content-Type: {content_type}"]
    lines += [f"Content-Length: {len(body)}", "x-amz-request-id: LOCALCLOUD", *(["Connection: close"] if close else [])]
    return "\r\n".join([*lines, "", ""]).encode() + body


def error(request: Head, status: int, code: str, message: str) -> bytes:
    """Return an error in the format of the service: JSON for BigQuery and SQS, XML for S3."""
    method, path, _ = request.first_line
    if path.startswith(("/bigquery/", "/upload/bigquery/", "/resumable/")):
        detail = {"reason": code, "message": message, "domain": "global"}
        document: dict[str, object] = {"error": {"code": status, "message": message, "errors": [detail]}}
        kind, body = "application/json; charset=UTF-8", json.dumps(document).encode()
    elif "x-amz-target" in request.headers:
        kind, body = "application/x-amz-json-1.0", json.dumps({"__type": code, "message": message}).encode()
    else:
        text = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
        kind, body = "application/xml", b'<?xml version="1.0" encoding="UTF-8"?>' + text.encode()
    if method == "HEAD":
        body = b""
    return answer(status, kind, body, close=True)
