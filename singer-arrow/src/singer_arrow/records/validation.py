"""JSON Schema checks on single records; rows -> RECORD messages."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from jsonschema import FormatChecker, TypeChecker, validators
from jsonschema.exceptions import UnknownType, ValidationError, best_match
from jsonschema.protocols import Validator
from pyarrow import types as pt
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY
from singer_sdk.helpers._typing import get_datelike_property_type
from singer_sdk.typing import DEFAULT_JSONSCHEMA_VALIDATOR

from singer_arrow.casting.from_json import BadRowError
from singer_arrow.casting.from_text import shorten
from singer_arrow.casting.to_json import check_years, from_json_text, iso_texts, object_of
from singer_arrow.formats.json_write import JsonEncoder
from singer_arrow.schema.arrow_schema import is_json

# Validate single records against the JSON Schema of their stream, exactly as the SDK does. Pure.
#
# The privates used here are listed in `tests/unit/singer_arrow/records/test_validation.py`, which fails when an SDK
# changes them. jsonschema is what the SDK checks with.
#
# Numbers are ints and Decimals, as the SDK reads them; a Decimal without a fraction is an integer, as JSON Schema has
# it.

_LONGEST = 300
_LONG_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9A-Fa-f]{4})")
"""`\\u00e9` in a pattern, which Arrow's engine writes `\\x{00e9}`."""
_DIGITS = 1000


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.utcoffset() else moment


_MOST_WHY = 150  # characters of a parser's error that are kept
_PARSERS = {"date-time": _moment, "date": date.fromisoformat, "time": time.fromisoformat}


def _is_integer(_: TypeChecker, value: Any) -> bool:
    whole = isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value()
    return whole or bool(DEFAULT_JSONSCHEMA_VALIDATOR.TYPE_CHECKER.is_type(value, "integer"))


def _multiple_of(against: Any, step: Any, value: Any, schema: Any) -> Iterator[Any]:
    with localcontext(prec=_DIGITS):  # the remainder needs all digits of the quotient
        return iter(list(DEFAULT_JSONSCHEMA_VALIDATOR.VALIDATORS["multipleOf"](against, step, value, schema) or ()))


def matches(pattern: str, texts: Any) -> list[bool]:
    """Return which texts contain a match of a pattern, in time that is linear to their length (Python's is not).

    ArrowInvalid: it is no regular expression, or one with lookaround or back-references.
    """
    found: list[bool] = pc.match_substring_regex(
        pa.array(texts, pa.string()), _LONG_ESCAPE.sub(r"\1\\x{\2}", pattern)
    ).to_pylist()
    return found


def _pattern(against: Any, pattern: str, value: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    if against.is_type(value, "string") and not matches(pattern, [value])[0]:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(against: Any, patterns: Any, value: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    names = list(value) if against.is_type(value, "object") else []
    for pattern, inner in patterns.items():
        for name, is_found in zip(names, matches(pattern, names), strict=True):
            if is_found:
                yield from against.descend(value[name], inner, path=name, schema_path=pattern)


def _additional_properties(against: Any, rest: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if against.is_type(value, "object"):
        known = schema.get("properties", {})
        names = [name for name in value if name not in known]
        for pattern in schema.get("patternProperties", ()):
            names = [name for name, is_found in zip(names, matches(pattern, names), strict=True) if not is_found]
        alone = {"additionalProperties": rest}
        others = {name: value[name] for name in names}
        yield from DEFAULT_JSONSCHEMA_VALIDATOR.VALIDATORS["additionalProperties"](against, rest, others, alone) or ()


_VALIDATOR = validators.extend(
    DEFAULT_JSONSCHEMA_VALIDATOR,
    {
        "multipleOf": _multiple_of,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    },
    type_checker=DEFAULT_JSONSCHEMA_VALIDATOR.TYPE_CHECKER.redefine("integer", _is_integer),
)
KEYWORDS = frozenset(_VALIDATOR.VALIDATORS)
"""The keywords that constrain values; others are annotations."""


def validator(schema: Mapping[str, Any]) -> Validator:
    """Return a validator for a JSON Schema, as the SDK makes it: `format` is not checked."""
    made: Validator = _VALIDATOR(schema, registry=EMPTY_REGISTRY, format_checker=FormatChecker(formats=()))
    return made


def check_record(record: Mapping[str, Any], against: Validator) -> None:
    """Check a record; the BadRowError names the column, if a single one is at fault."""
    try:
        error = best_match(against.iter_errors(record))
    except (
        ArithmeticError,
        TypeError,
        RecursionError,
        UnicodeError,
        UnknownType,
        Unresolvable,
    ) as failed:  # of numbers with too many digits; of a lone surrogate; of a type that is none; of a $ref to nothing
        raise BadRowError(f"it cannot be checked against the SCHEMA ({type(failed).__name__})") from None
    if error is not None:
        message = error.message
        if len(message) > _LONGEST:  # its value is long: what is wrong with it comes after that
            rest = message.removeprefix(repr(error.instance))
            message = f"{shorten(error.instance)}{rest}" if rest != message else message
            message = message if len(message) <= _LONGEST else f"{message[:_LONGEST]}..."
        raise BadRowError(message, str(error.path[0]) if error.path else None)


class RecordCheck:
    """The check of single records of one stream, against its SCHEMA if `checks_values`; dates are always checked."""

    def __init__(self, schema: Mapping[str, Any], *, checks_values: bool) -> None:
        self._validator = validator(schema) if checks_values else None
        self._dates = {name: kind for name, prop in schema["properties"].items() if (kind := date_format(prop))}

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Check a record, or raise BadRowError."""
        if self._validator is not None:
            check_record(record, self._validator)
        check_dates(record, self._dates)


def fits_schema(value: Any, against: Validator) -> bool:
    """Return whether a value is valid for a schema."""
    try:
        return next(iter(against.iter_errors(value)), None) is None
    except (ArithmeticError, TypeError, RecursionError, UnicodeError, UnknownType, Unresolvable):
        return False


def date_format(prop: Any) -> str | None:
    """Return the format of a property as the SDK sees it: date-time, date or time; None for other properties."""
    if not isinstance(prop, dict):
        return None
    branches = prop.get("anyOf")
    if isinstance(branches, list):  # of which the SDK knows objects only
        prop = {**prop, "anyOf": [b for b in branches if isinstance(b, dict)]}
    return get_datelike_property_type(prop)


def check_dates(record: Mapping[str, Any], formats: Mapping[str, str]) -> None:
    """Check dates by their formats as the SDK does: as Python reads ISO 8601; BadRowError if one is none."""
    for name, kind in formats.items():
        value = record.get(name)
        if value is None:
            continue
        try:
            _PARSERS[kind](value)
        except (ValueError, TypeError, OverflowError) as error:
            why = f" ({error})" if len(str(error)) <= _MOST_WHY else ""  # it may repeat a long value
            raise BadRowError(f"{shorten(value)} is no {kind}{why}", name) from None


def all_dates(texts: list[Any], kind: str) -> bool:
    """Return whether all values but None are texts, and dates as Python reads them."""
    parse = _PARSERS[kind]
    try:
        for text in texts:
            if text is not None:
                parse(text)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


# Arrow -> RECORD messages, exact: their lines at once, or each record as an object where one must be changed. Pure.
#
# Timestamps are RFC 3339 in UTC, dates and times ISO 8601, binary is base64, decimals stay decimals (the SDK writes
# them as numbers), NaN and infinities are null, columns of JSON text become their values.

_CELLS = 1 << 18  # values that are Python objects at once, about: 20 MB
_BLOCK_BYTES = 8 << 20
_FIRST_ROWS = 256  # before it is known how long the lines are


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Whole lines, and how many."""

    lines: memoryview
    count: int


def rows_in(item: object) -> int:
    """Return how many rows an encoded part of a batch has: those of a block, or one record."""
    return item.count if isinstance(item, EncodedRecords) else 1


class RecordEncoder:
    """Writes batches of one schema, in canonical types, as lines of RECORD messages, without an object for each record.

    Values are as in `to_records`, and keys in the order in which the SDK writes them.
    """

    def __init__(self, stream: str, schema: pa.Schema, version: int | None = None) -> None:
        self._encoder = JsonEncoder(schema)
        self._before = f'{{"type":"RECORD","stream":{json.dumps(stream)},"record":'
        self._after = "" if version is None else f',"version":{version}'
        self._rows = _FIRST_ROWS

    def blocks(self, batch: pa.RecordBatch) -> Iterator[EncodedRecords]:
        """Yield the lines of a batch in blocks of some MB; a record is never split. Errors: see `to_records`."""
        check_all_years(batch)
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, self._rows)
            after = f'{self._after},"time_extracted":"{datetime.now(UTC).isoformat()}"}}'
            lines = self._encoder.lines(part, self._before, after)
            start += part.num_rows
            self._rows = max(1, min(4 * self._rows, _BLOCK_BYTES * part.num_rows // len(lines)))
            yield EncodedRecords(lines, part.num_rows)


def check_all_years(batch: pa.RecordBatch) -> None:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        check_years(column, field.name)


def to_records(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch of canonical types.

    DataError: a date or timestamp lies outside the years 1 to 9999, a map has a key twice, or JSON text is not JSON.
    """
    check_all_years(batch)
    names = batch.schema.names
    step = max(1, _CELLS // max(1, len(names)))
    for start in range(0, batch.num_rows, step):
        part = batch.slice(start, step)
        columns = [_values(column, field) for column, field in zip(part.columns, batch.schema, strict=True)]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _values(column: pa.Array, field: pa.Field) -> list[Any]:
    t = column.type
    if is_json(field):
        return [None if text is None else from_json_text(text, field.name) for text in column.to_pylist()]
    if pt.is_floating(t):
        wide = column.cast(pa.float64())
        return list(pc.if_else(pc.is_finite(wide), wide, None).to_pylist())
    if pt.is_timestamp(t) or pt.is_date(t) or pt.is_time(t):
        return list(iso_texts(column).to_pylist())
    if pt.is_decimal(t) and t.scale <= 0:
        return [None if v is None else int(v) for v in column.to_pylist()]
    if pt.is_binary(t):
        return [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
    if pt.is_nested(t):
        return _nested(column, field.name)
    return list(column.to_pylist())


def _nested(column: Any, name: str) -> list[Any]:
    t = column.type
    present = column.is_valid().to_pylist()
    if pt.is_struct(t):
        parts = [_values(part, f) for f, part in zip(t, column.flatten(), strict=True)]
        names = [f.name for f in t]
        rows = zip(*parts, strict=True) if parts else iter([()] * len(column))
        return [dict(zip(names, row, strict=True)) if there else None for there, row in zip(present, rows, strict=True)]
    offsets = column.offsets.to_pylist()
    spans = zip(present, offsets[:-1], offsets[1:], strict=True)
    if pt.is_map(t):
        keys, items = column.keys.to_pylist(), _values(column.items, t.item_field)
        return [object_of(keys[a:b], items[a:b], name) if there else None for there, a, b in spans]
    flat = _values(column.values, t.value_field)
    return [flat[a:b] if there else None for there, a, b in spans]
