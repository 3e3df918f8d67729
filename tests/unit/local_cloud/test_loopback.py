"""The HTTP server of this process ignores disconnected clients, and logs other errors."""

from __future__ import annotations

import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler

import pytest

from local_cloud.loopback import LoopbackServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ended: threading.Event

    def handle(self) -> None:
        try:
            super().handle()
        finally:
            self.ended.set()

    def do_GET(self) -> None:
        if self.path == "/broken":
            raise ValueError("a mistake")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("path", "logged"), [("/", ""), ("/broken", "ValueError: a mistake")])
def test_errors_are_logged(path: str, logged: str, capsys: pytest.CaptureFixture[str]) -> None:
    ended = threading.Event()
    with LoopbackServer(type("Ending", (Handler,), {"ended": ended})) as server:
        server.daemon_threads = False  # closing waits until the error is handled
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            client.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
            client.recv(1)
            # This resets the connection, on which the server waits for the next request.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert ended.wait(20)
        server.shutdown()
        thread.join()
    err = capsys.readouterr().err
    assert logged in err
    assert bool(err) == bool(logged)
