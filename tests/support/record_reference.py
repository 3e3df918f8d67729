"""Reference reader of RECORD lines: parses one at a time with json and jsonschema."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import jsonschema
import pyarrow as pa
from jsonschema import validators
from pyarrow import types as pt

from singer_arrow.schema.arrow_schema import is_json
from singer_arrow.schema.json_schema import from_json_schema

Schema = dict[str, Any]


class RefusalError(Exception):
    """Raised for a line that the reference refuses."""


def _is_integer(_: Any, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, Decimal) and value == value.to_integral_value())


Validator = validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


PARSERS: dict[str, Any] = {"date-time": _moment, "date": date.fromisoformat, "time": time.fromisoformat}


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < 4000 else Decimal(digits)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise RefusalError("a key occurs twice")
    return dict(pairs)


def reference_row(line: bytes, schema: Schema, keys: Sequence[str], *, checks: bool = True) -> dict[str, Any]:
    """Return the row of a record, by the documented rules."""
    try:
        text = line.decode()
        hooks = {"parse_float": Decimal, "parse_int": _integer, "parse_constant": float, "object_pairs_hook": _pairs}
        record = json.loads(text, **hooks)["record"]  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError) as error:
        raise RefusalError(str(error)) from None
    if not isinstance(record, dict):
        raise RefusalError("no object")
    try:
        if checks and not Validator(schema).is_valid(record):
            raise RefusalError("does not match the SCHEMA")
    except (ArithmeticError, TypeError):
        raise RefusalError("cannot be checked") from None
    for name, prop in schema["properties"].items():
        alternatives = [p for p in (prop, *prop.get("anyOf", ())) if isinstance(p, dict)]
        formats = [p.get("format") for p in alternatives if "string" in p.get("type", [])]
        kind = next((f for f in formats if f in PARSERS), None)
        if kind and record.get(name) is not None:
            try:
                PARSERS[kind](record[name])
            except (ValueError, TypeError, OverflowError):
                raise RefusalError("no date") from None
    if not set(keys) <= record.keys():
        raise RefusalError("no key")
    return {f.name: plain(record.get(f.name), f) for f in from_json_schema(schema)}


def plain(value: Any, field: pa.Field) -> Any:
    """Return a JSON value as a row contains it."""
    t = field.type
    if value is None:
        return None
    if is_json(field):
        return _checked_json(value)
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if pt.is_struct(t) and isinstance(value, dict):
        return {f.name: plain(value.get(f.name), f) for f in t}
    if pt.is_list(t) and isinstance(value, list):
        return [plain(v, t.value_field) for v in value]
    if pt.is_map(t) and isinstance(value, dict):
        return [(_text(k), plain(v, t.item_field)) for k, v in value.items()]
    if pt.is_string(t):
        return _text(value) if isinstance(value, str) else TextOf(_checked_json(value))
    if pt.is_boolean(t) and isinstance(value, bool):
        return value
    if pt.is_int64(t) and number and value == int(value) and -(2**63) <= value < 2**63:
        return int(value)
    if pt.is_float64(t) and number and _is_held(value):
        return float(value)
    if pt.is_decimal(t) and (number or isinstance(value, str)):
        return _decimal(value, t)
    if isinstance(value, str):
        return _from_text(value, t)
    raise RefusalError(f"{value!r} as {t}")


def _checked_json(value: Any) -> Any:
    _text(json.dumps(value, ensure_ascii=False, default=str))
    try:
        json.dumps(value, default=str, allow_nan=False)
    except ValueError:
        raise RefusalError("NaN") from None
    return value


class TextOf:
    """Compares equal to every JSON text of a value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        found = json.loads(other, parse_float=Decimal, parse_int=_integer) if isinstance(other, str) else None
        return bool(found == self.value and type(found) is type(self.value))

    def __repr__(self) -> str:
        return f"TextOf({self.value!r})"

    __hash__ = None  # type: ignore[assignment]


def _is_held(number: int | Decimal) -> bool:
    """Return whether a float holds a number; of a whole one with all its digits, whether it holds or prints these."""
    near = _float(number)
    exponent = number.as_tuple().exponent if isinstance(number, Decimal) else 0
    if not isinstance(exponent, int) or exponent > 0 or number != int(number):
        return math.isfinite(near)
    return math.isfinite(near) and (near == number or Decimal(repr(near)) == number)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RefusalError("no Unicode") from None
    return value


def _decimal(value: Any, t: pa.DataType) -> Decimal:
    try:
        found = Decimal(value)
        fits = pa.scalar(found, pa.decimal256(76, t.scale)).as_py() == found and found.copy_abs() < Decimal(10) ** (
            t.precision - t.scale
        )
    except (pa.ArrowException, ArithmeticError):
        raise RefusalError("no such decimal") from None
    if not fits:
        raise RefusalError("no such decimal")
    return found


def _from_text(value: str, t: pa.DataType) -> Any:
    try:
        if pt.is_timestamp(t):
            return _moment(value)
        if pt.is_date(t):
            return date.fromisoformat(value)
        if pt.is_time(t):
            return time.fromisoformat(value)
        if pt.is_binary(t):
            return base64.b64decode(value, validate=True)
    except (ValueError, OverflowError):
        raise RefusalError("no such text") from None
    raise RefusalError(f"text as {t}")
