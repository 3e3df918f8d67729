"""Numbers at the bounds of their types: every reader returns the exact value or refuses it.

The reference is json, with Decimals.
"""

from __future__ import annotations

import json
import math
import struct
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from json_parsers import json_parser  # noqa: F401 - used by each test of the module
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.from_json import BadRowError, RowReader
from singer_arrow.casting.from_text import BadValueError, from_text
from singer_arrow.formats.json_read import JsonBlockParser
from singer_arrow.read_options import ReadOptions

D = pa.decimal128
REFUSED = "refused"
SCALES = [(38, 9), (38, 2), (6, 2), (38, 0), (38, 18), (38, 38), (20, 10)]
TYPES = [pa.int64(), pa.float64(), pa.float32(), *(D(*scale) for scale in SCALES), pa.decimal256(76, 9)]
EXACT = Context(prec=2000, Emax=10**6, Emin=-(10**6))


@pytest.mark.parametrize(
    ("t", "number"),
    [
        (D(38, 9), "400000000000000000000000000000"),
        (D(38, 9), '"400000000000000000000000000000"'),
        (D(38, 9), "111111111111111111111111111111111111"),
        (D(38, 9), "1e29"),
        (D(38, 2), "15000000000000000000000000000000000000"),
        (D(6, 2), "10000"),
        (D(20, 10), "0.01e-47"),
        (D(6, 2), '"123456"'),
        (pa.list_(D(38, 9)), "[400000000000000000000000000000]"),
        (pa.list_(pa.float64()), "[2e308]"),
        (pa.list_(pa.float32()), "[4e38]"),
        (pa.struct([("x", pa.list_(pa.float64()))]), '{"x":[1.5,-2e308]}'),
        (pa.float64(), "9007199254740993"),
        (pa.float64(), "-36893488147419103233.00"),
        (pa.float32(), "16777217"),
        (pa.list_(pa.float64()), "[0.5,36893488147419103233]"),
        (pa.struct([("n", pa.int64()), ("x", pa.float64())]), '{"n":1,"x":9007199254740993}'),
        (pa.list_(pa.float64()), "[NaN]"),
        (pa.list_(pa.float64()), "[-Infinity]"),
    ],
)
def test_it_is_refused(t: pa.DataType, number: str) -> None:
    assert read(t, number) == REFUSED


@pytest.mark.parametrize("number", ["0.99999999999999999999", "123456789.00000000001", "4503599627370497.1", "1e-400"])
def test_a_fraction_of_an_integer_is_refused(number: str) -> None:
    assert read(pa.int64(), number, before="1.0") == REFUSED


@pytest.mark.parametrize("number", ["2.0", "-3.000", "7", "0.0", "null", "1e3"])
def test_an_integer_with_a_point_is_taken(number: str) -> None:
    assert read(pa.int64(), number, before="1.0") == json.loads(number)


@pytest.mark.parametrize(
    "number", ["9007199254740994", "1e23", "36893488147419103000", "12345678901234567890.5", "-0.1"]
)
def test_floats_hold_whole_numbers_that_they_print_and_round_fractions(number: str) -> None:
    assert read(pa.float64(), number) == of_text(number, pa.float64()) == float(number)


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize(
    "number", ["12345678901234567890123456789.123456789", "1" * 29, "-1e28", "0.1234567890", "0e9"]
)
def test_long_decimals_are_taken(number: str, *, quoted: bool) -> None:
    assert read(D(38, 9), json.dumps(number) if quoted else number) == Decimal(number)


def test_decimals_are_scaled_exactly() -> None:
    field, long = pa.field("a", D(38, 9)), pa.array([Decimal(4 * 10**29)], D(38, 0))
    with pytest.raises(BadValueError, match="400000000000000000000000000000"):
        fit(long, field)
    assert fit(pa.array([Decimal(4 * 10**28), None], D(38, 0)), field).to_pylist() == [Decimal(4 * 10**28), None]
    assert fit(pa.array([Decimal(7)], pa.decimal256(76, 0)), pa.field("a", D(38, 38 - 1))).to_pylist() == [7]


DIGITS = st.text("0123456789", min_size=1, max_size=45)
NINES = st.builds(lambda n, digit: digit * n, st.integers(1, 40), st.sampled_from("159"))
ROUND = st.builds(lambda a, n: a + "0" * n, st.sampled_from(["1", "4", "15", "99"]), st.integers(0, 40))
WHOLE = st.one_of(
    DIGITS, NINES, ROUND, st.integers(0, 2**64 + 2).map(str), st.sampled_from(["0", str(2**63), "9007199254740993"])
)
FRACTION = st.one_of(
    st.just(""),
    DIGITS,
    NINES,
    st.integers(1, 30).map(lambda n: "0" * n),
    st.integers(0, 30).map(lambda n: "0" * n + "1"),
)
EXPONENT = st.one_of(
    st.just(""), st.just(""), st.builds(lambda e, n: f"{e}{n}", st.sampled_from("eE"), st.integers(-80, 320))
)


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """Generate a JSON number as text."""
    whole, fraction = draw(WHOLE).lstrip("0") or "0", draw(FRACTION)
    return f"{draw(st.sampled_from(['', '-']))}{whole}{'.' if fraction else ''}{fraction}{draw(EXPONENT)}"


@given(
    t=st.sampled_from(TYPES),
    number=numbers(),
    quoted=st.booleans(),
    shape=st.sampled_from(["", "list", "struct", "both"]),
    before=st.sampled_from([None, "1.0", "1"]),
)
@example(t=D(38, 9), number="4" + "0" * 29, quoted=False, shape="", before=None)
@example(t=pa.float64(), number="2e308", quoted=False, shape="both", before=None)
@example(t=pa.int64(), number="0.99999999999999999999", quoted=False, shape="", before="1.0")
def test_all_ways_agree(t: pa.DataType, number: str, *, quoted: bool, shape: str, before: str | None) -> None:
    value = f'"{number}"' if quoted else number
    expected, kind = reference(value, t), t
    if shape in ("list", "both"):
        value, kind, expected = f"[{value},null]", pa.list_(kind), nested(expected, [expected, None])
    if shape in ("struct", "both"):
        value, kind, expected = f'{{"x":{value}}}', pa.struct([("x", kind)]), nested(expected, {"x": expected})
    assert same(one_by_one(kind, value), expected)
    assert same(read(kind, value, before=None if shape else before), expected)
    if not shape and pt.is_decimal(t):
        assert same(of_text(number, t), expected)


def nested(leaf: Any, value: Any) -> Any:
    return REFUSED if isinstance(leaf, str) else value


def same(found: Any, expected: Any) -> bool:
    return repr(found) == repr(expected) or (not isinstance(found, str) and bool(found == expected))


def reference(text: str, t: pa.DataType) -> Any:
    value = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    if isinstance(value, str) and not pt.is_decimal(t):
        return REFUSED
    number = Decimal(value)
    if pt.is_integer(t):
        return int(number) if abs(number) < 2**64 and number == int(number) and -(2**63) <= number < 2**63 else REFUSED
    if pt.is_floating(t):
        return _float(number, t)
    scaled = number.scaleb(t.scale, EXACT)
    fits = scaled == scaled.to_integral_value(context=EXACT) and scaled.copy_abs() < 10**t.precision
    return number if fits else REFUSED


def _float(number: Decimal, t: pa.DataType) -> Any:
    try:
        found = _nearest(number, t)
    except OverflowError:
        return REFUSED
    exponent = number.as_tuple().exponent
    if not math.isfinite(found) or not isinstance(exponent, int):
        return REFUSED
    if exponent > 0 or number != int(number) or found == number:
        return found
    printed = next(text for n in range(18) if _nearest(text := f"{found:.{n}e}", t) == found)
    return found if Decimal(printed) == number else REFUSED  # all digits are there, and none may change


def _nearest(number: Decimal | str, t: pa.DataType) -> float:
    form = "<d" if t == pa.float64() else "<f"
    near: float = struct.unpack(form, struct.pack(form, float(number)))[0]
    return near


def read(t: pa.DataType, value: str, *, before: str | None = None) -> Any:
    """Read a value as in blocks of text; `before` is alone in the preceding block."""
    parser = JsonBlockParser(pa.schema([("a", t)]), ReadOptions())
    if before is not None:
        for _ in range(2):
            parser(memoryview(f'{{"a":{before}}}\n'.encode()))
    batch = parser(memoryview(f'{{"a":{value}}}\n'.encode())).batch
    if batch is None:
        return REFUSED
    batch.validate(full=True)
    return batch.column(0)[0].as_py()


def one_by_one(t: pa.DataType, value: str) -> Any:
    try:
        values, mismatches = RowReader(pa.schema([("a", t)]))(f'{{"a":{value}}}'.encode())
    except BadRowError:
        return REFUSED
    return REFUSED if mismatches else pa.array(values, t)[0].as_py()


def of_text(number: str, t: pa.DataType) -> Any:
    try:
        return from_text(pa.array([number]), t)[0].as_py()
    except BadValueError:
        return REFUSED


def test_decimals_become_text_without_an_exponent() -> None:
    some = [Decimal("1E-10"), Decimal("0E-10"), None, Decimal("-123.4567890123"), Decimal("-0.0000100000")]
    plain = ["0.0000000001", "0.0000000000", None, "-123.4567890123", "-0.0000100000"]
    for made in (pa.decimal128(38, 10), pa.decimal256(76, 10)):
        assert fit(pa.array(some, made), pa.field("n", pa.string())).to_pylist() == plain
    whole = pa.array([Decimal("12E2"), Decimal("-9E38")], pa.decimal256(60, -2))
    assert fit(whole, pa.field("n", pa.string())).to_pylist() == ["1200", f"-9{'0' * 38}"]
