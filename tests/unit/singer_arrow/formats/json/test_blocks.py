"""What pyarrow.json accepts although it is not exact is left to the exact rules, and only that."""

from __future__ import annotations

import pyarrow as pa
import pytest
from json_parsers import PARSERS, use

from singer_arrow.formats.json_keys import KnownKeys
from singer_arrow.formats.json_lines import LineParser
from singer_arrow.schema.arrow_schema import json_field

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("f32", pa.float32()),
        ("s", pa.string()),
        ("d", pa.decimal128(38, 9)),
        ("small", pa.decimal128(6, 2)),
        ("n", pa.decimal128(12, 3)),
        ("day", pa.date32()),
        ("o", pa.struct([("f", pa.float64()), ("t", pa.timestamp("us", "UTC"))])),
        ("l", pa.list_(pa.float64())),
        json_field("j"),
    ]
)
GOOD = b'{"i":7,"f":2.5,"s":"x","d":1.5,"n":2,"day":"2024-02-29","o":{"f":0.5},"l":[1,2],"j":{"a":1}}'
INEXACT = {
    "two records on a line": b'{"i":1}{"i":2}',
    "a record over two lines": b'{"i":\n1}',
    "two records on a line, then one over two": b'{"i":1}{"i":2}\n{"i":\n3}',
    "null": b"null",
    "bytes that are not UTF-8": b'{"s":"a\xff"}',
    "a surrogate as UTF-8": b'{"s":"\xed\xa0\x80"}',
    "NaN": b'{"f":NaN}',
    "infinity": b'{"f":-Infinity}',
    "a number beyond all floats": b'{"f":1e400}',
    "a whole number that a float rounds": b'{"f":9007199254740993}',
    "a whole number that a float of 32 bits rounds": b'{"f32":16777217}',
    "zero with a sign": b'{"f":-0}',
    "NaN within an object": b'{"o":{"f":NaN}}',
    "zero with a sign in a list": b'{"l":[1,-0]}',
    "a decimal that overflows 128 bits": b'{"d":400000000000000000000000000000}',
    "a decimal with too many digits": b'{"small":12345}',
    "a decimal with a very small exponent": b'{"d":-22435118968584942123595749.91E-200}',
    "a decimal in quotes where only numbers are": b'{"n":"5"}',
    "the same with an escaped key": b'{"\\u006e":"5"}',
    "a day that does not exist": b'{"day":"2023-02-29"}',
    "a time that does not exist": b'{"o":{"t":"2024-02-29T25:00:00Z"}}',
    "NaN in the value of an unknown key": b'{"zz":NaN}',
    "NaN deep in the value of an unknown key": b'{"zz":[1,{"a":[-Infinity]}]}',
    "great depth in the value of an unknown key": b'{"zz":' + b"[" * 900 + b"]" * 900 + b"}",
    "a repeated key": b'{"i":1,"\\u0069":2}',
    "a repeated key of JSON text": b'{"j":1,"j":2}',
    "a repeated key of JSON text, once escaped": b'{"j":1,"\\u006a":2}',
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("text", INEXACT.values(), ids=INEXACT)
@pytest.mark.parametrize("reads_json", [True, False])
@pytest.mark.parametrize("finds_drift", [True, False])
def test_inexact_lines_are_unread_and_others_are_read(
    parser: str, text: bytes, reads_json: bool, finds_drift: bool
) -> None:
    schema = SCHEMA if reads_json else SCHEMA.remove(SCHEMA.get_field_index("j"))
    if not reads_json and b'"j"' in text:
        pytest.skip("the column is not read")
    keys = KnownKeys(schema, frozenset("j"), frozenset()) if finds_drift else None
    for first in (GOOD, b'{"i":"x"}', b'{"i":1,"i":1}'):
        data = b"\n".join([first, GOOD, text, *[GOOD] * 300, b""])
        with pytest.MonkeyPatch.context() as patch:
            use(patch, parser)
            found = LineParser(schema, keys, loose_text=False, unquoted=frozenset("n"))(data)
        bad = {*range(3, 4 + text.count(b"\n")), *([1] if first != GOOD else [])}
        assert bad == found.unread | {error.row for error in found.mismatches}
        exact = LineParser(schema, keys, loose_text=False).read_one_by_one([1], [GOOD])
        row = found.numbers.index(4 + text.count(b"\n"))
        assert found.batch.slice(row, 1).to_pylist() == exact.batch.to_pylist()


@pytest.mark.parametrize("parser", PARSERS)
def test_unknown_keys_of_a_line_with_a_large_decimal_count_once(parser: str) -> None:
    data = b'{"small":12345,"zz":1}\n' + b'{"small":1}\n' * 300
    keys = KnownKeys(SCHEMA, frozenset(), frozenset())
    with pytest.MonkeyPatch.context() as patch:
        use(patch, parser)
        reader = LineParser(SCHEMA, keys, loose_text=False, counts_unknown=True)
        _, unknown = reader.complete(reader(data), data)
    assert unknown == {"zz": 1}
