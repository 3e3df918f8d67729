"""HTTP on a free port of 127.0.0.1, served by threads of this process."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LoopbackServer(ThreadingHTTPServer):
    """Answers by a handler. Clients may go away at any moment, and nothing is said of it; of other errors there is.

    Attributes:
        url: where it listens, with the port that it was given.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """See the class; socketserver would print a traceback of either."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
