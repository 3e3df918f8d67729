"""An HTTP server on a free port of 127.0.0.1, in threads of this process."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server with a given handler. Lost connections are not logged; other errors are."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log errors other than lost connections, for which socketserver would print a traceback."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
