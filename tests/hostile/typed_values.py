"""Hypothesis strategies for columns of any type, and a normal form to compare values from all readers."""

from __future__ import annotations

import base64
import re
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
YEARS = (-62_135_596_800, 253_402_300_799)
"""Seconds from 1970 to the first second of the year 1, and to the last second of the year 9999."""
EPOCH = date(1970, 1, 1).toordinal()
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(["", " ", "null", "NaN", "\x00", "a\nb", 'q"q', "\\", "é😀", "\u2028", "007", "x" * 4000]),
)


def integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    """Generate integers of a number of bits."""
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1]))


@st.composite
def decimals(draw: st.DrawFn, precision: int, scale: int) -> Decimal:
    """Generate decimals of a type."""
    digits = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


def floats(bits: int) -> st.SearchStrategy[float]:
    """Generate floats of a number of bits, including infinity and NaN."""
    return st.floats(width=bits)  # type: ignore[arg-type]


def moments(unit: str) -> st.SearchStrategy[int]:
    """Generate timestamps in a unit, from the year 1 to 9999 as far as 64 bits allow."""
    factor = PER_SECOND[unit]
    low, high = YEARS[0] * factor, YEARS[1] * factor + factor - 1
    if unit == "ns":
        low, high = -(2**63) + 1, 2**63 - 1
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, -1]))


def values_of(t: pa.DataType) -> st.SearchStrategy[Any]:
    """Generate non-null values of a type for `pyarrow.array`."""
    if pa.types.is_integer(t):
        return integers(t.bit_width, signed=pa.types.is_signed_integer(t))
    if pa.types.is_floating(t):
        return floats(t.bit_width)
    if pa.types.is_boolean(t):
        return st.booleans()
    if pa.types.is_decimal(t):
        return decimals(t.precision, t.scale)
    if pa.types.is_date32(t):
        return st.integers(YEARS[0] // 86_400, YEARS[1] // 86_400)
    if pa.types.is_time(t):
        return st.integers(0, 86_400 * PER_SECOND[t.unit] - 1)
    if pa.types.is_timestamp(t):
        return moments(t.unit)
    if pa.types.is_duration(t):
        return integers(62)
    if pa.types.is_fixed_size_binary(t):
        return st.binary(min_size=t.byte_width, max_size=t.byte_width)
    if pa.types.is_binary(t) or pa.types.is_large_binary(t):
        return st.binary(max_size=20)
    if pa.types.is_struct(t):
        return st.fixed_dictionaries({f.name: optional(f.type) for f in t})
    if pa.types.is_map(t):
        keys = values_of(t.key_type)
        return st.lists(st.tuples(keys, optional(t.item_type)), max_size=3, unique_by=lambda pair: repr(pair[0]))
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return st.lists(optional(t.value_type), max_size=4)
    return TEXTS


@cache
def optional(t: pa.DataType) -> st.SearchStrategy[Any]:
    """Generate values of a type, and null."""
    return st.one_of(st.none(), values_of(t))


_FLAT = [
    *(pa.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(), pa.binary(), pa.binary(3), pa.date32()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in PER_SECOND for zone in (None, "UTC", "America/New_York")),
    *(pa.duration(unit) for unit in PER_SECOND),
]
FLAT = st.one_of(
    st.sampled_from(_FLAT),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s))),
    st.integers(39, 76).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal256(p, s))),
)
NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12),
    st.sampled_from(["id", "select", "a b", "a.b", "Ä", "x" * 200, "1", '"', "é😀", "%s", "{}"]),
).filter(lambda name: not name.casefold().startswith("_sdc_"))


def nested(
    flat: st.SearchStrategy[pa.DataType],
    *,
    maps: bool = True,
    large: bool = True,
    names: st.SearchStrategy[str] = NAMES,
) -> st.SearchStrategy[pa.DataType]:
    """Generate these types, and lists, large lists, structs and maps of them."""

    def around(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        found = [inner.map(pa.list_), fields(inner, most=3, names=names).map(pa.struct)]
        found += [inner.map(pa.large_list)] if large else []
        found += [inner.map(lambda t: pa.map_(pa.string(), t))] if maps else []
        return st.one_of(found)

    return st.recursive(flat, around, max_leaves=4)


def fields(
    types: st.SearchStrategy[pa.DataType], most: int = 4, names: st.SearchStrategy[str] = NAMES
) -> st.SearchStrategy[list[pa.Field]]:
    """Generate columns whose names differ by more than case."""
    column = st.tuples(names, types).map(lambda c: pa.field(*c))
    return st.lists(column, min_size=1, max_size=most, unique_by=lambda f: f.name.casefold())


@st.composite
def tables(
    draw: st.DrawFn,
    types: st.SearchStrategy[pa.DataType],
    most_rows: int = 8,
    names: st.SearchStrategy[str] = NAMES,
) -> pa.Table:
    """Generate tables of columns of these types."""
    schema = pa.schema(draw(fields(types, names=names)))
    rows = draw(st.integers(0, most_rows))
    columns = [pa.array(draw(st.lists(optional(f.type), min_size=rows, max_size=rows)), f.type) for f in schema]
    return pa.table(columns, schema)


def plain(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values in a form that does not depend on layouts and units.

    Times are nanoseconds, dates days, floats `("float", text of its 64 bits)`, maps sorted pairs.
    """
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in plain(chunk)]
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_dictionary(t):
        return plain(array.dictionary_decode())
    if pa.types.is_floating(t):
        return [None if v is None else _float(v) for v in array.to_pylist()]
    if pa.types.is_date32(t):
        return list(array.cast(pa.int32()).to_pylist())
    if pa.types.is_date64(t):
        return [None if v is None else v // 86_400_000 for v in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_time(t) or pa.types.is_timestamp(t):
        factor = 10**9 // PER_SECOND[t.unit]
        whole = array.cast(pa.int32()).cast(pa.int64()) if pa.types.is_time32(t) else array.cast(pa.int64())
        return [None if v is None else v * factor for v in whole.to_pylist()]
    if pa.types.is_duration(t):
        return list(array.cast(pa.int64()).to_pylist())
    if pa.types.is_struct(t):
        members = [plain(pc.struct_field(array, [n])) for n in range(t.num_fields)]
        names = [t.field(n).name for n in range(t.num_fields)]
        rows = zip(*members, strict=True) if members else ([] for _ in range(len(array)))
        valid = array.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if ok else None for row, ok in zip(rows, valid, strict=True)]
    if pa.types.is_map(t):
        pairs = [None if not scalar.is_valid else plain(scalar.values) for scalar in array]
        return [
            None if row is None else sorted(((p["key"], p["value"]) for p in row), key=_first) for row in _named(pairs)
        ]
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return [plain(scalar.values) if scalar.is_valid else None for scalar in array]
    return list(array.to_pylist())


def _named(pairs: list[Any]) -> list[Any]:
    return [
        row if row is None else [dict(zip(("key", "value"), pair.values(), strict=True)) for pair in row]
        for row in pairs
    ]


def from_json(value: Any, t: pa.DataType) -> Any:
    """Return a message's value in the form of `plain`; its numbers are `Decimal` and `int`."""
    if value is None:
        return None
    if pa.types.is_floating(t):
        return _float(pa.scalar(float(value), t).as_py())
    if pa.types.is_decimal(t):
        return Decimal(value)
    if pa.types.is_date(t):
        return date.fromisoformat(value).toordinal() - EPOCH
    if pa.types.is_time(t):
        return _nanoseconds(value)
    if pa.types.is_timestamp(t):
        day, _, clock = value.partition("T")
        assert clock.endswith(("Z", "+00:00"))
        days = date.fromisoformat(day).toordinal() - EPOCH
        return days * 86_400 * 10**9 + _nanoseconds(clock.removesuffix("Z").removesuffix("+00:00"))
    if pa.types.is_fixed_size_binary(t) or pa.types.is_binary(t) or pa.types.is_large_binary(t):
        return base64.b64decode(value, validate=True)
    if pa.types.is_struct(t):
        return {f.name: from_json(value.get(f.name), f.type) for f in t}
    if pa.types.is_map(t):
        return sorted(((k, from_json(v, t.item_type)) for k, v in value.items()), key=_first)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return [from_json(v, t.value_type) for v in value]
    return value


def without_json(value: Any) -> Any:
    """Return a value of `plain` with infinite floats and NaN as null, as JSON requires."""
    if isinstance(value, dict):
        return {k: without_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [without_json(v) for v in value]
    if isinstance(value, tuple):
        return None if value in _NOT_IN_JSON else tuple(without_json(v) for v in value)
    return value


_NOT_IN_JSON = (("float", "nan"), ("float", "inf"), ("float", "-inf"))


def _float(value: float) -> tuple[str, str]:
    return "float", repr(float(value))


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _nanoseconds(clock: str) -> int:
    found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?", clock)
    assert found, clock
    hours, minutes, seconds, fraction = found.groups()
    return (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 10**9 + int((fraction or "").ljust(9, "0"))
