"""Parse one RECORD line exactly, or find why it is no RECORD message. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_json import BadRowError, json_kind, parse, to_json_bytes
from singer_arrow.casting.from_text import shorten
from singer_arrow.enforcement.row_json import NON_FINITE
from singer_arrow.schema.arrow_schema import is_json

Message = Mapping[str, Any]
_RAW_RECORD: Any = msgspec.json.Decoder(msgspec.defstruct("Raw", [("record", msgspec.Raw)], gc=False))
_LONE = re.compile("[\ud800-\udfff]")


class NoMessageError(BadRowError):
    """A line is not a RECORD message."""


def message_of(line: bytes) -> Message:
    """Parse a RECORD message, or raise NoMessageError."""
    if not line or line.isspace():
        raise NoMessageError("the line is blank")
    try:
        message = parse(line, constants=True)
    except BadRowError as error:
        raise NoMessageError(str(error), error.column) from None
    except ValueError as error:  # an integer of thousands of digits
        raise NoMessageError(str(error)) from None
    if not isinstance(message, dict):
        raise NoMessageError(f"each line must hold a message, this one holds {json_kind(message)}")
    twice: frozenset[str] = message.twice & {"type", "stream", "record"}  # type: ignore[attr-defined]  # of no other dict
    if twice:
        raise NoMessageError(f"the key {min(twice)!r} occurs twice in its message")
    if not isinstance(message.get("record"), dict):
        found = json_kind(message["record"]) if "record" in message else "nothing"
        raise NoMessageError(f"'record' must hold an object, it holds {found}")
    return message


def record_text(line: bytes) -> str:
    """Return the record of a RECORD line as JSON text; numbers that JSON lacks become `"NaN"` or `"Infinity"`."""
    message = message_of(line)
    if constant_in(message["record"], None) is not None:
        return shown_record(message["record"])
    return raw_record(line, message).decode(errors="backslashreplace")


def shown_record(record: Message) -> str:
    """Return a parsed record as JSON text, with the numbers that JSON lacks as in `record_text`."""
    return to_json_bytes(_named(record)).decode(errors="backslashreplace")


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _named(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_named(inner) for inner in value]
    return NON_FINITE.get(value, "NaN") if isinstance(value, float) and not math.isfinite(value) else value


def constant_in(value: Any, field: pa.Field | None) -> float | None:
    """Return NaN or an infinity that a value holds in a member of the field, or anywhere without a field; else None."""
    found, ahead = None, [(value, field)]
    while ahead:
        value, field = ahead.pop()
        if isinstance(value, float):
            found = value
        elif isinstance(value, dict):
            if field is None or is_json(field) or not pt.is_struct(field.type):
                ahead += [(v, None) for v in value.values()]
            else:
                ahead += [(value.get(f.name), f) for f in field.type]
        elif isinstance(value, list):
            is_list = field is not None and pt.is_list(field.type) and not is_json(field)
            inner = field.type.value_field if field is not None and is_list else None
            ahead += [(v, inner) for v in value]
    return found


def raw_record(line: bytes, message: Message) -> bytes:
    """Return the record as JSON text, as it is in the line if possible."""
    try:
        return bytes(_RAW_RECORD.decode(line).record)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # it refuses more than `parse`, such as lone surrogates
        return to_json_bytes(message["record"])


def _version(value: Any) -> int | None:
    if value is None:
        return None
    whole = isinstance(value, int | Decimal) and not isinstance(value, bool) and value == int(value)
    if not whole or not -(2**63) <= value < 2**63:
        raise BadRowError(f"its version {shorten(value)} is no integer of 64 bits")
    return int(value)


def _time_extracted(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and not _LONE.search(value)):
        return value
    raise BadRowError(f"its time_extracted {shorten(value)} is no text")


AROUND_VALUES: dict[str, Callable[[Any], Any]] = {"time_extracted": _time_extracted, "version": _version}
"""Converters of the members of a message beside its record."""
