from __future__ import annotations

import bz2
import csv
import gzip
import io
import random
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.casting.from_text import BadValueError, from_text
from singer_arrow.errors import ConfigError, DataError, EmptyObjectError, SchemaError
from singer_arrow.formats.csv_dialect import Dialect
from singer_arrow.schema.arrow_schema import json_field

MICROSECONDS = pa.timestamp("us", "UTC")


def _texts(names: list[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def _rows(table: pa.Table) -> list[list[Any]]:
    return [list(row.values()) for row in table.to_pylist()]


# ---- round trips against Python's csv module

fields = st.text(st.sampled_from("ab ,;\"'\\\n\r#é\u2028\U0001f600"), max_size=8)


@given(
    rows=st.lists(st.lists(fields, min_size=3, max_size=3), max_size=20),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    delimiter=st.sampled_from([",", ";", "\t"]),
    escaped=st.booleans(),
    block=st.integers(1, 60),
)
def test_what_python_writes_is_read_whatever_the_blocks(
    objects: Any, rows: list[list[str]], quoting: Any, line_end: str, delimiter: str, escaped: bool, block: int
) -> None:
    if sys.version_info < (3, 13):  # where the csv module does not quote a lone CR
        rows = [[value.replace("\r", "\n") for value in row] for row in rows]
    out = io.StringIO(newline="")
    how: Any = {"delimiter": delimiter, "quoting": quoting, "lineterminator": line_end}
    if escaped:
        how |= {"doublequote": False, "escapechar": "\\"}
    writer = csv.writer(out, **how)
    writer.writerow(["x", "y", "z"])
    writer.writerows(rows)
    data = out.getvalue().encode()
    options = {"delimiter": delimiter, "block_bytes": block, "escape": "\\" if escaped else None}
    found = objects.read(data, "rows.csv", _texts(["x", "y", "z"]), **options)
    empty = "" if quoting == csv.QUOTE_ALL else None
    assert _rows(found) == [[v or empty for v in row] for row in rows]


raw = st.text(st.sampled_from("ab \"'\\é"), max_size=6).filter(lambda t: not t.startswith('"'))
cells = st.one_of(
    raw.map(lambda t: (t, t or None)),
    st.text(st.sampled_from('a,"\n\r'), max_size=6).map(lambda t: ('"' + t.replace('"', '""') + '"', t)),
)


@given(rows=st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1, max_size=25), block=st.integers(1, 40))
def test_stray_quotes_are_text_whatever_the_blocks(objects: Any, rows: list[Any], block: int) -> None:
    """Quotes within unquoted fields break the estimate of block ends; the exact rules then apply."""
    data = "\n".join(["x,y", *(",".join(text for text, _ in row) for row in rows)]).encode()
    found = objects.read(data, "rows.csv", _texts(["x", "y"]), block_bytes=block)
    assert _rows(found) == [[value for _, value in row] for row in rows]


@given(data=st.binary(max_size=200), block=st.integers(1, 50))
def test_any_bytes_are_read_or_refused_with_the_line(objects: Any, data: bytes, block: int) -> None:
    try:
        found = objects.read(data, "any.csv", block_bytes=block)
    except EmptyObjectError:
        assert not data
    except DataError as error:
        problem = error
        assert problem.line is not None or " stream" in str(problem)
        assert "\n" not in str(problem)
    else:
        assert found.num_rows <= data.count(b"\n") + data.count(b"\r") + 1


def test_batches_depend_on_the_text_alone(objects: Any) -> None:
    rng = random.Random(3)
    data = b"x,y\n" + b"".join(b'%d,"%s"\n' % (i, b"q\n" * rng.randint(0, 9)) for i in range(20000))
    schema = pa.schema([("x", pa.int64()), ("y", pa.string())])
    plain = objects.read(data, "rows.csv", schema, block_bytes=4096)
    packed = objects.read(gzip.compress(data), "rows.csv.gz", schema, block_bytes=4096)
    in_utf16 = objects.read(data.decode().encode("utf-16"), "rows.csv", schema, block_bytes=4096, encoding="utf-16")
    borders = [[c.num_rows for c in t.to_batches()] for t in (plain, packed, in_utf16)]
    assert borders[0] == borders[1] == borders[2]
    assert len(borders[0]) > 50
    assert plain.equals(packed)
    assert plain.equals(in_utf16)


# ---- dialects, encodings, headers


def test_dialect_and_header_options(objects: Any) -> None:
    data = b"made by hand\n#comment\na|b\n1|'x|y'\n# '1|2\n2|''\n"
    found = objects.read(data, "a.csv", delimiter="|", quote="'", skip_rows=1, comment="#")
    assert found.to_pylist() == [{"a": 1, "b": "x|y"}, {"a": 2, "b": ""}]
    assert objects.read(b"1,2\n3,4", "a.csv", header=False).to_pylist() == [
        {"column_1": 1, "column_2": 2},
        {"column_1": 3, "column_2": 4},
    ]
    assert objects.read(b'a,b\n"1,2\n', "a.csv", quote=None).to_pylist() == [{"a": '"1', "b": 2}]
    assert objects.read(b"a,,\n1,2,3\n", "a.csv").column_names == ["a", "column_2", "column_3"]
    assert objects.read(b"a\r1\r\r2\r", "a.csv").to_pylist() == [{"a": 1}, {"a": 2}]
    assert objects.read(b'"a\nb","c""d"\n1,2\n', "a.csv").to_pylist() == [{"a\nb": 1, 'c"d': 2}]


def test_the_suffix_of_a_file_of_tabs_sets_the_delimiter(objects: Any) -> None:
    assert Dialect.of("a.tsv", _options()).delimiter == "\t"
    assert Dialect.of("a.psv", _options()).delimiter == "|"
    assert Dialect.of("a.tsv", _options(delimiter=";")).delimiter == ";"


@pytest.mark.parametrize(
    "bad", [{"delimiter": "||"}, {"quote": "“"}, {"escape": "\n"}, {"comment": ","}, {"quote": ","}]
)
def test_a_dialect_that_cannot_be_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"csv\."):
        Dialect.of("a.csv", _options(**bad))


def _options(**more: Any) -> Any:
    from singer_arrow.read_options import ReadOptions

    return ReadOptions(**more)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"])
def test_encodings(objects: Any, encoding: str) -> None:
    data = "näme,wert\né,1\n".encode(encoding)
    assert objects.read(data, "a.csv", encoding=encoding).to_pylist() == [{"näme": "é", "wert": 1}]


def test_a_byte_order_mark_is_no_text(objects: Any) -> None:
    assert objects.read(b"\xef\xbb\xbfa\n1\n", "a.csv").to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_compressed_files_of_several_members(objects: Any, compress: Any) -> None:
    assert objects.read(compress(b"a\n1\n") + compress(b"2\n"), "a.csv").to_pylist() == [{"a": 1}, {"a": 2}]


def test_columns_are_found_by_name(objects: Any) -> None:
    schema = pa.schema([("c", pa.int32()), ("absent", MICROSECONDS), ("a", pa.string())])
    assert objects.read(b"a,b,c\nx,y,1\n", "a.csv", schema).to_pylist() == [{"c": 1, "absent": None, "a": "x"}]
    schema = pa.schema([("z", pa.int64())])
    with pytest.raises(DataError, match="it has none of the columns that are read .'z'., but 'a', 'b'"):
        objects.read(b"a,b\nx,\xff\n", "a.csv", schema)
    assert objects.read(b"a,b\n", "a.csv", schema).num_rows == 0


def test_rows_count_without_any_column(objects: Any) -> None:
    from singer_arrow.formats import FORMATS

    batches = list(FORMATS["csv"].read(objects.reader(b"a,b\n1,2\n3,4\n"), pa.schema([]), _options()))
    assert [b.num_rows for b in batches] == [2]


# ---- types


def test_types_are_inferred_from_the_values(objects: Any) -> None:
    columns = {
        "integer": (["1", "-2", ""], pa.int64()),
        "beyond": (["1", "99999999999999999999", ""], pa.decimal128(38, 0)),
        "zeros": (["007", "1", "2"], pa.string()),
        "plus": (["+1", "2", "3"], pa.string()),
        "one_zero": (["1", "0", "1"], pa.int64()),
        "number": (["1", "2.50", "-1e-5"], pa.float64()),
        "digits": (["0.1234567890123456789", "1", "2"], pa.string()),
        "padded": (["0.10000000000000000000", "1", "2"], pa.float64()),
        "boolean": (["true", "FALSE", ""], pa.bool_()),
        "date": (["2024-02-29", "", "0001-01-01"], pa.date32()),
        "no_date": (["2023-02-29", "", ""], pa.string()),
        "moment": (["2024-01-01T00:00:00Z", "2024-01-01", "2024-01-01 01:02:03.123456789+02"], MICROSECONDS),
        "text": (["a", '""', ""], pa.string()),
        "nan": (["NaN", "1.5", "2"], pa.float64()),
        "hex": (["0x10", "1", "2"], pa.string()),
        "empty": (["", '""', ""], pa.null()),
    }
    rows = zip(*(values for values, _ in columns.values()), strict=True)
    data = "\n".join([",".join(columns), *map(",".join, rows)]).encode()
    found = objects.infer(data, "types.csv")
    assert {f.name: f.type for f in found} == {name: t for name, (_, t) in columns.items()}


def test_a_sample_is_cut_at_a_whole_record(objects: Any) -> None:
    data = b'a,b\n1,"x\ny"\n2,"' + b"z\n" * 500 + b'"\n3,text\n'
    assert objects.infer(data, "a.csv", sample_bytes=20).types == [pa.int64(), pa.string()]
    assert objects.infer(gzip.compress(data), "a.csv.gz", sample_bytes=20).types == [pa.int64(), pa.string()]
    large = b"a,b\n" + b"1,2\n" * 300_000 + b"x,y\n"
    assert objects.infer(large, "a.csv", sample_bytes=1000).types == [pa.int64(), pa.int64()]
    assert objects.infer(gzip.compress(large), "a.csv.gz", sample_bytes=1000).types == [pa.int64(), pa.int64()]


def test_values_are_exact(objects: Any) -> None:
    schema = pa.schema([
        ("i", pa.int64()), ("d", pa.decimal128(10, 2)), ("t", MICROSECONDS), ("day", pa.date32()),
        ("time", pa.time64("us")), ("b", pa.binary()), ("flag", pa.bool_()), ("s", pa.string()),
    ])  # fmt: skip
    data = (
        b"i,d,t,day,time,b,flag,s\n"
        b"9223372036854775807,1.20,2024-01-01 00:00:00,2024-01-01,12:00:00.5,YWI=,1,\n"
        b'+5,+1.5,2024-01-01T02:00:00.1234567+0200,,12:00,,tRuE,""\n'
        b'"","",2024-01-01 00:00 UTC, 2024-01-02 ,,"",FALSE, x \n'
        b" 7.0 ,,,,,,,\n"
    )
    assert objects.read(data, "a.csv", schema).to_pylist() == [
        {
            "i": 2**63 - 1, "d": Decimal("1.20"), "t": datetime(2024, 1, 1, tzinfo=UTC), "day": date(2024, 1, 1),
            "time": time(12, 0, 0, 500000), "b": b"ab", "flag": True, "s": None,
        },
        {
            "i": 5, "d": Decimal("1.5"), "t": datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC), "day": None,
            "time": time(12), "b": None, "flag": True, "s": "",
        },
        {
            "i": None, "d": None, "t": datetime(2024, 1, 1, tzinfo=UTC), "day": date(2024, 1, 2),
            "time": None, "b": None, "flag": False, "s": " x ",
        },
        {"i": 7, "d": None, "t": None, "day": None, "time": None, "b": None, "flag": None, "s": None},
    ]  # fmt: skip


moments = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", " "]),
        st.sampled_from(["2022-07-01", "1600-01-01", "2024-02-29"]),
        st.sampled_from(["", "T00:07", " 23:59:59", "T23:59:59.5", " 00:00:54.123456", "T01:02:03.123456789"]),
        st.sampled_from(["", "", "Z", "+02", " UTC", "-03:30"]),
    ),
)


@given(
    values=st.lists(st.tuples(moments, st.sampled_from(["2022-07-01 10:00", "2022-07-01T10:00Z", ""])), min_size=1),
    unit=st.sampled_from(["s", "us", "ns"]),
    zone=st.sampled_from([None, "UTC"]),
    block=st.integers(20, 200),
)
def test_timestamps_are_those_of_their_texts(
    objects: Any, values: list[tuple[str, str]], unit: Any, zone: str | None, block: int
) -> None:
    kind = pa.timestamp(unit, zone)
    texts = [[a for a, _ in values], [b for _, b in values]]
    try:
        due = [from_text(pa.array([t or None for t in column], pa.string()), kind) for column in texts]
    except BadValueError:
        due = None
    data = "a,b\n" + "".join(f"{a},{b}\n" for a, b in zip(*texts, strict=True))
    schema = pa.schema([("a", kind), ("b", kind)])
    if due is None:
        with pytest.raises(DataError):
            objects.read(data.encode(), "rows.csv", schema, block_bytes=block)
        return
    found = objects.read(data.encode(), "rows.csv", schema, block_bytes=block)
    assert [c.combine_chunks().equals(d) for c, d in zip(found.columns, due, strict=True)] == [True, True]


def test_a_column_of_json(objects: Any) -> None:
    data = b'a\n"{""x"": 1}"\nplain\n5\n'
    found = objects.read(data, "a.csv", pa.schema([json_field("a")]))
    assert found["a"].to_pylist() == ['{"x": 1}', '"plain"', "5"]


def test_null_values(objects: Any) -> None:
    data = b'a,b\nNA,NA\n"NA","NA"\n1,\n'
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    found = objects.read(data, "a.csv", schema, null_values=("NA",)).to_pylist()
    assert found == [{"a": None, "b": None}, {"a": None, "b": "NA"}, {"a": 1, "b": ""}]
    assert objects.infer(data, "a.csv", null_values=("NA",)).types == [pa.int64(), pa.null()]


# ---- bad input


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n1,2,3\n", "line 3: row has 3 fields, header has 2"),
        (b"a,b\n1,2\n\n1\n", "line 4: row has 1 field, header has 2"),
        (b'a,b\n"x\ny",2\n"x\ny",zz\n', "line 4, column 'b': 'zz' is not an integer"),
        (b"a,b\nx,2\ny,9223372036854775808\n", "line 3, column 'b': '9223372036854775808' is not an integer"),
        (b"a,b\nx,2\ny\xff,1\n", "line 3: invalid UTF-8 (byte 0xff). Set csv.encoding"),
        (b"a\xff,b\nx,2\n", "line 1: invalid UTF-8 in the header (byte 0xff). Set csv.encoding"),
        (b'a,b\nx,1\n"y,2\nz,3\n', "line 3: a quote is opened in this row and never closed"),
        (b'a,"b\nx,1\n', "line 1: a quote is opened in the header and never closed"),
        (gzip.compress(b"a,b\nx,2\n")[:-3], "truncated gzip stream"),
    ],
    ids=range(9),
)
@pytest.mark.parametrize("block", [1, 10, 4 << 20])
def test_bad_input_is_named_by_line_and_column(objects: Any, data: bytes, message: str, block: int) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    with pytest.raises(DataError) as caught:
        objects.read(data, "bad.csv", schema, block_bytes=block)
    assert str(caught.value).startswith(str(objects.url("bad.csv")))
    assert message in str(caught.value)


def test_bad_values_deep_in_a_file_are_named_by_line(objects: Any) -> None:
    lines = [b"a,t", *(b"%d,2024-01-01 00:00:00" % i for i in range(30000)), b"1,2024-13-01"]
    schema = pa.schema([("a", pa.int64()), ("t", MICROSECONDS)])
    with pytest.raises(DataError, match=r"line 30002, column 't': '2024-13-01' is not a date and time"):
        objects.read(b"\n".join(lines), "bad.csv", schema, block_bytes=10000)


def test_rows_before_a_bad_one_are_given(objects: Any) -> None:
    from singer_arrow.formats import FORMATS

    data = b"a\n" + b"1\n" * 5000 + b"x\n"
    batches = FORMATS["csv"].read(objects.reader(data), pa.schema([("a", pa.int64())]), _options(block_bytes=1000))
    rows = sum(next(batches).num_rows for _ in range(10))
    assert rows == 5000
    with pytest.raises(DataError, match="line 5002"):
        next(batches)


def test_what_holds_no_row(objects: Any) -> None:
    for data in (b"a,b\n", b"a,b", b"a,b\r\n\r\n"):
        assert objects.infer(data, "header.csv") == pa.schema([("a", pa.null()), ("b", pa.null())])
        assert objects.read(data, "header.csv").num_rows == 0
    for data in (b"\n\n", gzip.compress(b"")):
        assert objects.infer(data, "nothing.csv") == pa.schema([])
        assert objects.read(data, "nothing.csv", _texts(["a"])).num_rows == 0
    with pytest.raises(EmptyObjectError):
        objects.read(b"", "empty.csv")


def test_other_mistakes(objects: Any) -> None:
    with pytest.raises(ConfigError, match="encoding 'klingon' is not known"):
        objects.read(b"a\n1\n", "a.csv", encoding="klingon")
    with pytest.raises(DataError, match=r"line 2: it is not text in ascii|line 2: invalid UTF-8"):
        objects.read(b"a\n\x80\n", "a.csv", _texts(["a"]), encoding="ascii")
    with pytest.raises(DataError, match="line 1: it is not text in utf-16"):
        objects.read(b"a\n1", "a.csv", _texts(["a"]), encoding="utf-16-le")
    with pytest.raises(SchemaError, match=r"Column 'a' is to be list<item: int64>, which CSV cannot hold"):
        objects.read(b"a\n1\n", "a.csv", pa.schema([("a", pa.list_(pa.int64()))]))


def test_readers_give_all_memory_back(objects: Any) -> None:
    from singer_arrow.formats import FORMATS
    from singer_arrow.reading.parallel import Budget

    budget, data = Budget(1 << 20), b"a,b\n" + b"1,2\n" * 500_000
    schema = pa.schema([("a", pa.int64())])
    whole = FORMATS["csv"].read(objects.reader(data, budget=budget), schema, _options(block_bytes=10000))
    assert sum(b.num_rows for b in whole) == 500_000
    part = FORMATS["csv"].read(objects.reader(data, budget=budget), schema, _options(block_bytes=10000))
    next(iter(part))
    part.close()
    assert (budget.fetched.used, budget.decoded.used) == (0, 0)
    assert budget.decoded.peak <= 1 << 20
