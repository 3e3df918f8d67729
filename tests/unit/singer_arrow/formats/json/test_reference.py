"""Rows of scalars compared with the json module, line by line, on generated and mutated lines."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from json_parsers import json_parser  # noqa: F401 - used by each test of the module

from singer_arrow.formats import FORMATS, json_lines
from singer_arrow.read_options import ReadOptions, ReadProgress

JSONL = FORMATS["jsonl"]
SCHEMA = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("b", pa.bool_())])
GOOD = [b'{"i":1,"f":0.5,"s":"x","b":true}', b'{"i":-7,"f":2,"s":"\xc3\xa9","b":false}', b'{"i":null,"f":null}', b"{}"]
numbers = st.integers(-(2**70), 2**70).map(str) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
digits = st.builds(
    "{}{}.{}".format, st.sampled_from(["", "-"]), st.integers(0, 2**70), st.text("0123456789", min_size=1)
)
edges = st.sampled_from([
    "null", "true", "false", "NaN", "Infinity", "-Infinity", "-0", "-0.0", "01", "+1", "1.", ".5", "1e2", "1e400",
    "-1e-400", "9007199254740993", "9007199254740993.0", "9223372036854775807", "9223372036854775808",
    "0.1000000000000000055511151231257827", "2.5", '"1"', '"true"', '"null"', '""', '"\\ud800"', '"\\ud83d\\ude00"',
    '"\\u0000"', '"a\tb"', '"\\x"', '"é"', "{}", "[]", '{"i":1}', "[1,2]", "",
])  # fmt: skip
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(json.dumps)
names = st.sampled_from(['"i"', '"f"', '"s"', '"b"', '"i"', '"f"', '"s"', '"b"', '"\\u0069"', '"new"', "i"])
spaces = st.sampled_from(["", "", "", " ", "\t", "\r"])


@st.composite
def lines(draw: Any) -> bytes:
    """Draw a line of members, which may repeat, be unknown or be no JSON; or the line with one byte changed."""
    values = edges | numbers | digits | texts
    members = draw(st.lists(st.tuples(names, spaces, values, spaces), max_size=5))
    text = "{" + ",".join(f"{name}{before}:{after}{value}" for name, before, value, after in members) + "}"
    line = text.encode()
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(line)))
        change = draw(st.sampled_from([b"", b'"', b"}", b"{", b",", b":", b"\\", b"\xff", b"\x00", b" ", b"0", b"{}"]))
        line = line[:at] + change + line[at + draw(st.integers(0, 1)) :]
    return line


class Whole(Decimal):
    """A number that is written without a fraction and an exponent."""


def _reference(line: bytes) -> dict[str, Any] | None:
    """Return the row of a line by the json module; None if it is bad.

    Keys that are no columns are ignored, with their values, as long as they are JSON.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        columns = [name for name, _ in pairs if name in SCHEMA.names]
        if len(set(columns)) < len(columns):
            raise ValueError("a column is there twice")
        # Arrow's reader accepts NaN in members that are not read; the exact reader refuses it.
        assume(not any(isinstance(value, float) for name, value in pairs if name not in SCHEMA.names))
        return dict(pairs)

    def integer(digits: str) -> Decimal:
        assume(digits != "-0")  # Arrow's reader keeps the sign of such a zero in a float, the exact reader does not
        return Whole(digits)

    try:
        found = json.loads(
            line.decode(), object_pairs_hook=members, parse_constant=float, parse_int=integer, parse_float=Decimal
        )
        return {name: _value(name, found.get(name)) for name in SCHEMA.names} if isinstance(found, dict) else None
    except ValueError:
        return None


def _value(name: str, value: Any) -> Any:
    """Return a value of a column, with the bits of floats in view."""
    kinds = {"i": Decimal, "f": Decimal, "s": str, "b": bool}
    if value is None:
        return None
    if not isinstance(value, kinds[name]):
        raise ValueError(f"{value!r} does not fit")
    if name == "f":
        if abs(float(value)) == float("inf"):
            raise ValueError("too large")
        # The reader takes `9007199254740993.0` for a whole number too, `1e300` not.
        assume(isinstance(value, Whole) or abs(value) < 2**53 or value != value.to_integral_value())
        if isinstance(value, Whole) and Decimal(float(value)) != value:
            raise ValueError("a whole number that would become another one")
        return repr(float(value))
    if name == "i":
        if value.adjusted() > 30 or value != int(value) or not -(2**63) <= value < 2**63:
            raise ValueError("no integer of 64 bits")
        return int(value)
    if name == "s":
        value.encode()  # fails for half a surrogate pair
    return value


@given(
    found=st.lists(st.sampled_from(GOOD) | lines(), min_size=1, max_size=12),
    often=st.sampled_from([0, 1, 64]),
    block=st.sampled_from([1, 120, 4 << 20]),
    end=st.sampled_from([b"\n", b"\r\n", b" \n\n"]),
)
@example(found=[b'{"f":9007199254740993}'], often=64, block=1, end=b"\n")
def test_rows_are_those_of_the_json_module(
    objects: Any, found: list[bytes], often: int, block: int, end: bytes
) -> None:
    options, progress = ReadOptions(on_bad_row="skip", on_drift="ignore", block_bytes=block), ReadProgress()
    reader = objects.reader(b'{"i":0}\n' + b"".join(line + end for line in found), "a.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "OFTEN", often)
        rows = [row for batch in JSONL.read(reader, SCHEMA, options, progress) for row in batch.to_pylist()]

    expected = [_reference(line) for line in [b'{"i":0}', *found] if line.strip()]
    assert [{**row, "f": None if row["f"] is None else repr(row["f"])} for row in rows] == [
        row for row in expected if row is not None
    ]
    assert progress.skipped == expected.count(None)
