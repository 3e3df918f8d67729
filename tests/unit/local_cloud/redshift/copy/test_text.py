"""COPY of CSV and delimited text: loaded rows, and errors with record and reason."""

import bz2
import csv
import gzip
import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from local_cloud.redshift.copy import Column, RedshiftError
from local_cloud.redshift.copy.text import delimited as text
from local_cloud.redshift.copy.text.blocks import last_line, last_object, last_unescaped_line, last_unquoted_line

N, S = Column("n", "integer"), Column("s", "varchar", 10)


def _zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


@pytest.mark.parametrize(
    ("option", "pack"),
    [("GZIP", gzip.compress), ("BZIP2", bz2.compress), ("ZSTD", _zstd), ("", bytes)],
)
def test_compressed_files_and_parts(copied: Any, option: str, pack: Any) -> None:
    data = pack(b"1,a\n") + pack(b"2,b\n")
    assert copied(f"CSV {option}", [N, S], data).rows == [("1", "a"), ("2", "b")]


@pytest.mark.parametrize("option", ["GZIP", "BZIP2", "ZSTD"])
def test_what_is_not_compressed_so(copied: Any, option: str) -> None:
    assert (
        f"{option} data of s3://bucket/data/0 cannot be read"
        in copied(f"CSV {option}", [N, S], b"1,a\n").failed.message
    )


def test_a_torn_file(copied: Any) -> None:
    torn = gzip.compress(b"1,a\n" * 1000)[:-12]
    assert "cannot be read" in copied("CSV GZIP", [N, S], torn).failed.message


@pytest.mark.parametrize(
    ("options", "data", "expected"),
    [
        ("CSV", b'1,"a ""b"""\n,\n', [("1", 'a "b"'), (None, "")]),
        ("CSV", b'1,"a\nb"\r\n2,"c,d"\r\n', [("1", "a\nb"), ("2", "c,d")]),
        ("CSV", b"\xef\xbb\xbf1,a", [("1", "a")]),
        ("CSV", b"1,\\N\n\\N,a\n", [("1", None), (None, "a")]),
        ("CSV NULL AS 'nil'", b"1,nil\n2,\\N\n", [("1", None), ("2", "\\N")]),
        ("CSV EMPTYASNULL", b'1,\n2,""\n', [("1", None), ("2", None)]),
        ("CSV BLANKSASNULL", b"1,  \n2, a \n", [("1", None), ("2", " a ")]),
        ("CSV TRIMBLANKS", b"1,a  \n", [("1", "a")]),
        ("CSV IGNOREHEADER 2", b"x\ny,z\n1,a\n", [("1", "a")]),
        ("CSV IGNOREBLANKLINES", b"\n1,a\n\n\n2,b\n\n", [("1", "a"), ("2", "b")]),
        ("CSV FILLRECORD", b"1\n2,b\n", [("1", ""), ("2", "b")]),
        ("CSV QUOTE '%' DELIMITER ';'", b'1;%a;"%%%\n', [("1", 'a;"%')]),
        ("CSV TRUNCATECOLUMNS", "1,012345678é\n2,0123456789a\n".encode(), [("1", "012345678"), ("2", "0123456789")]),
        ("CSV ACCEPTINVCHARS", b"1,a\xa4\xc3b\n", [("1", "a??b")]),
        ("", b'1|a"b\n2|\n', [("1", 'a"b'), ("2", "")]),
        ("DELIMITER '~~'", b"1~~a~b\n", [("1", "a~b")]),
        ("DELIMITER '\\t'", b"1\ta b\n", [("1", "a b")]),
        ("ESCAPE", b"1|a\\|\\\\\\\nb\n2|\\N\n", [("1", "a|\\\nb"), ("2", None)]),
        ("REMOVEQUOTES", b"1|\"a|b\"\n'2'|'c'\n", [("1", "a|b"), ("2", "c")]),
        ("", b"", []),
    ],
)
def test_records(copied: Any, options: str, data: bytes, expected: list[tuple[str | None, ...]]) -> None:
    found = copied(options, [N, S], data)
    assert (found.rows, found.plan.errors, found.failed) == (expected, [], None)


@pytest.mark.parametrize(
    ("options", "data", "reasons"),
    [
        ("CSV", b"1,a\nx,b\n", [(2, "n", 1207)]),
        ("CSV", b"1,a\n\n", [(2, "", 1214)]),
        ("CSV", b"1\n", [(1, "", 1214)]),
        ("CSV", b"1,a,b\n", [(1, "", 1202)]),
        ("CSV", b'1,"a\nb"\n2,"c"d\n', [(3, "", 1216)]),
        ("CSV", b'1,a"b\n', [(1, "", 1216)]),
        ("CSV", b'1,a""\n', [(1, "", 1216)]),
        ("CSV", b'1,"a\n', [(1, "", 1216)]),
        ("CSV", b"1,01234567890\n", [(1, "s", 1204)]),
        ("CSV", "1,012345678é\n".encode(), [(1, "s", 1204)]),
        ("CSV", b"2147483648,a\n", [(1, "n", 1222)]),
        ("CSV", b"1,a\n2,b\xa4\n", [(2, "s", 1220)]),
        ("CSV IGNOREHEADER 1", b"n,s\nx,a\n", [(2, "n", 1207)]),
        ("", b"1|a\n2\n", [(2, "", 1214)]),
        ("", b"1|a\0b\n", [(1, "", 1214)]),
        ("REMOVEQUOTES", b'1|"a\n', [(1, "", 1214)]),
    ],
)
def test_the_first_wrong_record_fails_the_load(
    copied: Any, options: str, data: bytes, reasons: list[tuple[int, str, int]]
) -> None:
    found = copied(options, [N, S], data)
    assert (
        found.failed.message == "Load into table 't' failed.  Check 'sys_load_error_detail' system table for details."
    )
    assert found.reasons == reasons


def test_the_error_of_a_wrong_record(copied: Any) -> None:
    (error,) = copied("CSV", [N, S, Column("d", "numeric", precision=5, scale=2)], b'1,a,2\n2,"b,c",1x\n').plan.errors
    assert (error.file, error.line, error.column, error.type, error.length) == (
        "s3://bucket/data/0",
        2,
        "d",
        "numeric",
        "5, 2",
    )
    assert (error.position, error.raw_line, error.raw_value) == (8, '2,"b,c",1x', "1x")
    assert error.reason == "Invalid digit, Value 'x', Pos 1, Type: Decimal"


def test_maxerror_leaves_out_what_is_wrong(copied: Any) -> None:
    data = b"1,a\nx,b\n3,c\n4\n5,e\n"
    found = copied("CSV MAXERROR 3", [N, S], data)
    assert found.rows == [("1", "a"), ("3", "c"), ("5", "e")]
    assert found.reasons == [(2, "n", 1207), (4, "", 1214)]
    assert found.failed is None
    assert found.plan.rows == 3
    assert copied("CSV MAXERROR 2", [N, S], data).failed is not None


def test_not_null(copied: Any) -> None:
    column = Column("n", "integer", nullable=False)
    assert copied("CSV MAXERROR 9", [column, S], b"1,a\n,b\n\\N,c\n").reasons == [(2, "n", 1213), (3, "n", 1213)]


def test_varbyte_only_from_csv(copied: Any) -> None:
    column = Column("v", "varbyte", 2)
    assert copied("CSV", [column], b'00fF\n""\n').rows == [("\\x00fF",), (None,)]
    assert copied("CSV MAXERROR 9", [column], b"0\n0g\n000000\n").reasons == [
        (1, "v", 1216),
        (2, "v", 1216),
        (3, "v", 1204),
    ]
    assert isinstance(copied("", [column], b"00\n").failed, RedshiftError)


def test_super_from_csv_is_json(copied: Any) -> None:
    column = Column("v", "super")
    assert copied("CSV", [column], b'"{""a"": 1.10}"\n"""x"""\n3\n').rows == [('{"a": 1.10}',), ('"x"',), ("3",)]
    wrong = copied("CSV MAXERROR 9", [column], b'{a}\nNaN\n"""\\u0000"""\n"""\\ud800"""\n')
    assert [code for _, _, code in wrong.reasons] == [1224, 1224, 1220, 1220]


def test_blocks_are_put_together(copied: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local_cloud.redshift.copy.text.blocks.BLOCK", 64)
    rows = [(str(at), f"a\n{at}") for at in range(200)]
    data = "".join(f'{number},"{word}"\n' for number, word in rows).encode()
    assert copied("CSV", [N, S], data).rows == rows
    assert copied("CSV GZIP", [N, S], gzip.compress(data)).rows == rows
    wrong = copied("CSV", [N, S], data + b"x,\n")
    assert wrong.reasons == [(401, "n", 1207)]


@pytest.mark.parametrize(
    ("ending", "data", "end"),
    [
        (last_line, b"a\nb\nc", 4),
        (last_line, b"abc", 0),
        (last_unescaped_line, b"a\nb\\\nc", 2),
        (last_unescaped_line, b"a\\\nb", 0),
        (last_unquoted_line(b'"'), b'a\n"b\nc', 2),
        (last_unquoted_line(b'"'), b'"b\nc"\nd', 6),
        (last_object, b'{"a":1}\n{"b"', 8),
        (last_object, b'{"a":{\n}\n}\n', 0),
        (last_object, b'{"a":[{},\n{}]', 0),
    ],
)
def test_where_whole_records_end(ending: Any, data: bytes, end: int) -> None:
    assert ending(data) == end


def test_a_quote_that_is_never_closed_takes_no_time(copied: Any) -> None:
    data = b'1,"a\n' + b"2,b\n" * 1_000_000
    assert copied("CSV", [N, S], data).reasons == [(1, "", 1216)]


_CELLS = st.text(st.sampled_from('ab,"\n\r\\|é \t'), max_size=6)
_TABLES = st.lists(st.tuples(_CELLS, _CELLS), max_size=6)


@given(_TABLES)
def test_any_csv_reads_as_it_was_written(copied: Any, rows: list[tuple[str, str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    columns = [Column("a", "varchar", 99), Column("b", "varchar", 99)]
    assert copied("CSV NULL AS 'nil'", columns, out.getvalue().encode()).rows == rows


@given(_TABLES)
def test_any_escaped_text_reads_as_it_was_written(copied: Any, rows: list[tuple[str, str]]) -> None:
    def escaped(cell: str) -> str:
        return "".join("\\" + letter if letter in "\\|\n\r" else letter for letter in cell)

    data = "".join(f"{escaped(a)}|{escaped(b)}\n" for a, b in rows).encode()
    columns = [Column("a", "varchar", 99), Column("b", "varchar", 99)]
    assert copied("ESCAPE NULL AS 'nil'", columns, data).rows == rows


@example(['1"",'])
@given(st.lists(st.text(st.sampled_from('1a,"\n'), max_size=12), max_size=4))
def test_at_once_and_one_by_one_are_the_same(copied: Any, lines: list[str]) -> None:
    data = "".join(line + "\n" for line in lines).encode()
    columns = [Column("a", "varchar", 4), Column("b", "integer")]
    quick = copied("CSV MAXERROR 99", columns, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_at_once", lambda *_: None)
        slow = copied("CSV MAXERROR 99", columns, data)
    assert (quick.rows, quick.plan.errors) == (slow.rows, slow.plan.errors)
