"""Headers with duplicate columns, without rows, or that may be missing; and text in UTF-16."""

from __future__ import annotations

import gzip
import re
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.base import first_row
from singer_arrow.read_options import ReadOptions

TEXT = "a,b\n1,é\n2,\U0001f600\n"
ROWS = [{"a": 1, "b": "é"}, {"a": 2, "b": "\U0001f600"}]


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("a,a", ["a", "a_2"]),
        ("a,b,a,a", ["a", "b", "a_2", "a_3"]),
        ("a,a,a_2", ["a", "a_3", "a_2"]),
        ("a_2,a,a", ["a_2", "a", "a_3"]),
        ("a_2,a_2,a,a", ["a_2", "a_2_2", "a", "a_3"]),
        (",a,", ["column_1", "a", "column_3"]),
        ("column_2,,", ["column_2", "column_2_2", "column_3"]),
    ],
)
def test_every_column_has_a_name_of_its_own(objects: Any, header: str, names: list[str]) -> None:
    row = ",".join(str(n) for n in range(len(names)))
    data = f"{header}\n{row}\n".encode()
    assert objects.read(data, "a.csv").to_pylist() == [dict(zip(names, range(len(names)), strict=True))]


def test_files_of_a_header_alone_have_no_rows(objects: Any) -> None:
    for data in (b"a,b", b"a,b\n", b"a,b\r\n", b"\xef\xbb\xbfa,b\n"):
        assert objects.infer(data, "a.csv") == pa.schema([("a", pa.null()), ("b", pa.null())])
        assert objects.read(data, "a.csv", pa.schema([("a", pa.int64())])).num_rows == 0


@pytest.mark.parametrize(
    ("first", "is_header"),
    [("a,b", True), ("a,", True), ("1,b", False), ("x,2024-02-29", False), ("x,1e5", False), ("true,x", False)],
)
def test_a_header_is_recognised(objects: Any, first: str, *, is_header: bool) -> None:
    data = f"{first}\n".encode() + b"2,y\n" * 3
    table = objects.read(data, "a.csv", header="auto")
    assert table.num_rows == 3 + (not is_header)
    assert (table.column_names == ["column_1", "column_2"]) != is_header
    assert objects.read(data, "a.csv", header=is_header).equals(table)


def test_the_places_of_a_file_with_a_recognised_header(objects: Any) -> None:
    data = b"1,x\n" * 100
    schema = objects.infer(data, "a.csv", header="auto")
    read = FORMATS["csv"].read(objects.reader(data, "a.csv"), schema, ReadOptions(header="auto", block_bytes=40))
    assert sum(batch.num_rows for batch in read) == 100


@pytest.mark.parametrize("mark", [True, False])
@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "own", "other"])
def test_utf_16_is_read_with_and_without_a_mark(objects: Any, order: str, encoding: str, *, mark: bool) -> None:
    if encoding == "other" and not mark:
        pytest.skip("the text does not show that the setting is wrong")
    setting = {"own": f"utf-16-{order}", "other": f"utf-16-{'be' if order == 'le' else 'le'}"}.get(encoding, encoding)
    data = (("\ufeff" if mark else "") + TEXT).encode(f"utf-16-{order}")
    for block in (8, 4 << 20):
        assert objects.read(data, "a.csv", encoding=setting, block_bytes=block).to_pylist() == ROWS


def test_json_in_utf_16_needs_no_mark(objects: Any) -> None:
    assert objects.read('{"a":"é"}\n'.encode("utf-16-le"), "a.jsonl").to_pylist() == [{"a": "é"}]


def test_the_byte_order_of_other_texts_has_to_be_set(objects: Any) -> None:
    data = "é,é\n1,2\n".encode("utf-16-le").replace(b"\xe9\x00", b"\xe9\x03")
    with pytest.raises(DataError, match="with its byte order: utf-16-le or utf-16-be"):
        objects.read(data, "a.csv", encoding="utf-16")
    assert objects.read(data, "a.csv", encoding="utf-16-le").num_rows == 1


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (b"sep=;\r\nid;amount\r\n1;9,50\r\n", {}),
        (b'"sep=,"\nid,amount\n1,"9,50"\n', {}),
        (b"\xef\xbb\xbfSEP=|\rid|amount\r1|9,50\r", {}),
        (b"sep=\t\nid\tamount\n1\t9,50", {}),
        (b"a title\nsep=;\nid;amount\n1;9,50\n", {"skip_rows": 1}),
        (b"sep=,\nid;amount\n1;9,50\n", {"delimiter": ";"}),
    ],
)
def test_a_line_that_names_the_delimiter_is_believed_and_skipped(
    objects: Any, text: bytes, options: dict[str, Any]
) -> None:
    assert objects.read(text, "a.csv", **options).to_pylist() == [{"id": 1, "amount": "9,50"}]
    schema = pa.schema([("id", pa.int64()), ("amount", pa.int64())])
    with pytest.raises(DataError, match="line [34]"):
        objects.read(text, "a.csv", schema, **options)


def test_a_column_that_begins_like_such_a_line_is_a_column(objects: Any) -> None:
    assert objects.read(b"sep=x\n1\n", "a.csv").to_pylist() == [{"sep=x": 1}]
    assert objects.read(b"sep=;,b\n1,2\n", "a.csv").to_pylist() == [{"sep=;": 1, "b": 2}]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04" + bytes(26) + b"a.csv", "it is a zip archive by its first bytes.*stream's compression to zip"),
        (b"PK\x03\x04" + bytes(26) + b"xl/workbook.xml", "it is a workbook by its first bytes.*format to excel"),
        (b"PK\x05\x06" + bytes(18), "it is an empty zip archive by its first bytes"),
        (b"\xd0\xcf\x11\xe0\xa1", "it is a workbook by its first bytes.*format to excel"),
        (b"PAR1\x15\x04", "it is a Parquet file by its first bytes.*format to parquet"),
    ],
)
def test_a_file_that_is_no_text_is_named_with_its_setting(objects: Any, data: bytes, words: str) -> None:
    for name in ("a.csv", "a.jsonl"):
        with pytest.raises(DataError, match=words):
            objects.infer(data, name)
        what = re.escape(words.partition(".*")[0].removeprefix("it is ").removesuffix(" by its first bytes"))
        with pytest.raises(DataError, match=f"what is compressed by gzip in it is {what} by its first bytes, not text"):
            objects.infer(gzip.compress(data), name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1,Ann,2024-01-31\n2,Ben,2024-02-29\n", "1, Ann, 2024-01-31"),
        ("5,,x\n6,7,y\n", "5, , x"),
        ("country,2019,2020\nA,1,2\n", "country, 2019, 2020"),  # it may be a header
        ("1.5\n2\n3.5\n", "1.5"),
        ("id,name\n1,Ann\n", None),
        ("name,city\nAnn,Bonn\n", None),
        (",a\n0,x\n", None),
        ("1,x\n", None),  # no row
        ("1,x\n,y\n", None),
        ("2024,at\n1.5,2024-01-31\n", None),
    ],
)
def test_a_first_line_that_looks_like_a_row_is_noted(objects: Any, text: str, shown: str | None) -> None:
    assert first_row([objects.infer(text.encode(), "a.csv")]) == shown
    for header in (True, False, "auto"):
        assert first_row([objects.infer(text.encode(), "a.csv", header=header)]) is None
