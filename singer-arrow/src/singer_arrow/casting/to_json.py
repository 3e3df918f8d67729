"""Columns and values as JSON: exact decimals, RFC 3339 timestamps, base64 bytes, null for NaN. Pure."""

from __future__ import annotations

import base64
import json
import math
import uuid
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.extension_types import is_variant, is_wkb, to_wkt, variant_values
from singer_arrow.casting.spelling import beyond_years, check_printable
from singer_arrow.errors import DataError
from singer_arrow.schema.arrow_schema import JSON_EXTENSION, is_json

LONE_SURROGATE = "a lone surrogate, which is not a character"


class Unbounded(Decimal):
    """A number beyond the exponents of Decimal: infinite or zero like a float, but printed unchanged."""

    digits = ""

    @classmethod
    def of(cls, digits: str) -> Unbounded:
        """Return the number of a text."""
        made = cls(float(digits))
        made.digits = digits
        return made

    def __str__(self) -> str:
        return self.digits


def exact_number(digits: str) -> Decimal:
    """Parse a JSON number with a point or an exponent."""
    try:
        return Decimal(digits)
    except InvalidOperation:  # its exponent exceeds those of Decimal
        return Unbounded.of(digits)


def _as_read(value: Any) -> msgspec.Raw:
    """Encode an `Unbounded` number."""
    if not isinstance(value, Unbounded):
        raise TypeError
    return msgspec.Raw(str(value).encode())


_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=_as_read)


def json_text(value: Any) -> str:
    """Encode a Python value as JSON: exact Decimals, null for NaN and infinities, base64 for bytes."""
    return _ENCODER.encode(value).decode()


def text_as_json(column: pa.Array) -> pa.Array:
    """Return a text column as JSON text: valid JSON is unchanged, other texts become JSON strings."""
    return pa.array(
        [None if v is None else v if _is_json(v) else json_text(v) for v in column.to_pylist()], pa.string()
    )


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def json_texts(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return the JSON text of each value; a null is `null`, or null in a column of decimals.

    Raises DataError if a JSON column holds invalid JSON, ValueError if a date is out of the range of `check_printable`.
    """
    if pt.is_decimal(field.type):
        return column.cast(pa.string())
    return pa.array([_ENCODER.encode(value).decode() for value in _values(column, field)], pa.string())


def _values(column: pa.Array, field: pa.Field) -> list[Any]:
    """Return values that msgspec encodes to the intended JSON."""
    t = field.type
    if is_json(field):
        return [_raw_json(text, field.name) for text in column.to_pylist()]
    if isinstance(t, pa.BaseExtensionType) and t.extension_name == JSON_EXTENSION:
        return [_raw_json(text, field.name) for text in text_as_json(column.storage.cast(pa.string())).to_pylist()]
    if is_variant(t):
        return variant_values(column, lambda typed: _values(_plain(typed), pa.field(field.name, _plain(typed).type)))
    if is_wkb(t):
        return [None if v is None else to_wkt(v) for v in column.storage.to_pylist()]
    if pt.is_decimal(t):
        return [None if text is None else msgspec.Raw(text.encode()) for text in column.cast(pa.string()).to_pylist()]
    if pt.is_struct(t):
        members = [_values(part, f) for f, part in zip(t, column.flatten(), strict=True)]
        names, valid = [f.name for f in t], column.is_valid().to_pylist()
        rows = zip(*members, strict=True) if members else [()] * len(column)
        return [dict(zip(names, row, strict=True)) if ok else None for row, ok in zip(rows, valid, strict=True)]
    if pt.is_map(t):
        keys = column.keys.cast(pa.string()).to_pylist()
        items = _values(column.items, t.item_field)
        return [None if r is None else object_of(keys[r], items[r], field.name) for r in _ranges(column)]
    if pt.is_fixed_size_list(t):
        return _values(column.cast(pa.list_(t.value_field)), field.with_type(pa.list_(t.value_field)))
    if is_list(t):
        items = _values(column.values, t.value_field)
        return [None if r is None else items[r] for r in _ranges(column)]
    return _scalars(column if pt.is_time(t) else printable(column))  # times keep their digits


def _plain(column: pa.Array) -> pa.Array:
    """Return a column of an extension type in a type that JSON has: UUIDs as text, others as their storage."""
    if not isinstance(column, pa.ExtensionArray):
        return column
    return uuid_texts(column) if column.type.extension_name == "arrow.uuid" else column.storage


def uuid_texts(column: pa.ExtensionArray) -> pa.Array:
    """Return UUIDs as text in the form of RFC 9562."""
    values = column.storage.to_pylist()
    return pa.array([None if value is None else str(uuid.UUID(bytes=value)) for value in values], pa.string())


def object_of(keys: list[str], items: list[Any], column: str) -> dict[str, Any]:
    """Return a map as a JSON object; a DataError if it has a key twice, so that a value would be lost."""
    made = dict(zip(keys, items, strict=True))
    if len(made) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DataError(
            f"a map has the key {twice!r} twice, which JSON cannot hold", column=column, hint="Correct the file"
        )
    return made


def _ranges(column: Any) -> list[slice | None]:
    offsets, valid = column.offsets.to_pylist(), column.is_valid().to_pylist()
    return [slice(a, b) if ok else None for a, b, ok in zip(offsets, offsets[1:], valid, strict=False)]


def iso_texts(column: pa.Array) -> pa.Array:
    """Return dates, times and timestamps as ISO 8601 text, in UTC, with all digits of their unit.

    Years must pass `check_years`.
    """
    t = column.type
    if not pt.is_timestamp(t):
        return column.cast(pa.string())
    text = column.cast(pa.timestamp(t.unit)).cast(pa.string())  # ten times faster without a zone
    return pc.binary_join_element_wise(pc.binary_replace_slice(text, 10, 11, b"T"), "Z", "")


def _scalars(column: pa.Array) -> list[Any]:
    t = column.type
    if pt.is_timestamp(t) or pt.is_date(t) or pt.is_time(t):
        check_printable(column)
        if pt.is_timestamp(t) and beyond_years(column):
            texts = column.cast(pa.timestamp(t.unit)).cast(pa.string())
            return [None if v is None else f"{v.replace(' ', 'T')}Z" for v in texts.to_pylist()]
        return list(iso_texts(column).to_pylist())
    if pt.is_binary(t) or pt.is_large_binary(t):
        return [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
    if pt.is_floating(t):
        return [v if v is not None and math.isfinite(v) else None for v in column.to_pylist()]
    return list(column.to_pylist())


def _raw_json(text: str | None, column: str) -> msgspec.Raw | None:
    if text is None:
        return None
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        reason = f"{text[:60]!r} is not JSON ({error})"
        if _holds_surrogate(text):  # msgspec's message varies
            reason = f"{text[:60]!r} holds {LONE_SURROGATE}"
        raise DataError(reason, column=column) from None
    if "\n" in text or "\r" in text:  # occur between tokens only
        text = text.replace("\n", " ").replace("\r", " ")
    return msgspec.Raw(text.encode())


def from_json_text(text: str, column: str) -> Any:
    """Parse the JSON text of a column; numbers with a point or an exponent become Decimals."""
    _raw_json(text, column)
    return json.loads(text, parse_float=exact_number)


def _holds_surrogate(text: str) -> bool:
    """Return whether a text is JSON apart from lone surrogates."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def printable(column: pa.Array) -> pa.Array:
    """Return the column in a type that polars supports: without dictionaries, durations and other rare types."""
    t = column.type
    if pt.is_dictionary(t):
        return column.dictionary_decode()
    if pt.is_float16(t):
        return column.cast(pa.float32())
    if pt.is_duration(t):
        return column.cast(pa.int64())
    if pt.is_timestamp(t) and t.unit == "s":
        return column.cast(pa.timestamp("ms", t.tz))
    if pt.is_time(t):
        return column.cast(pa.time64("ns"))
    if pt.is_fixed_size_binary(t):
        return column.cast(pa.binary())
    return column


def is_list(t: pa.DataType) -> bool:
    """Return whether a type is a list other than a view."""
    return bool(pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t))


def check_years(column: pa.Array, name: str) -> None:
    """Raise DataError, which names the column, if the year of a date or timestamp does not have four digits."""
    if beyond_years(column):
        raise DataError("a date lies outside the years 1 to 9999, which JSON's timestamps cannot hold", column=name)
