"""The child process: `python -m local_cloud.faults.proxy UPSTREAM_HOST:PORT`. Its rules are set over HTTP.

Control, on the same port: PUT /__faults__ with a document of rules replaces the rules and sets all counters to zero;
GET returns rules, counters and a log of requests; DELETE removes rules and counters. PUT and DELETE end all delays.
"""

import asyncio
import contextlib
import json
import sys
from collections import deque
from typing import Any

from local_cloud.faults import http
from local_cloud.faults.connection import HEAD_LIMIT, Connection, ConnectionLostError
from local_cloud.faults.rules import RuleError, Rules, parse
from local_cloud.lifeline import Ready, end_with_parent

CONTROL = "/__faults__"
LOG_LENGTH = 20_000


class Proxy:
    """A proxy that passes requests to one upstream and applies the rules to them."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = host, port
        self._changed = asyncio.Event()
        self._replace(Rules())

    def _replace(self, rules: Rules) -> None:
        """Replace the rules, end the delays of the former rules, and reset all counts."""
        self._rules = rules
        self._changed.set()
        self._changed = asyncio.Event()
        self._counters = {"requests": 0, "bytes_up": 0, "bytes_down": 0, "connections": 0}
        self._log: deque[dict[str, Any]] = deque(maxlen=LOG_LENGTH)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        self._counters["connections"] += 1
        connection = Connection(reader, writer, self._upstream)
        # A client that disconnects in the middle of a request is an ordinary end, as is an upstream that closes.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ConnectionLostError):
            while True:
                request = await http.read_head(reader)
                if request.first_line[1].startswith(CONTROL):
                    await self._control(connection, request)
                else:
                    await self._pass_on(connection, request)
        connection.close()

    async def _control(self, connection: Connection, request: http.Head) -> None:
        body = b"".join([data async for data, _ in http.read_body(connection.reader, request, is_request=True)])
        status = 200
        try:
            if request.first_line[0] == "PUT":
                self._replace(Rules(*parse(json.loads(body))))
            elif request.first_line[0] == "DELETE":
                self._replace(Rules())
            facts: dict[str, Any] = {"rules": self._rules.report(), "log": list(self._log)} | self._counters
        except (RuleError, TypeError, json.JSONDecodeError) as wrong:
            status, facts = 400, {"error": str(wrong)}
        await connection.send(http.answer(status, "application/json", json.dumps(facts).encode(), close=False))

    async def _pass_on(self, connection: Connection, request: http.Head) -> None:
        method, path, _ = request.first_line
        verdict = self._rules.judge(f"{method} {path}")
        entry: dict[str, Any] = {"method": method, "path": path, "status": None, "bytes_up": 0, "bytes_down": 0}
        entry |= {name: request.headers[name] for name in ("range", "if-match") if name in request.headers}
        self._counters["requests"] += 1
        self._log.append(entry)
        try:
            await connection.pass_on(request, verdict, entry, self._changed)
        finally:
            self._counters["bytes_up"] += entry["bytes_up"]
            self._counters["bytes_down"] += entry["bytes_down"]


async def _serve(host: str, port: int, ready: Ready) -> None:
    server = await asyncio.start_server(Proxy(host, port).serve, "127.0.0.1", 0, limit=HEAD_LIMIT)
    ready.report({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"})
    async with server:
        await server.serve_forever()


def main() -> None:
    """Serve on a free port of 127.0.0.1 until the parent ends."""
    ready = Ready()
    host, _, port = sys.argv[1].rpartition(":")
    end_with_parent(lambda: None)
    asyncio.run(_serve(host, int(port), ready))


if __name__ == "__main__":
    main()
