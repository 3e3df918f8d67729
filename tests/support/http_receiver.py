"""A server of HTTP on this machine that keeps what it receives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Received:
    """A request."""

    method: str
    path: str
    body: bytes
    authorization: str


class Receiver:
    """What was received; `status` is the answer, with `text` to a GET."""

    def __init__(self) -> None:
        self.requests, self.status, self.port, self.text = list[Received](), 200, 0, ""

    def take(self) -> list[Received]:
        """Return what was received since the last call."""
        taken, self.requests = self.requests, []
        return taken


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Have a server in a block."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        """Keeps each request."""

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.requests.append(Received(self.command, self.path, body, self.headers.get("Authorization", "")))
            answer = found.text.encode() if self.command == "GET" else b""
            self.send_response(found.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = answer  # noqa: N815 - the names of http.server

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
