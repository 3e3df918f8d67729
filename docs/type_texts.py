"""Columns as text has them, in CSV and JSON Lines: what is deduced of them, and what types that are set make of them.

`type_tables.py` writes the type tables from them; the tests send each of them through every kind of message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from singer_arrow.schema.arrow_schema import json_field

MICROSECONDS = pa.timestamp("us", "UTC")
_NOON = 1_714_557_600_000_000
"""2024-05-01T10:00:00Z in microseconds from 1970."""


@dataclass(frozen=True, slots=True)
class Written:
    """A column of text; the first value is the example of the tables.

    Args:
        cells: As in the file: cells of CSV, or values of JSON.
        expected: What they are as batches of the tap hold them.
        label: What they are in words, where their type is deduced.
        setting: The type that the stream's setting `schema` gives; None: it is deduced.
        is_json: Whether they are JSON text.
    """

    cells: Sequence[str]
    expected: pa.Array
    label: str = ""
    setting: str | None = None
    is_json: bool = False

    @property
    def field(self) -> pa.Field:
        """The column `c` of SCHEMA."""
        return json_field("c") if self.is_json else pa.field("c", self.expected.type)

    @property
    def csv(self) -> bytes:
        """A file of two columns, so that a line without a value is no blank one."""
        return "".join(f"{line}\n" for line in ("c,n", *(f"{cell},1" for cell in self.cells))).encode()

    @property
    def jsonl(self) -> bytes:
        """A file of one column."""
        return "".join(f'{{"c": {cell}}}\n' for cell in self.cells).encode()


def _deduced(label: str, cells: Sequence[str], t: pa.DataType | None, values: Sequence[Any]) -> Written:
    return Written(cells, pa.array(values, t or pa.string()), label, is_json=t is None)


def deduced_from_csv() -> Iterator[Written]:
    """What types CSV has if no setting gives them."""
    yield _deduced("true and false", ["true", "FALSE", ""], pa.bool_(), [True, False, None])
    yield _deduced("whole numbers", ["42", "-7", "9223372036854775807", ""], pa.int64(), [42, -7, 2**63 - 1, None])
    large = ["9223372036854775808", "-1"]
    yield _deduced("whole numbers, some beyond 64 bits", large, pa.decimal128(38, 0), [Decimal(2**63), Decimal(-1)])
    yield _deduced("numbers of up to 17 digits", ["1.5", "2", "-1e-3", ""], pa.float64(), [1.5, 2.0, -0.001, None])
    many = "3.14159265358979323846"
    yield _deduced("numbers of more digits", [many, "2", ""], pa.string(), [many, "2", None])
    yield _deduced("numbers with leading zeros", ["007", "10", ""], pa.string(), ["007", "10", None])
    yield _deduced("YYYY-MM-DD", ["2024-05-01", "1969-12-31", ""], pa.date32(), [19_844, -1, None])
    moments = ["2024-05-01T10:00:00.000001Z", "2024-05-01 12:00:00+02:00", "2024-05-01 10:00", "1970-01-01", ""]
    yield _deduced("ISO 8601 dates with times", moments, MICROSECONDS, [_NOON + 1, _NOON, _NOON, 0, None])
    yield _deduced("times of a day", ["10:30:00", ""], pa.string(), ["10:30:00", None])
    yield _deduced("JSON", ['"{""a"": 1}"', ""], pa.string(), ['{"a": 1}', None])
    texts = ["née", '""', "", " x ", '"a,""b"""', "true", "1"]
    yield _deduced("all else", texts, pa.string(), ["née", "", None, " x ", 'a,"b"', "true", "1"])


def deduced_from_json() -> Iterator[Written]:
    """What types JSON has if no setting gives them."""
    yield _deduced("true and false", ["true", "false", "null"], pa.bool_(), [True, False, None])
    yield _deduced("whole numbers", ["42", "-9223372036854775808", "null"], pa.int64(), [42, -(2**63), None])
    large = ["9223372036854775808", "-1", "null"]
    yield _deduced(
        "whole numbers, some beyond 64 bits", large, pa.decimal128(38, 0), [Decimal(2**63), Decimal(-1), None]
    )
    yield _deduced("other numbers", ["1.5", "2", "-1e-3", "null"], pa.float64(), [1.5, 2.0, -0.001, None])
    yield _deduced("text", ['"née"', '""', "null", '"007"'], pa.string(), ["née", "", None, "007"])
    yield _deduced("text: YYYY-MM-DD", ['"2024-05-01"', '"0001-01-01"'], pa.date32(), [19_844, -719_162])
    moments = ['"2024-05-01T10:00:00.000001Z"', '"2024-05-01 12:00:00+02:00"', '"1970-01-01"', "null"]
    yield _deduced("text: ISO 8601 dates with times", moments, MICROSECONDS, [_NOON + 1, _NOON, 0, None])
    members = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    objects = ['{"a": 1, "b": ["x"]}', '{"b": []}', "null"]
    yield _deduced("objects", objects, members, [{"a": 1, "b": ["x"]}, {"a": None, "b": []}, None])
    yield _deduced("objects without members", ["{}", "null"], None, ["{}", None])
    keys = ", ".join(f'"k{n}": {n}' for n in range(201))
    yield _deduced("objects of more than 200 members", [f"{{{keys}}}"], None, [f"{{{keys}}}"])
    lists = [[1, 2], [], None, [None]]
    yield _deduced("arrays", ["[1, 2]", "[]", "null", "[null]"], pa.list_(pa.int64()), lists)
    several = ['[1, "x"]', "[]", "null"]
    yield _deduced("arrays of several kinds", several, None, ['[1, "x"]', "[]", None])
    mixed = ["1", '"x"', '{"a": 1.10}', "null"]
    yield _deduced("several kinds", mixed, None, ["1", '"x"', '{"a": 1.10}', None])


def _set(setting: str, cells: Sequence[str], t: pa.DataType | None, values: Sequence[Any]) -> Written:
    return Written(cells, pa.array(values, t or pa.string()), setting=setting, is_json=t is None)


def set_for_csv() -> Iterator[Written]:
    """What each type that is set makes of the texts of CSV."""
    yield from _whole_numbers("")
    yield _set("float32", ["1.5", "3.4028235e38", "", "-0"], pa.float32(), [1.5, 3.4028234663852886e38, None, -0.0])
    yield _set("number", ["1.5", "0.1", "1e22", "", "5e-324"], pa.float64(), [1.5, 0.1, 1e22, None, 5e-324])
    amounts = ["12.30", "-9999999999.99", "1e2", "0", ""]
    exact = [Decimal("12.30"), Decimal("-9999999999.99"), Decimal(100), Decimal(0), None]
    yield _set("decimal(12,2)", amounts, pa.decimal128(12, 2), exact)
    nines = "9" * 38 + "." + "9" * 38
    yield _set("decimal(76,38)", [nines, "-1", ""], pa.decimal256(76, 38), [Decimal(nines), Decimal(-1), None])
    yield _set("boolean", ["true", "False", "TRUE", "1", "0", ""], pa.bool_(), [True, False, True, True, False, None])
    yield _set("string", ["007", '""', "", " x ", "null"], pa.string(), ["007", "", None, " x ", "null"])
    yield _set("interval", ["1 day 02:00:00", "P1DT2H", ""], pa.string(), ["1 day 02:00:00", "P1DT2H", None])
    yield _set("binary", ["AP8=", '""', ""], pa.binary(), [b"\x00\xff", None, None])
    days = ["2024-05-01", "9999-12-31", "0001-01-01", "2024-05-01T00:00:00Z", ""]
    yield _set("date", days, pa.date32(), [19_844, 2_932_896, -719_162, 19_844, None])
    times = ["10:30:00.000001", "23:59", "00:00:00", "13:14:15+02:00", ""]
    yield _set("time", times, pa.time64("us"), [37_800_000_001, 86_340_000_000, 0, 40_455_000_000, None])
    moments = ["2024-05-01T10:00:00.000001", "2024-05-01 12:00:00+02:00", "2024-05-01 10:00 UTC", "2024-05-01", ""]
    instants = [_NOON + 1, _NOON, _NOON, _NOON - 36_000_000_000, None]
    yield _set("timestamp", moments, MICROSECONDS, instants)
    anything = ['"{""a"": 1.10}"', "1", "x", '"[1,2]"', ""]
    yield _set("json", anything, None, ['{"a": 1.10}', "1", '"x"', "[1,2]", None])


def set_for_json() -> Iterator[Written]:
    """What each type that is set makes of the values of JSON."""
    yield from _whole_numbers("null")
    yield _set("float32", ["1.5", "3.4028235e38", "null"], pa.float32(), [1.5, 3.4028234663852886e38, None])
    yield _set("number", ["1.5", "0.1", "1e22", "null", "7"], pa.float64(), [1.5, 0.1, 1e22, None, 7.0])
    amounts = ["12.30", '"-9999999999.99"', "100", "0", "null"]
    exact = [Decimal("12.30"), Decimal("-9999999999.99"), Decimal(100), Decimal(0), None]
    yield _set("decimal(12,2)", amounts, pa.decimal128(12, 2), exact)
    nines = "9" * 38 + "." + "9" * 38
    yield _set("decimal(76,38)", [nines, '"-1"', "null"], pa.decimal256(76, 38), [Decimal(nines), Decimal(-1), None])
    yield _set("boolean", ["true", "false", "null"], pa.bool_(), [True, False, None])
    anything = ['{"a": 1.10}', '"007"', '""', "null", "1.10", "true"]
    yield _set("string", anything, pa.string(), ['{"a": 1.10}', "007", "", None, "1.10", "true"])
    yield _set("binary", ['"AP8="', '""', "null"], pa.binary(), [b"\x00\xff", b"", None])
    yield _set("date", ['"2024-05-01"', '"2024-05-01T00:00:00Z"', "null"], pa.date32(), [19_844, 19_844, None])
    times = ['"10:30:00.000001"', '"23:59"', '"13:14:15+02:00"', "null"]
    yield _set("time", times, pa.time64("us"), [37_800_000_001, 86_340_000_000, 40_455_000_000, None])
    moments = ['"2024-05-01T10:00:00.000001"', '"2024-05-01 12:00:00+02:00"', '"2024-05-01"', "null"]
    yield _set("timestamp", moments, MICROSECONDS, [_NOON + 1, _NOON, _NOON - 36_000_000_000, None])
    free = ['{"a": [1, 1.10]}', "1", '"x"', "null"]
    yield _set("json", free, None, ['{"a": [1, 1.10]}', "1", '"x"', None])


def _whole_numbers(nothing: str) -> Iterator[Written]:
    for sign in ("", "u"):
        for bits in (8, 16, 32, 64):
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if not sign else (0, 2**bits - 1)
            name = "integer" if f"{sign}{bits}" == "64" else f"{sign}int{bits}"
            t = pa.type_for_alias(f"{sign}int{bits}")
            one = "1" if bits == 64 and not nothing else "1.0"
            yield _set(name, [json.dumps(high), json.dumps(low), one, nothing], t, [high, low, 1, None])
