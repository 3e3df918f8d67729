"""The messages of PostgreSQL's protocol 3.0 (chapter "Frontend/Backend Protocol" of its manual) on a socket."""

import select
import socket
import struct
from collections.abc import Mapping, Sequence

Message = tuple[bytes, bytes]

_CHUNK = 1 << 18
_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")
_KEEP = 1 << 20


class Closed(Exception):  # noqa: N818 - an event, not a fault
    """The other side closed the connection."""


class Stream:
    """A socket as a source of messages."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._buffer = bytearray()
        self._position = 0

    def fileno(self) -> int:
        """Return the file descriptor, for polls."""
        return self.socket.fileno()

    def wait(self, seconds: float) -> None:
        """Wait for a time, at most until the other side disconnects."""
        poll = select.poll()
        poll.register(self.socket, getattr(select, "POLLRDHUP", select.POLLHUP))
        poll.poll(1000 * seconds)

    @property
    def held(self) -> int:
        """The number of bytes received and not consumed yet."""
        return len(self._buffer) - self._position

    def fill(self) -> None:
        """Receive the available bytes, at least one, or raise `Closed` at the end."""
        try:
            received = self.socket.recv(_CHUNK)
            if not received:
                raise Closed
            self._buffer += received
            while pending := getattr(self.socket, "pending", int)():
                # TLS has decrypted these bytes already, so a poll would not report them.
                self._buffer += self.socket.recv(pending)
        except ConnectionError:
            raise Closed from None

    def exactly(self, size: int) -> bytes:
        """Return this many bytes, waiting for them."""
        while self.held < size:
            self.fill()
        return self._advance(size)

    def take(self) -> Message | None:
        """Return the next message, type and body, or None if it is incomplete."""
        if self.held < 5:
            return None
        size = _INT32.unpack_from(self._buffer, self._position + 1)[0]
        if self.held < 1 + size:
            return None
        whole = self._advance(1 + size)
        return whole[:1], whole[5:]

    def take_run(self, kind: int) -> bytes:
        """Return all complete messages of one type that come next, in wire format."""
        buffer, size, position = self._buffer, len(self._buffer), self._position
        unpack = _INT32.unpack_from
        while position + 5 <= size and buffer[position] == kind:
            end = position + 1 + unpack(buffer, position + 1)[0]
            if end > size:
                break
            position = end
        return self._advance(position - self._position)

    def read(self) -> Message:
        """Return the next message, waiting for it."""
        while (found := self.take()) is None:
            self.fill()
        return found

    def send(self, data: bytes) -> None:
        """Send all of the data, or raise `Closed` if the other side has closed the connection."""
        try:
            self.socket.sendall(data)
        except OSError:
            raise Closed from None

    def _advance(self, size: int) -> bytes:
        start = self._position
        taken = bytes(memoryview(self._buffer)[start : start + size])
        self._position = start + size
        if self._position == len(self._buffer):
            self._buffer.clear()
            self._position = 0
        elif self._position > _KEEP:
            del self._buffer[: self._position]
            self._position = 0
        return taken


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Return a message in wire format."""
    return kind + _INT32.pack(len(body) + 4) + body


def text(value: str) -> bytes:
    """Return a string in wire format."""
    return value.encode() + b"\0"


def split_text(body: bytes, start: int = 0) -> tuple[str, int]:
    """Return a string of a message, and its end."""
    end = body.index(b"\0", start)
    return body[start:end].decode(), end + 1


def query(sql: str) -> bytes:
    """Return a simple query."""
    return message(b"Q", text(sql))


def startup(parameters: Mapping[str, str]) -> bytes:
    """Return the first message of a client."""
    body = _INT32.pack(3 << 16) + b"".join(text(name) + text(value) for name, value in parameters.items()) + b"\0"
    return _INT32.pack(len(body) + 4) + body


def parameters(body: bytes) -> dict[str, str]:
    """Return the parameters of a client's first message, which follow the protocol's number."""
    parts = body.rstrip(b"\0").split(b"\0")
    return {name.decode(): value.decode() for name, value in zip(parts[::2], parts[1::2], strict=False)}


def fields(body: bytes) -> dict[str, str]:
    """Return the fields of an error or a notice."""
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


def response(kind: bytes, found: Mapping[str, str]) -> bytes:
    """Return an error (E) or a notice (N) with these fields."""
    return message(kind, b"".join(name.encode() + text(value) for name, value in found.items()) + b"\0")


def error(code: str, words: str, *, detail: str = "", severity: str = "ERROR") -> bytes:
    """Return an error as a message."""
    found = {"S": severity, "V": severity, "C": code, "M": words}
    return response(b"E", found | ({"D": detail} if detail else {}))


def int16(body: bytes, position: int) -> int:
    """Return a 16-bit integer of a message."""
    return int(_INT16.unpack_from(body, position)[0])


def int32(body: bytes, position: int) -> int:
    """Return a 32-bit integer of a message."""
    return int(_INT32.unpack_from(body, position)[0])


def pack16(value: int) -> bytes:
    """Return a 16-bit integer in wire format."""
    return _INT16.pack(value)


def pack32(value: int) -> bytes:
    """Return a 32-bit integer in wire format."""
    return _INT32.pack(value)


def row_of(body: bytes) -> list[bytes | None]:
    """Return the values of a data row."""
    count, position, values = int16(body, 0), 2, list[bytes | None]()
    for _ in range(count):
        size = int32(body, position)
        position += 4
        values.append(None if size < 0 else body[position : position + size])
        position += max(size, 0)
    return values


def data_row(values: Sequence[bytes | None]) -> bytes:
    """Return a data row in wire format."""
    parts = [pack16(len(values))]
    for value in values:
        parts += [pack32(-1)] if value is None else [pack32(len(value)), value]
    return message(b"D", b"".join(parts))


def text_columns(*names: str) -> bytes:
    """Return the description of rows of text."""
    columns = [text(name) + struct.pack("!ihihih", 0, 0, 1043, -1, -1, 0) for name in names]
    return message(b"T", pack16(len(names)) + b"".join(columns))
