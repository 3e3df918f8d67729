"""Conversion of parsed JSON to values of Arrow types, one by one, with exact errors. Pure.

Text is never a number and a number never text, but `1.0` is an integer. Decimals may be quoted, as the SDK writes them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_text import BadValueError, from_text, holds, nearest_float, shorten, type_in_words
from singer_arrow.casting.spelling import decimal_of, set_column
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
_LENGTH_OF_DATE = 10
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
            if error.doc.rstrip().endswith(("{", "[", ",", ":")):
                reason = (
                    "not JSON: the record goes on after its line, as in pretty-printed JSON; write each record on one "
                    "line, for example with `jq -c .`"
                )
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


class RowReader:
    """Reader of single lines as rows of a schema; text columns also take other values, as JSON, if `loose_text`."""

    def __init__(self, schema: pa.Schema, *, loose_text: bool = False) -> None:
        self._columns = [(f.name, value_reader(f, loose_text=loose_text)) for f in schema]

    def __call__(self, line: bytes) -> tuple[list[Any], list[BadRowError]]:
        """Return the values of a line in the order of the schema, for `pa.array`, and the errors.

        A value that does not fit is null and has an error. A line that is not a record is a BadRowError.
        """
        if line.lstrip()[:1] == b"[":
            raise BadRowError("each line must hold an object, this one begins an array; write one object a line")
        record = parse(line)
        if not isinstance(record, dict):
            raise BadRowError(f"each line must hold an object, this one holds {json_kind(record)}")
        twice = record.twice  # type: ignore[attr-defined]
        values, errors = list[Any](), []
        for name, read in self._columns:
            if twice and name in twice:
                raise BadRowError("the key occurs twice in its record", name)
            value = record.get(name)
            if value is not None:
                set_column(name)
                try:
                    value = read(value)
                except BadRowError as error:
                    value = None
                    errors.append(BadRowError(str(error), name))
            values.append(value)
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


def value_reader(field: pa.Field, *, loose_text: bool) -> Callable[[Any], Any]:
    """Return the function that converts parsed JSON values for `pa.array` of the field's type, and null to None.

    It raises BadRowError if a value does not fit.
    """
    t = field.type
    if is_json(field):
        return lambda value: None if value is None else _json(value)
    read: Callable[[Any], Any]
    if pt.is_struct(t):
        members = [(f.name, value_reader(f, loose_text=loose_text)) for f in t]
        kind: type = dict
        read = lambda value: {name: of(value.get(name)) for name, of in members}  # noqa: E731 - one of several
    elif pt.is_list(t):
        item, kind = value_reader(t.value_field, loose_text=loose_text), list
        read = lambda value: [item(v) for v in value]  # noqa: E731
    elif pt.is_map(t):
        item, kind = value_reader(t.item_field, loose_text=loose_text), dict
        read = lambda value: [(_text(k), item(v)) for k, v in value.items()]  # noqa: E731
    else:
        kind, read = object, _scalar_reader(t, loose_text=loose_text)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        good = read(value) if isinstance(value, kind) else None
        if good is None:
            raise BadRowError(describe_mismatch(value, t))
        return good

    return convert


def _scalar_reader(t: pa.DataType, *, loose_text: bool) -> Callable[[Any], Any]:
    """Return the function that converts values of a type that is not nested; None for those that do not fit."""
    if pt.is_string(t):
        if loose_text:
            return lambda value: _text(value if isinstance(value, str) else _json(value))
        return lambda value: _text(value) if isinstance(value, str) else None
    if pt.is_boolean(t):
        return lambda value: value if isinstance(value, bool) else None
    if pt.is_integer(t):
        signed = pt.is_signed_integer(t)
        low, high = (-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1)) if signed else (0, 2**t.bit_width)
        return lambda value: int(value) if _is_number(value) and low <= value < high and value == int(value) else None
    if pt.is_floating(t):
        return lambda value: float(value) if _is_number(value) and holds(t, value) else None
    if pt.is_decimal(t):
        return lambda value: _from_text(str(value), t) if _is_number(value) or isinstance(value, str) else None
    return lambda value: _from_text(value, t) if isinstance(value, str) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


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


_USUAL = re.compile(r"\d{4}-\d\d-\d\d(?:[T ](?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_DATE, _DIGIT = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d")  # parts of all texts that fit
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()


def _from_text(value: str, t: pa.DataType) -> Any:
    """Return what `from_text` does for one text, or None if it does not fit."""
    _text(value)
    if (found := _quickly(value, t)) is not None:
        return found
    needed = _DATE if pt.is_date(t) or pt.is_timestamp(t) else _DIGIT if pt.is_decimal(t) or pt.is_time(t) else None
    if needed is not None and not needed.search(value):
        return None
    try:
        scalar = from_text(pa.array([value], pa.string()), t)[0]
    except BadValueError:
        return None
    return scalar.value if pt.is_temporal(t) else scalar.as_py()


def _quickly(value: str, t: pa.DataType) -> Any:
    """Return the same without Arrow, which takes 100 times as long for one value; None for texts of another form."""
    with suppress(ValueError, ArithmeticError):
        if pt.is_decimal(t):
            return decimal_of(value, t)
        if _USUAL.fullmatch(value):
            if pt.is_date32(t) and len(value) == _LENGTH_OF_DATE:
                return date.fromisoformat(value).toordinal() - _EPOCH_DAY
            if pt.is_timestamp(t) and t.unit == "us":
                moment = datetime.fromisoformat(value)
                since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
                return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return None


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
