"""Columns of sample values, one for each type that files of columns have, and texts for those of text.

`type_tables.py` writes the type tables from them; the tests send each of them through every kind of message.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.schema.arrow_schema import json_field

UTC = "UTC"
MICROSECONDS, NANOSECONDS = pa.timestamp("us", UTC), pa.timestamp("ns", UTC)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_YEARS = (-62_135_596_800, 253_402_300_800)
"""Seconds from 1970 to the beginning of the year 1, and to the end of the year 9999."""
_NAN, _INFINITE = math.nan, math.inf


@dataclass(frozen=True, slots=True)
class Kind:
    """A column of a file; the first value is the example of the tables.

    Args:
        given: As the file has it.
        expected: As batches of the tap hold it.
        in_json: As it comes back from JSON, where that cannot hold all of its values.
    """

    given: pa.Array
    expected: pa.Array
    in_json: pa.Array | None = None
    is_json: bool = False

    @property
    def name(self) -> str:
        """The type that the file has."""
        return type_name(self.given.type)

    @property
    def field(self) -> pa.Field:
        """The column `c` of SCHEMA."""
        return json_field("c") if self.is_json else pa.field("c", self.expected.type)

    def table(self) -> pa.Table:
        """The file's rows."""
        return pa.table({"c": self.given})


def type_name(t: pa.DataType) -> str:
    """The name of an Arrow type, shorter where Arrow's own includes the layout."""
    if isinstance(t, pa.BaseExtensionType):
        return str(t.extension_name)
    names = {"dictionary": "dictionary", "run_end_encoded": "run_end_encoded"}
    kind = next((short for long, short in names.items() if str(t).startswith(long)), None)
    return f"{kind}<{t.value_type}>" if kind else str(t)


def _same(t: pa.DataType, values: Sequence[Any]) -> Kind:
    array = pa.array(values, t)
    return Kind(array, array)


def _other(t: pa.DataType, values: Sequence[Any], expected: pa.DataType, changed: Sequence[Any] | None = None) -> Kind:
    return Kind(pa.array(values, t), pa.array(values if changed is None else changed, expected))


def kinds() -> Iterator[Kind]:
    """All of them."""
    yield from numbers()
    yield from decimals()
    yield from texts()
    yield from times()
    yield from nested()


def numbers() -> Iterator[Kind]:
    """Integers, floats, booleans."""
    for bits in (8, 16, 32, 64):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        yield _same(pa.type_for_alias(f"int{bits}"), [high, low, 0, -1, None, 1])
    for bits in (8, 16, 32, 64):
        yield _same(pa.type_for_alias(f"uint{bits}"), [2**bits - 1, 2 ** (bits - 1), 0, None, 1])
    finite = {
        pa.float16(): [1.5, 65504.0, -65504.0, 2.0**-24, 0.0999755859375, 0.0, -0.0],
        pa.float32(): [1.5, 3.4028234663852886e38, 2.0**-149, 0.10000000149011612, 16777217.0, 0.0, -0.0, -1e-7],
        pa.float64(): [1.5, 1.7976931348623157e308, 5e-324, 0.1, 2.0**53 + 2, 1e22, 123456789.12345679, 0.0, -0.0],
    }
    for t, values in finite.items():
        odd = pa.array([*values, None, _NAN, _INFINITE, -_INFINITE], t)
        yield Kind(odd, odd, pa.array([*values, None, None, None, None], t))
    yield _same(pa.bool_(), [True, False, None])


def decimals() -> Iterator[Kind]:
    """Decimals of all widths: with all digits nine, with the last one only, zero."""
    for precision, scale in (
        (12, 2),
        (38, 0),
        (38, 9),
        (38, 18),
        (38, 37),
        (38, 38),
        (1, 0),
        (19, 0),
        (28, 28),
        (29, 2),
    ):
        yield _same(pa.decimal128(precision, scale), _digits(precision, scale))
    for precision, scale in ((76, 0), (76, 38), (76, 76), (39, 0), (20, 3)):
        yield _same(pa.decimal256(precision, scale), _digits(precision, scale))
    yield _other(pa.decimal32(9, 2), _digits(9, 2), pa.decimal128(9, 2))
    yield _other(pa.decimal64(18, 2), _digits(18, 2), pa.decimal128(18, 2))
    for given, expected in (
        (pa.decimal128(5, -3), pa.decimal128(8, 0)),
        (pa.decimal256(70, -3), pa.decimal256(73, 0)),
    ):
        yield _other(given, _digits(given.precision, -3), expected)


def _digits(precision: int, scale: int) -> list[Decimal | None]:
    most, least = Decimal((0, (9,) * precision, -scale)), Decimal((0, (1,), -scale))
    return [most, most.copy_negate(), least, least.copy_negate(), Decimal(0), None]


def texts() -> Iterator[Kind]:
    """Text, bytes, JSON, and their layouts."""
    words = [
        *(
            "é😀",
            "",
            None,
            " a ",
            "a\x00b",
            '"\\\n\r\t\x7f',
            "\u2028\u0085\ufeff\U0010ffff",
            "null",
            "NaN",
            "2024-01-01",
        ),
        *("007", "true", "x" * 5000),
    ]
    yield _same(pa.string(), words)
    for t in (pa.large_string(), pa.string_view()):
        yield _other(t, words, pa.string())
    for given in (words, [2**63 - 1, None, 0, -1], [Decimal("1.10"), None, Decimal(0)]):
        expected = pa.array(given)
        yield Kind(expected.dictionary_encode(), expected)
    expected = pa.array(["é", "é", None, None, ""])
    yield Kind(pc.run_end_encode(expected), expected)
    octets = [b"\x00\xff", b"", None, bytes(range(256)), b"\xff\xfe", b"=", b"text"]
    yield _same(pa.binary(), octets)
    for t in (pa.large_binary(), pa.binary_view()):
        yield _other(t, octets, pa.binary())
    yield _other(pa.binary(3), [b"\x00\xff\x01", None, b"abc"], pa.binary())
    unique = pa.array([bytes(range(16)), None], pa.binary(16))
    yield Kind(pa.ExtensionArray.from_storage(pa.uuid(), unique), unique.cast(pa.binary()))
    tiny = pa.array([1, 0, None], pa.int8())
    yield Kind(pa.ExtensionArray.from_storage(pa.bool8(), tiny), tiny.cast(pa.bool_()))
    free = pa.array(
        [
            *('{"a": [1, 1.10, null], "😀": {}}', None, '"x"', "[]", "true", "0.1", "1e400", '{"b":"\\ud83d\\ude00"}'),
            "12345678901234567890.123456789012345678901234567890",
        ]
    )
    yield Kind(pa.ExtensionArray.from_storage(pa.json_(), free), free, is_json=True)
    yield _other(pa.null(), [None, None], pa.null())


def times() -> Iterator[Kind]:
    """Dates, times, timestamps of every unit and zone, durations."""
    days = [19_844, 0, -1, -719_162, 2_932_896, None]
    yield _same(pa.date32(), days)
    yield _other(pa.date64(), _times(86_400_000, days), pa.date32(), days)
    for unit, per_second in _PER_SECOND.items():
        last = 86_400 * per_second - 1
        values = [43_200 * per_second + per_second // 7, 0, 1, last, None]
        make = pa.time32 if unit in ("s", "ms") else pa.time64
        expected = "ns" if unit == "ns" else "us"
        yield _other(make(unit), values, pa.time64(expected), _times(_PER_SECOND[expected] // per_second, values))
    for unit, per_second in _PER_SECOND.items():
        expected = NANOSECONDS if unit == "ns" else MICROSECONDS
        values = list(_moments(per_second, *((-(2**33), 2**33 - 1) if unit == "ns" else _YEARS)))
        for zone in (None, UTC, "Europe/Rome", "+05:30"):
            yield _other(
                pa.timestamp(unit, zone), values, expected, _times(_PER_SECOND[expected.unit] // per_second, values)
            )
    for unit in _PER_SECOND:
        yield _other(pa.duration(unit), [90, 0, -1, 2**63 - 1, 1 - 2**63, None], pa.int64())


def _moments(per_second: int, begin: int, end: int) -> Iterator[int | None]:
    """A leap day, 1970, just before it, no time, the first and the last one, the ends of summer time."""
    yield from (1_709_210_096 * per_second + per_second // 7, 0, -1, None)
    yield from (begin * per_second, end * per_second - 1)
    yield from (1_711_846_800 * per_second - 1, 1_711_846_800 * per_second, 1_729_990_800 * per_second)


def _times(factor: int, values: Sequence[int | None]) -> list[int | None]:
    return [None if value is None else value * factor for value in values]


def nested() -> Iterator[Kind]:
    """Lists, structs and maps, of each other too."""
    items = [[1, None, 2**63 - 1], [], None, [None]]
    plain = pa.list_(pa.int64())
    yield _same(plain, items)
    for t in (pa.large_list(pa.int64()), pa.list_view(pa.int64()), pa.large_list_view(pa.int64())):
        yield _other(t, items, plain)
    yield _other(pa.list_(pa.int64(), 2), [[1, 2], None, [None, -1]], plain)
    yield _same(pa.list_(pa.string()), [["a", "", None, "é\x00"], [], None])
    yield _same(pa.list_(pa.binary()), [[b"\x00\xff", None, b"", bytes(range(256))], [], None])
    yield _same(pa.list_(pa.decimal128(38, 9)), [[Decimal("1.000000001"), None], [], None])
    yield _same(pa.list_(pa.date32()), [[19_844, None, -1], [], None])
    for unit, expected in (("ms", MICROSECONDS), ("ns", NANOSECONDS)):
        values = [7, None, -1]
        changed = _times(_PER_SECOND[expected.unit] // _PER_SECOND[unit], values)
        yield _other(pa.list_(pa.timestamp(unit)), [values, [], None], pa.list_(expected), [changed, [], None])
    odd = pa.array([[0.1, None, _NAN, _INFINITE], [], None], pa.list_(pa.float32()))
    yield Kind(odd, odd, pa.array([[0.1, None, None, None], [], None], odd.type))
    yield _same(pa.list_(plain), [[[1], [None], [], None], [], None])
    yield _same(pa.list_(pa.list_(pa.list_(pa.string()))), [[[["a"], []], [], None], [], None])
    members = pa.struct([("a", pa.int64()), ("b c", pa.string()), ("d", pa.date32())])
    yield _same(members, [{"a": 1, "b c": "x", "d": 19_844}, None, {"a": None, "b c": "", "d": None}])
    innermost = pa.struct([("n", pa.decimal128(38, 9)), ("l", pa.list_(pa.struct([("x", pa.binary())])))])
    deep = pa.struct([("a", pa.struct([("b", innermost)]))])
    least = {"n": Decimal("1.000000001"), "l": [{"x": b"\x00"}, None]}
    yield _same(deep, [{"a": {"b": least}}, None, {"a": None}, {"a": {"b": None}}, {"a": {"b": {"n": None, "l": []}}}])
    clocks = pa.struct([("h", pa.float16()), ("t", pa.time32("s"))])
    yield _other(
        pa.list_(clocks),
        [[{"h": 1.5, "t": 1}, None, {"h": None, "t": None}], [], None],
        pa.list_(pa.struct([("h", pa.float16()), ("t", pa.time64("us"))])),
        [[{"h": 1.5, "t": 10**6}, None, {"h": None, "t": None}], [], None],
    )
    yield _same(pa.map_(pa.string(), pa.int64()), [[("a", 1), ("", None), ("é", 2**63 - 1)], [], None])
    yield _same(pa.map_(pa.string(), pa.decimal128(38, 18)), [[("a", Decimal("1.1"))], [], None])
    yield _same(
        pa.map_(pa.string(), pa.struct([("n", pa.uint64())])), [[("a", {"n": 2**64 - 1}), ("b", None)], [], None]
    )
    yield _same(pa.map_(pa.string(), pa.map_(pa.string(), pa.bool_())), [[("a", [("b", True)]), ("c", None)], [], None])
    yield _same(pa.list_(pa.map_(pa.string(), pa.int64())), [[[("a", 1)], None, []], [], None])
    pairs = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.string())]))
    listed = [[{"key": 1, "value": "x"}, {"key": -1, "value": None}], [], None]
    yield _other(pa.map_(pa.int32(), pa.string()), [[(1, "x"), (-1, None)], [], None], pairs, listed)
    hollow = pa.array([{}, None], pa.struct([]))
    yield Kind(hollow, pa.array(["{}", None]), is_json=True)
