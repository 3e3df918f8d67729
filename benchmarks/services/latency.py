"""The child process that makes a local S3 as far away as S3: `python -m benchmarks.services.latency HOST:PORT`.

It passes HTTP on, holds each answer back for a time, limits each connection to a rate, and counts. Unlike
local_cloud's fault proxy, which does the same and much more, it must cost next to nothing, for it runs on the cores of
what is measured: bodies go from socket to socket by splice(2) without being copied, and connections are generators
that one epoll loop resumes. That takes a third of the CPU for large objects, and for small ones.

Control, on the same port: GET /__shape__ gives the counters; PUT with {"latency_ms", "rate_mb_s"} sets both and counts
anew.
"""

import fcntl
import heapq
import json
import os
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Generator
from itertools import count
from typing import Any

from local_cloud.faults.http import answer
from local_cloud.lifeline import Ready, end_with_parent

CONTROL = b"/__shape__"
PIECE = 1 << 20
RATED_PIECE = 1 << 17
HEAD_END = b"\r\n\r\n"
Wait = Generator[float | None, None, Any]
"""What a connection is: it yields None until one of its sockets is ready, or a number of seconds to sleep."""


class Shape:
    """What is done to answers, and what was counted."""

    def __init__(self) -> None:
        self.set()

    def set(self, latency_ms: float = 0.0, rate_mb_s: float | None = None) -> None:
        """Delay first bytes by milliseconds, limit connections to million bytes a second, and count anew."""
        self.latency, self.rate = latency_ms / 1e3, (rate_mb_s or 0.0) * 1e6
        self.requests: Counter[str] = Counter()
        self.bytes_up = self.bytes_down = self.connections = 0

    def report(self) -> dict[str, Any]:
        """The counters; bytes are those of bodies."""
        counted = {"bytes_up": self.bytes_up, "bytes_down": self.bytes_down, "connections": self.connections}
        return {"requests": dict(self.requests)} | counted


class Side:
    """One end of a connection: a socket that never blocks, and what was read from it too early."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.fd, self.rest = sock, sock.fileno(), b""
        self.beside: Side | None = None

    def until(self, mark: bytes) -> Wait:
        """Read up to and with a mark; empty if the other side is gone."""
        while (end := self.rest.find(mark)) < 0:
            if not (data := (yield from self.read())):
                return b""
            self.rest += data
        end += len(mark)
        found, self.rest = self.rest[:end], self.rest[end:]
        return found

    def read(self) -> Wait:
        """What there is to read; empty at the end, or when the side beside has ended."""
        while True:
            try:
                return self.sock.recv(1 << 16)
            except BlockingIOError:
                if self.beside and self.beside.ended():
                    return b""
                yield None

    def ended(self) -> bool:
        """Whether nothing will come any more."""
        try:
            return not self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False

    def send(self, data: bytes) -> Wait:
        """Write all of it."""
        while data:
            try:
                data = data[self.sock.send(data) :]
            except BlockingIOError:
                yield None


class Connection:
    """One client's connection with the one to the upstream that goes with it."""

    def __init__(self, client: socket.socket, upstream: tuple[str, int], shape: Shape) -> None:
        self.client, self.upstream = Side(client), Side(socket.create_connection(upstream))
        self.client.beside = self.upstream  # a service that ends an idle connection ends the client's
        self._shape = shape
        self._pipe: tuple[int, int] | None = None
        self.steps = self._serve()
        self.asleep = False

    def _serve(self) -> Wait:
        while head := (yield from self.client.until(HEAD_END)):
            method, path, _ = head.split(b" ", 2)
            if path == CONTROL:
                yield from self._control(head, method)
                continue
            self._shape.requests[method.decode()] += 1
            if not (yield from self._pass_on(head, method)):
                return

    def _control(self, head: bytes, method: bytes) -> Wait:
        while len(self.client.rest) < _length(head):
            if not (data := (yield from self.client.read())):
                raise ConnectionError
            self.client.rest += data
        if method == b"PUT":
            self._shape.set(**json.loads(self.client.rest))
        self.client.rest = b""
        body = json.dumps(self._shape.report()).encode()
        yield from self.client.send(answer(200, "application/json", body, close=False))

    def _pass_on(self, head: bytes, method: bytes) -> Wait:
        """Pass one request on, and whether the connection can take another."""
        client, upstream, shape = self.client, self.upstream, self._shape
        yield from upstream.send(head)
        lowered = head.lower()
        if b"\r\nexpect: 100-continue" in lowered:
            interim = yield from upstream.until(HEAD_END)
            yield from client.send(interim)
            if interim[9:12] != b"100":
                return False
        # Counted in a second step: others count while this one waits, and `x += yield` would take x before.
        sent = yield from self._body(client, upstream, lowered, 0.0)
        shape.bytes_up += sent
        due = time.monotonic() + shape.latency
        while (reply := (yield from upstream.until(HEAD_END)))[9:12] == b"100":
            yield from client.send(reply)
        if not reply:
            return False
        if (left := due - time.monotonic()) > 0:
            yield left
        lowered = reply.lower()
        bodiless = method == b"HEAD" or reply[9:12] in {b"204", b"304"}
        size = 0 if bodiless else _length(lowered)
        # Head and beginning in one segment: most answers are no longer.
        start, upstream.rest = upstream.rest[:size], upstream.rest[size:]
        yield from client.send(reply + start)
        taken = 0
        if size:
            taken = yield from self._splice(upstream, client, size - len(start), shape.rate)
        elif not bodiless:
            taken = yield from self._body(upstream, client, lowered, shape.rate)
        shape.bytes_down += len(start) + taken
        return b"\r\nconnection: close" not in lowered

    def _body(self, source: Side, sink: Side, head: bytes, rate: float) -> Wait:
        """Pass a body on by its length or its chunks, and count its bytes."""
        if b"\r\ntransfer-encoding: chunked" not in head:
            return (yield from self._splice(source, sink, _length(head), rate))
        total = 0
        while True:
            if not (line := (yield from source.until(b"\r\n"))):
                raise ConnectionError
            yield from sink.send(line)
            size = int(line.split(b";")[0], 16)
            if not size:
                break
            yield from self._splice(source, sink, size + 2, rate)
            total += size
        while line != b"\r\n":  # trailers, and the empty line after them
            if not (line := (yield from source.until(b"\r\n"))):
                raise ConnectionError
            yield from sink.send(line)
        return total

    def _splice(self, source: Side, sink: Side, size: int, rate: float) -> Wait:
        """Pass exactly so many bytes on."""
        start, source.rest = source.rest[:size], source.rest[size:]
        yield from sink.send(start)
        left, began = size - len(start), time.monotonic()
        while left:
            self._pipe = self._pipe or _pipe()
            out, into = self._pipe
            try:
                got = os.splice(source.fd, into, min(left, RATED_PIECE if rate else PIECE))
            except BlockingIOError:
                yield None
                continue
            if not got:
                raise ConnectionError
            left -= got
            while got:
                try:
                    got -= os.splice(out, sink.fd, got)
                except BlockingIOError:
                    yield None
            if rate and (ahead := began + (size - left) / rate - time.monotonic()) > 0:
                yield ahead
        return size

    def close(self) -> None:
        """Close both sides."""
        self.client.sock.close()
        self.upstream.sock.close()
        for end in self._pipe or ():
            os.close(end)


class Loop:
    """Resumes connections whose sockets are ready or whose time has come."""

    def __init__(self, server: socket.socket, upstream: tuple[str, int]) -> None:
        self._server, self._upstream = server, upstream
        self._shape = Shape()
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._timers: list[tuple[float, int, Connection]] = []
        self._number = count()

    def run(self) -> None:
        """Serve without end."""
        listening = self._server.fileno()
        self._epoll.register(listening, select.EPOLLIN)
        while True:
            wait = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else -1
            for fd, _ in self._epoll.poll(wait):
                if fd == listening:
                    self._accept()
                elif (connection := self._connections.get(fd)) and not connection.asleep:
                    self._step(connection)
            while self._timers and self._timers[0][0] <= time.monotonic():
                connection = heapq.heappop(self._timers)[2]
                connection.asleep = False
                self._step(connection)

    def _accept(self) -> None:
        client, _ = self._server.accept()
        self._shape.connections += 1
        connection = Connection(client, self._upstream, self._shape)
        for side in (connection.client, connection.upstream):
            self._connections[side.fd] = connection
            # Edges alone: a connection tries each call until it would block before it waits.
            self._epoll.register(side.fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        self._step(connection)

    def _step(self, connection: Connection) -> None:
        try:
            seconds = next(connection.steps)
        except (StopIteration, ConnectionError):
            for side in (connection.client, connection.upstream):
                del self._connections[side.fd]
            connection.close()
            return
        if seconds is not None:
            connection.asleep = True
            heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._number), connection))


def _length(head: bytes) -> int:
    """The Content-Length of a head; 0 if it has none."""
    start = head.lower().find(b"\r\ncontent-length:")
    return int(head[start + 17 : head.index(b"\r\n", start + 2)]) if start >= 0 else 0


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, PIECE)
    return ends


def main() -> None:
    """Serve on a free port of 127.0.0.1 until the parent is gone."""
    ready = Ready()
    host, _, port = sys.argv[1].rpartition(":")
    end_with_parent(lambda: None)
    server = socket.create_server(("127.0.0.1", 0), backlog=1024)
    ready.report({"url": f"http://127.0.0.1:{server.getsockname()[1]}"})
    Loop(server, (host, int(port))).run()


if __name__ == "__main__":
    main()
