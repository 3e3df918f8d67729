"""The messages of Flight SQL that the server needs, in the encoding of Protocol Buffers. Pure."""

from dataclasses import dataclass

_URL = "type.googleapis.com/arrow.flight.protocol.sql."
Fields = dict[int, bytes | int]


@dataclass(frozen=True, slots=True)
class Command:
    """A command or a ticket of Flight SQL: its name, such as CommandStatementQuery, and its fields by number."""

    name: str
    fields: Fields

    def text(self, number: int) -> str | None:
        """Return a field that is text; None if it is not there."""
        value = self.fields.get(number)
        return value.decode() if isinstance(value, bytes) else None


def parse(message: bytes) -> Command:
    """Parse a command, which is a message of the type Any."""
    outer = _fields(message)
    url, body = outer.get(1), outer.get(2, b"")
    if not isinstance(url, bytes) or not isinstance(body, bytes) or not url.startswith(_URL.encode()):
        raise ValueError("this is no message of Flight SQL")
    return Command(url.decode().removeprefix(_URL), _fields(body))


def ticket(handle: bytes) -> bytes:
    """Return the message TicketStatementQuery with a handle of the server's own."""
    return _field(1, f"{_URL}TicketStatementQuery".encode()) + _field(2, _field(1, handle))


def handle_of(message: bytes) -> bytes:
    """Return the handle in a message TicketStatementQuery."""
    handle = parse(message).fields.get(1)
    if not isinstance(handle, bytes):
        raise TypeError("the ticket has no handle")
    return handle


def _fields(message: bytes) -> Fields:
    at, found = 0, Fields()
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 2:
            size, at = _varint(message, at)
            found[tag >> 3] = message[at : at + size]
            at += size
        else:
            found[tag >> 3], at = _varint(message, at)
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return number, at


def _field(number: int, value: bytes) -> bytes:
    size, encoded = len(value), b""
    while size > 127:
        encoded += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + encoded + bytes([size]) + value
