"""Random Arrow tables of the types that connectors exchange, and their expected JSON values."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import types as pt

from singer_arrow.schema.arrow_schema import is_json, json_field

_SECONDS = {"us": 10**6, "ns": 10**9}
_NAMES = st.text('ab "\\é\n:{},\U0001f600', max_size=5)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _decimals(make: Any, precision: int, scale: int) -> tuple[pa.Field, st.SearchStrategy[Any]]:
    most = 10**precision - 1
    digits = st.integers(-most, most) | st.integers(-20, 20)
    exact = digits.map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))
    return pa.field("", make(precision, scale)), exact


def _moments(unit: str, low: datetime, high: datetime) -> tuple[pa.Field, st.SearchStrategy[Any]]:
    per_second = _SECONDS[unit]
    first, last = (((at - _EPOCH) // timedelta(seconds=1)) * per_second for at in (low, high))
    return pa.field("", pa.timestamp(unit, "UTC")), st.integers(first, last)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_LEAVES: list[tuple[pa.Field, st.SearchStrategy[Any]]] = [
    *(
        (pa.field("", t), st.integers(-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1))
        for t in (pa.int8(), pa.int32(), pa.int64())
    ),
    (pa.field("", pa.uint64()), st.integers(0, 2**64 - 1)),
    (pa.field("", pa.float64()), st.floats()),
    (pa.field("", pa.float32()), st.floats(width=32)),
    (pa.field("", pa.float16()), st.floats(width=16)),
    (pa.field("", pa.bool_()), st.booleans()),
    (pa.field("", pa.string()), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (pa.field("", pa.binary()), st.binary(max_size=10)),
    (pa.field("", pa.date32()), st.dates()),
    _moments("us", datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    _moments("ns", datetime(1678, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)),
    (pa.field("", pa.time64("us")), st.integers(0, 86_400 * 10**6 - 1)),
    (pa.field("", pa.time64("ns")), st.integers(0, 86_400 * 10**9 - 1)),
    *(_decimals(pa.decimal128, precision, scale) for precision, scale in ((5, 2), (15, 15), (38, 9), (38, 0))),
    *(_decimals(pa.decimal256, precision, scale) for precision, scale in ((60, 0), (76, 38))),
    (pa.field("", pa.null()), st.none()),
]
_JSON_TEXT = (json_field(""), _json.map(lambda value: json.dumps(value, indent=1)))


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def lists(of: Any) -> Any:
        return pa.field("", pa.list_(of[0].type)), st.lists(st.none() | of[1], max_size=3)

    def structs(of: Any) -> Any:
        names = [f"f{i}" for i in range(len(of))]
        values = {n: st.none() | s for n, (_, s) in zip(names, of, strict=True)}
        members = [(n, f.type) for n, (f, _) in zip(names, of, strict=True)]
        return pa.field("", pa.struct(members)), st.fixed_dictionaries(values)

    def maps(of: Any) -> Any:
        keys = st.text('ab"\\é', max_size=3)
        pairs = st.dictionaries(keys, st.none() | of[1], max_size=3).map(lambda d: list(d.items()))
        return pa.field("", pa.map_(pa.string(), of[0].type)), pairs

    return inner.map(lists) | st.lists(inner, min_size=1, max_size=3).map(structs) | inner.map(maps)


_columns = st.recursive(st.sampled_from(_LEAVES), _nested, max_leaves=4) | st.just(_JSON_TEXT)


@st.composite
def tables(draw: Any, *, most_rows: int = 8) -> pa.Table:
    """Generate a table of canonical types, possibly sliced so that its first rows are cut off."""
    columns = draw(st.lists(_columns, min_size=1, max_size=5))
    rows, cut = draw(st.integers(0, most_rows)), draw(st.integers(0, 2))
    names = draw(st.lists(_NAMES, min_size=len(columns), max_size=len(columns), unique=True))
    fields = [field.with_name(name) for name, (field, _) in zip(names, columns, strict=True)]
    arrays = [pa.array([draw(st.none() | values) for _ in range(rows)], field.type) for field, values in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields)).slice(cut)


def in_json(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as exact JSON values, converted one by one in Python."""
    columns = [
        [_value(scalar, field) for scalar in column] for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _value(scalar: Any, field: pa.Field) -> Any:
    t = field.type
    if not scalar.is_valid:
        return None
    if is_json(field):
        return json.loads(scalar.as_py(), parse_float=Decimal)
    if pt.is_struct(t):
        return {f.name: _value(scalar[f.name], f) for f in t}
    if pt.is_map(t):
        return {entry["key"].as_py(): _value(entry["value"], t.item_field) for entry in scalar.values}
    if pt.is_list(t):
        return [_value(item, t.value_field) for item in scalar.values]
    if pt.is_timestamp(t) or pt.is_time(t):
        return _moment(scalar.value, t)
    return _plain(scalar.as_py())


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, date) else value


def _moment(ticks: int, t: pa.DataType) -> str:
    seconds, fraction = divmod(ticks, _SECONDS[t.unit])
    digits = f"{fraction:0{len(str(_SECONDS[t.unit])) - 1}d}"
    if pt.is_time(t):
        return f"{time(seconds // 3600, seconds // 60 % 60, seconds % 60).isoformat()}.{digits}"
    return f"{(_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()}.{digits}Z"
