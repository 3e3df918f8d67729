"""One client's connection, with its connection to the upstream."""

import asyncio
import contextlib
import socket
import struct
from typing import Any

from local_cloud.faults import http
from local_cloud.faults.rules import Rule, Verdict

HEAD_LIMIT = 1 << 20


class ConnectionLostError(Exception):
    """The client's connection ends here, as the rule demands."""


class Connection:
    """Passes single requests from a client to the upstream and applies the verdicts on them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: tuple[str, int]) -> None:
        self.reader, self._writer = reader, writer
        self._address = upstream
        self._changed = asyncio.Event()
        self._upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, data: bytes) -> None:
        """Write to the client and wait for its flow control."""
        self._writer.write(data)
        await self._writer.drain()

    async def pass_on(
        self, request: http.Head, verdict: Verdict, entry: dict[str, Any], changed: asyncio.Event
    ) -> None:
        """Apply the verdict on one request and record it in `entry`; `changed` ends every delay of this request."""
        self._changed = changed
        rule = verdict.rule
        lost = rule is not None and rule.action in {"error", "reset", "hang"}
        if rule is not None and lost and not rule.forward:
            await self._drop(request, entry)
            await self._pause(verdict.delay_s)
            await self._lose(request, rule, entry)
        if self._upstream is None:
            self._upstream = await asyncio.open_connection(*self._address, limit=HEAD_LIMIT)
        up_reader, up_writer = self._upstream
        up_writer.write(request.raw)
        sending = asyncio.create_task(self._send_up(request, up_writer, entry))
        try:
            head = await http.read_head(up_reader)
            while head.first_line[1] == "100":
                await self.send(head.raw)
                head = await http.read_head(up_reader)
            await sending
        finally:
            sending.cancel()
        await self._pause(verdict.delay_s)
        entry["status"] = int(head.first_line[1])
        bodiless = request.first_line[0] == "HEAD" or head.first_line[1] in {"204", "304"}
        if rule is not None and lost:
            if not bodiless:
                async for _ in http.read_body(up_reader, head, is_request=False):
                    pass
            await self._lose(request, rule, entry)
        await self.send(head.raw)
        if not bodiless:
            await self._send_down(up_reader, head, verdict, entry)
        until_close = head.length is None and not head.chunked and not bodiless
        if until_close or head.headers.get("connection", "").lower() == "close":
            raise ConnectionLostError

    async def _pause(self, seconds: float) -> None:
        """Wait for a time, at most until the rules change."""
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    async def _drop(self, request: http.Head, entry: dict[str, Any]) -> None:
        """Read and discard a request's body, so that the client has sent everything when it is answered."""
        if "expect" not in request.headers:
            async for _, size in http.read_body(self.reader, request, is_request=True):
                entry["bytes_up"] += size

    async def _send_up(self, request: http.Head, writer: asyncio.StreamWriter, entry: dict[str, Any]) -> None:
        async for data, size in http.read_body(self.reader, request, is_request=True):
            writer.write(data)
            entry["bytes_up"] += size
            await writer.drain()
        await writer.drain()

    async def _lose(self, request: http.Head, rule: Rule, entry: dict[str, Any]) -> None:
        if rule.action == "reset":
            self._abort()
        if rule.action == "hang":
            await self._pause(rule.stall_s)
            raise ConnectionLostError
        entry["status"] = rule.status
        await self.send(http.error(request, rule.status, rule.code, rule.message))
        raise ConnectionLostError

    async def _send_down(
        self, reader: asyncio.StreamReader, head: http.Head, verdict: Verdict, entry: dict[str, Any]
    ) -> None:
        loop, rule = asyncio.get_running_loop(), verdict.rule
        started = loop.time()
        ends_at = None
        if rule is not None and rule.action in {"truncate", "stall"}:
            ends_at = int((head.length or 0) * rule.keep)
        async for data, size in http.read_body(reader, head, is_request=False):
            if rule is not None and ends_at is not None and entry["bytes_down"] + size > ends_at:
                rest = data[: ends_at - entry["bytes_down"]]
                entry["bytes_down"] += len(rest)
                await self.send(rest)
                if rule.action == "stall":
                    await self._pause(rule.stall_s)
                raise ConnectionLostError
            entry["bytes_down"] += size
            await self.send(data)
            if verdict.bytes_per_s:
                due = started + entry["bytes_down"] / verdict.bytes_per_s
                await asyncio.sleep(max(0.0, due - loop.time()))

    def _abort(self) -> None:
        """End the connection by RST, as a network device does."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        raise ConnectionLostError

    def close(self) -> None:
        """Close both sides."""
        self._writer.close()
        if self._upstream is not None:
            self._upstream[1].close()
