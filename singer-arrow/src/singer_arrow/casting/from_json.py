"""Conversion of parsed JSON to values of Arrow types, one by one, with exact errors. Pure.

Text is never a number and a number never text, but `1.0` is an integer. Decimals may be quoted, as the SDK writes them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal
from math import isfinite
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_text import BadValueError, from_text, holds, nearest_float, shorten, type_in_words
from singer_arrow.casting.spelling import set_column
from singer_arrow.casting.to_json import LONE_SURROGATE, exact_number, json_text
from singer_arrow.schema.arrow_schema import is_json

_KINDS = {
    bool: "true or false",
    int: "an integer",
    Decimal: "a number",
    str: "text",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


_MANY_DIGITS = 4000
_RECORD_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])


class BadRowError(ValueError):
    """A line that is not a record of the schema; `column` is set if a single column is the cause."""

    def __init__(self, reason: str, column: str | None = None) -> None:
        super().__init__(reason)
        self.column = column


class _Object(dict[str, Any]):
    """An object; `twice` are its duplicate keys."""

    twice: frozenset[str] = frozenset()


def parse(text: bytes | str, *, constants: bool = False) -> Any:
    """Parse JSON text; numbers with a point or an exponent become Decimals, NaN and Infinity floats if `constants`.

    Raises BadRowError if the text is not JSON or UTF-8, is nested too deeply, or has an invalid key.
    """
    decoder = _LENIENT if constants else _DECODER
    try:
        if nests_too_deeply(text.encode(errors="replace") if isinstance(text, str) else text):
            raise RecursionError
        value = decoder.decode(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise BadRowError(f"invalid UTF-8 (byte 0x{error.object[error.start]:02x})") from None
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            reason = f"something follows the value that ends at character {error.pos}; each line holds one record"
        else:
            reason = f"not JSON ({error.msg} at character {error.pos + 1})"
        raise BadRowError(reason) from None
    except RecursionError:
        raise BadRowError(f"its values are nested too deeply, and {MAX_DEPTH} levels are the most") from None
    return value


def _no_constant(name: str) -> NoReturn:
    raise BadRowError(f"{name} is not JSON; write null")


def _pairs(pairs: list[tuple[str, Any]]) -> _Object:
    found = _Object(pairs)
    for name in found:
        try:
            if not name.isascii():
                name.encode()
        except UnicodeEncodeError:
            raise BadRowError(f"a key holds {LONE_SURROGATE}") from None
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        found.twice = frozenset(name for name in found if counts[name] > 1)
    return found


_DECODER, _LENIENT = (
    json.JSONDecoder(
        parse_float=exact_number,
        parse_int=lambda digits: int(digits) if len(digits) < _MANY_DIGITS else Decimal(digits),  # Python limits int
        parse_constant=constant,
        object_pairs_hook=_pairs,
    )
    for constant in (_no_constant, float)
)


def parse_row(line: bytes, schema: pa.Schema, *, loose_text: bool = False) -> tuple[list[Any], list[BadRowError]]:
    """Return the values of a line in the order of the schema, for `pa.array`, and the errors.

    A value that does not fit is null and has an error. A line that is not a record is a BadRowError.
    """
    if line.lstrip()[:1] == b"[":
        raise BadRowError("each line must hold an object, this one begins an array; write one object a line")
    record = parse(line)
    if not isinstance(record, dict):
        raise BadRowError(f"each line must hold an object, this one holds {json_kind(record)}")
    values, errors = list[Any](), []
    for field in schema:
        if field.name in record.twice:  # type: ignore[attr-defined]
            raise BadRowError("the key occurs twice in its record", field.name)
        set_column(field.name)
        try:
            values.append(convert_value(record.get(field.name), field, loose_text=loose_text))
        except BadRowError as error:
            values.append(None)
            errors.append(BadRowError(str(error), field.name))
    return values, errors


def raw_members(line: bytes) -> dict[str, bytes]:
    """Return the JSON of each member of a record; BadRowError if the line is none."""
    try:
        return {name: bytes(raw) for name, raw in _RECORD_DECODER.decode(line).items()}
    except (msgspec.MsgspecError, UnicodeDecodeError):  # it is stricter than `parse`, such as about lone surrogates
        record = parse(line)
        if not isinstance(record, dict):
            raise BadRowError(json_kind(record)) from None
        return {name: to_json_bytes(value) for name, value in record.items()}


def to_json_bytes(value: Any) -> bytes:
    """Encode a parsed value as JSON, keeping lone surrogates escaped."""
    try:
        return json_text(value).encode()
    except UnicodeEncodeError:
        return json_text(_escaped(value)).encode()


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _escaped(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return msgspec.Raw(json.dumps(value).encode()) if isinstance(value, str) else value


def convert_value(value: Any, field: pa.Field, *, loose_text: bool = False) -> Any:
    """Convert a parsed JSON value for `pa.array` of the field's type; BadRowError if it does not fit."""
    if value is None:
        return None
    t = field.type
    if is_json(field):
        return _json(value)
    if pt.is_struct(t) and isinstance(value, dict):
        return {f.name: convert_value(value.get(f.name), f, loose_text=loose_text) for f in t}
    if pt.is_list(t) and isinstance(value, list):
        return [convert_value(v, t.value_field, loose_text=loose_text) for v in value]
    if pt.is_map(t) and isinstance(value, dict):
        return [(_text(k), convert_value(v, t.item_field, loose_text=loose_text)) for k, v in value.items()]
    good = _scalar(value, t, loose_text=loose_text)
    if good is None:
        raise BadRowError(describe_mismatch(value, t))
    return good


def _scalar(value: Any, t: pa.DataType, *, loose_text: bool) -> Any:
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if pt.is_string(t):
        return _text(value if isinstance(value, str) else _json(value) if loose_text else None)
    if pt.is_boolean(t):
        return value if isinstance(value, bool) else None
    if pt.is_integer(t):
        low, high = (
            (-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1)) if pt.is_signed_integer(t) else (0, 2**t.bit_width)
        )
        return int(value) if number and low <= value < high and value == int(value) else None
    if pt.is_floating(t):
        return float(value) if number and holds(t, value) else None
    if pt.is_decimal(t):
        return _from_text(str(value), t) if number or isinstance(value, str) else None
    if isinstance(value, str):
        return _from_text(value, t)
    return None


def _json(value: Any) -> str:
    try:
        return json_text(value)
    except UnicodeEncodeError:
        raise BadRowError(LONE_SURROGATE) from None


def _text(value: str | None) -> str | None:
    if value is not None and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadRowError(LONE_SURROGATE) from None
    return value


def _from_text(value: str, t: pa.DataType) -> Any:
    _text(value)
    try:
        scalar = from_text(pa.array([_text(value)], pa.string()), t)[0]
    except BadValueError:
        return None
    return scalar.value if pt.is_temporal(t) else scalar.as_py()


def describe_mismatch(value: Any, t: pa.DataType) -> str:
    """Return the error text for a value that does not fit."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if pt.is_floating(t) and (whole or isinstance(value, Decimal)) and isfinite(nearest_float(t, value)):
        return f"{json_text(value)[:60]} is not a number that the type {t} holds"
    if (whole and pt.is_integer(t)) or (pt.is_floating(t) and (whole or isinstance(value, Decimal))):
        return f"the number {json_text(value)[:60]} is too large for the type {t}"
    if isinstance(value, dict | list):
        return f"expected {type_in_words(t)}, found {json_kind(value)}"
    shown = shorten(value) if isinstance(value, str) else json_text(value)[:60]
    return f"expected {type_in_words(t)}, found {json_kind(value)} {shown}"


def json_kind(value: Any) -> str:
    """Return the kind of a JSON value in words."""
    return next(words for kind, words in _KINDS.items() if isinstance(value, kind))


MAX_DEPTH = 800
"""Maximum nesting depth of a record; all parsers in use support it on every Python version."""
_TOKEN = re.compile(rb'"(?>(?:[^"\\]|\\.)*)"|[\[\]{}"]', re.DOTALL)  # a lone quote: an unterminated string


def nests_too_deeply(data: bytes) -> bool:
    """Return whether JSON is nested deeper than `MAX_DEPTH`."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth > MAX_DEPTH:
                    return True
            case b"}" | b"]":
                depth -= 1
            case b'"':
                break
    return False
