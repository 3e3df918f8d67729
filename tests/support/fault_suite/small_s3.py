"""S3 and SQS servers in this process, with chosen times of change and faults at chosen requests.

There is one bucket and one queue. Their contents can be copied and restored, so that many cases share their first
steps.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import md5
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any
from urllib.parse import parse_qs, quote_plus, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET, QUEUE = "lake", "events"
PAGE = 4
"""Entries per page of a listing: few, so that most listings have several pages."""
_STALLED_S = 5.0
_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored object."""

    data: bytes
    modified: datetime
    etag: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A message of the queue.

    Attributes:
        receipt: The receipt of its last delivery.
        is_held: Whether it is invisible.
    """

    body: str
    receipt: str = ""
    is_held: bool = False


@dataclass
class Contents:
    """The contents of bucket and queue."""

    objects: dict[str, Stored] = field(default_factory=dict)
    messages: dict[str, Sent] = field(default_factory=dict)

    def copy(self) -> Contents:
        """Return a copy; the values themselves are immutable."""
        return Contents(dict(self.objects), dict(self.messages))


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed request."""

    method: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def action(self) -> str:
        """The operation that is requested, as one word."""
        if "x-amz-target" in self.headers:
            return self.headers["x-amz-target"].partition(".")[2]
        if self.method == "GET" and not self.key:
            return "list"
        if self.method == "PUT" and "if-none-match" in self.headers:
            return "create"
        return self.method.lower()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: status, body and headers."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def head(self) -> bytes:
        """The bytes before the body."""
        lines = [f"HTTP/1.1 {self.status} {'Error' if self.status >= 400 else 'OK'}"]
        lines += [f"{name}: {text}" for name, text in {"Content-Length": len(self.body), **self.headers}.items()]
        return "\r\n".join([*lines, "", ""]).encode()


@dataclass(frozen=True)
class Faults:
    """Selects the requests that get a fault: every nth, with alternating kinds.

    A kind is skipped for requests that it does not apply to. With `lasting`, all requests from the nth on get the first
    kind.
    """

    first: int
    stride: int
    kinds: tuple[str, ...]
    lasting: bool = False

    def at(self, number: int, request: Request) -> str:
        """Return the kind of fault for a request; empty if none."""
        if number < self.first or (not self.lasting and (number - self.first) % self.stride):
            return ""
        turn = 0 if self.lasting else (number - self.first) // self.stride
        fits = [kind for kind in self.kinds if request.action in FITS.get(kind, (request.action,))]
        return fits[turn % len(fits)] if fits else ""


FITS: Mapping[str, Sequence[str]] = {
    "error within 200": ("list",),
    "page without token": ("list",),
    "409": ("create",),
}
"""Kinds that apply only to some requests."""
NO_FAULTS = Faults(0, 1, ())


class SmallS3:
    """A running server, which answers in threads of this process until `stop`.

    Attributes:
        contents: Contents of bucket and queue.
        requests: Number of requests since `expect`.
        came: Number of injected faults by kind since `expect`.
    """

    def __init__(self) -> None:
        self.contents = Contents()
        self.lock = threading.RLock()
        self.expect(NO_FAULTS)
        self._receipts = 0
        handler = type("Handler", (_Connection,), {"service": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()

    def drain(self) -> None:
        """Wait until every request of processes that have ended is answered: a killed one may just have sent some."""
        with socket.create_connection(("127.0.0.1", self._server.server_address[1])) as last:
            last.shutdown(socket.SHUT_WR)
            last.recv(1)  # closed by the server, so all earlier connections have been accepted
        end = time.monotonic() + _STALLED_S
        while self._server.open and time.monotonic() < end:
            time.sleep(0.001)

    def expect(self, faults: Faults) -> None:
        """Reset the counters and set the faults of the requests that follow."""
        with self.lock:
            self.faults, self.requests, self.came = faults, 0, Counter[str]()

    def fault_at(self, request: Request) -> str:
        """Return the fault of the next request, and count it."""
        with self.lock:
            kind = self.faults.at(self.requests, request)
            self.requests += 1
            if kind:
                self.came[kind] += 1
            return kind

    def answer(self, request: Request, kind: str) -> Answer:
        """Execute a request."""
        if kind == "503":
            return _error(503, "SlowDown")
        if kind == "409":
            return _error(409, "ConditionalRequestConflict")
        if kind == "visibility lost":
            self.show_all()
        if kind == "error within 200":
            return Answer(200, f"{_XML}<Error><Code>InternalError</Code><Message>none</Message></Error>".encode())
        with self.lock:
            if "x-amz-target" in request.headers:
                return self._queue(request.action, json.loads(request.body))
            if request.action == "list":
                return self._list(request.query, is_cut=kind == "page without token")
            act = {"GET": self._get, "HEAD": self._get, "PUT": self._put, "DELETE": self._delete, "POST": self._delete}
            return act[request.method](request)

    def _list(self, query: Mapping[str, str], *, is_cut: bool) -> Answer:
        after = query.get("continuation-token", query.get("start-after", ""))
        found = self.contents.objects
        keys = sorted(key for key in found if key.startswith(query.get("prefix", "")) and key > after)
        page = keys[:PAGE]
        is_more = len(keys) > PAGE
        if is_cut:
            page, is_more = keys[: PAGE // 2], True
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if is_more and not is_cut else ""
        body = (
            f'{_XML}<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{BUCKET}</Name>'
            f"<EncodingType>url</EncodingType><KeyCount>{len(page)}</KeyCount><MaxKeys>{PAGE}</MaxKeys>"
            f"<IsTruncated>{str(is_more).lower()}</IsTruncated>{token}{''.join(_entry(k, found[k]) for k in page)}"
            "</ListBucketResult>"
        )
        return Answer(200, body.encode(), {"Content-Type": "application/xml"})

    def _get(self, request: Request) -> Answer:
        stored = self.contents.objects.get(request.key)
        if stored is None:
            return _error(404, "NoSuchKey" if request.key else "NoSuchBucket")
        if request.headers.get("if-match", stored.etag) != stored.etag:
            return _error(412, "PreconditionFailed")
        data = stored.data
        headers = {"ETag": stored.etag, "Last-Modified": f"{stored.modified:%a, %d %b %Y %H:%M:%S} GMT"}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
        if asked is None:
            return Answer(200, data, headers)
        first = int(asked[1]) if asked[1] else max(0, len(data) - int(asked[2]))
        last = min(len(data), int(asked[2]) + 1) if asked[1] and asked[2] else len(data)
        if first >= len(data):
            return _error(416, "InvalidRange")
        return Answer(206, data[first:last], headers | {"Content-Range": f"bytes {first}-{last - 1}/{len(data)}"})

    def _put(self, request: Request) -> Answer:
        if "if-none-match" in request.headers and request.key in self.contents.objects:
            return _error(412, "PreconditionFailed")
        return Answer(200, headers={"ETag": self.put(request.key, request.body, datetime.now(UTC))})

    def put(self, key: str, data: bytes, modified: datetime) -> str:
        """Store an object, and return its ETag."""
        etag = f'"{md5(data, usedforsecurity=False).hexdigest()}"'
        with self.lock:
            self.contents.objects[key] = Stored(data, modified.replace(microsecond=0), etag)
        return etag

    def _delete(self, request: Request) -> Answer:
        keys = [request.key] if request.key else re.findall(r"<Key>(.*?)</Key>", request.body.decode())
        for key in keys:
            self.contents.objects.pop(unquote(key), None)
        if request.key:
            return Answer(204)
        done = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        space = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
        return Answer(200, f"{_XML}<DeleteResult {space}>{done}</DeleteResult>".encode())

    def send(self, body: str) -> None:
        """Send a message to the queue."""
        with self.lock:
            self.contents.messages[f"m{len(self.contents.messages)}-{self._receipt()}"] = Sent(body)

    def show_all(self) -> None:
        """Make all messages visible again, as after their timeout; earlier receipts become invalid."""
        with self.lock:
            for name, message in self.contents.messages.items():
                self.contents.messages[name] = replace(message, is_held=False, receipt="")

    def _receipt(self) -> str:
        self._receipts += 1
        return f"r{self._receipts}"

    def _queue(self, action: str, asked: Mapping[str, Any]) -> Answer:
        """Answer a queue request, at once even for long polling: no message is sent meanwhile."""
        messages = self.contents.messages
        if action == "ReceiveMessage":
            free = [name for name, m in messages.items() if not m.is_held][: asked.get("MaxNumberOfMessages", 1)]
            for name in free:
                messages[name] = replace(messages[name], is_held=True, receipt=self._receipt())
            return _json({"Messages": [_received(name, messages[name]) for name in free]} if free else {})
        if action == "GetQueueAttributes":
            held = sum(m.is_held for m in messages.values())
            facts = {"Messages": len(messages) - held, "MessagesNotVisible": held}
            return _json({"Attributes": {f"ApproximateNumberOf{name}": str(count) for name, count in facts.items()}})
        done = [entry["Id"] for entry in asked["Entries"] if self._change(action, entry)]
        failed = [
            {"Id": entry["Id"], "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}
            for entry in asked["Entries"]
            if entry["Id"] not in done
        ]
        return _json({"Successful": [{"Id": name} for name in done], "Failed": failed})

    def _change(self, action: str, entry: Mapping[str, Any]) -> bool:
        """Delete a message or change its visibility; return whether the receipt was the latest one."""
        messages = self.contents.messages
        name = next((n for n, m in messages.items() if m.receipt and m.receipt == entry["ReceiptHandle"]), None)
        if name is None:
            return False
        if action == "DeleteMessageBatch":
            del messages[name]
        else:
            messages[name] = replace(messages[name], is_held=entry["VisibilityTimeout"] > 0)
        return True


class _Server(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    block_on_close = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.open = set[int]()
        """Connections that are accepted and not closed."""

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection in a thread of its own."""
        self.open.add(id(request))
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        super().shutdown_request(request)
        self.open.discard(id(request))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that clients closed, such as killed ones."""
        import sys

        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Connection(StreamRequestHandler):
    """A connection of one client."""

    service: SmallS3
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Answer requests until either side closes the connection."""
        while (request := self._request()) is not None:
            kind = self.service.fault_at(request)
            if kind == "reset":
                return self._reset()
            answer = self.service.answer(request, kind)
            if kind == "answer lost":
                return self._reset()
            if kind in ("stalled", "truncated", "timed out"):
                return self._part(answer, kind)
            self.connection.sendall(answer.head() + (b"" if request.method == "HEAD" else answer.body))
        return None

    def _request(self) -> Request | None:
        first = self.rfile.readline().decode("latin-1").split()
        if not first:
            return None
        headers = {}
        while line := self.rfile.readline().decode("latin-1").strip():
            name, _, text = line.partition(":")
            headers[name.lower()] = text.strip()
        size = int(headers.get("content-length", 0))
        body = self.rfile.read(size)
        if len(body) < size:
            return None  # the client was killed meanwhile
        url = urlsplit(first[1])
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        return Request(first[0], unquote(url.path.lstrip("/")).partition("/")[2], query, headers, body)

    def _part(self, answer: Answer, kind: str) -> None:
        whole = answer.head() + answer.body
        sent = 0 if kind == "timed out" else len(answer.head() + answer.body[: len(answer.body) // 2])
        self.connection.sendall(whole[: sent if answer.body else sent // 2])
        if kind != "truncated":
            self.connection.settimeout(_STALLED_S)
            self.connection.recv(1)  # until the client closes the connection

    def _reset(self) -> None:
        """Close the connection with RST."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def _entry(key: str, stored: Stored) -> str:
    return (
        f"<Contents><Key>{quote_plus(key, safe='/')}</Key><LastModified>{stored.modified:%Y-%m-%dT%H:%M:%S.000Z}"
        f"</LastModified><ETag>{escape(stored.etag)}</ETag><Size>{len(stored.data)}</Size></Contents>"
    )


def _error(status: int, code: str) -> Answer:
    text = f"{_XML}<Error><Code>{code}</Code><Message>An answer of the fault suite.</Message></Error>"
    return Answer(status, text.encode(), {"Content-Type": "application/xml"})


def _json(value: Mapping[str, Any]) -> Answer:
    return Answer(200, json.dumps(value).encode(), {"Content-Type": "application/x-amz-json-1.0"})


def _received(name: str, message: Sent) -> dict[str, Any]:
    digest = md5(message.body.encode(), usedforsecurity=False).hexdigest()
    facts = {"SentTimestamp": "1700000000000"}
    return {
        "MessageId": name,
        "ReceiptHandle": message.receipt,
        "Body": message.body,
        "MD5OfBody": digest,
        "Attributes": facts,
    }
