"""XML: rows, names and types of elements, what is refused, drift and bad values, and readings that resume."""

from __future__ import annotations

import gzip
import io
import logging
import zipfile
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError, DriftError, EmptyObjectError
from singer_arrow.formats import FORMATS, detect_format
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint
from singer_arrow.schema.arrow_schema import is_json

NAME = "a.xml"
ORDERS = """<?xml version="1.0" encoding="latin-1"?>
<!-- a comment --><?target a processing instruction?>
<s:orders xmlns:s="urn:shop" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <s:order id="1"><item>café</item><item><![CDATA[a < b]]> &amp; c&#33;</item>
    <price currency="EUR">1.50</price><day>2024-05-01</day><zip>007</zip></s:order>
  <s:order id="2"><item/><price>2</price><zip> </zip><to floor="2"><name>A</name><s:city>Bern</s:city></to></s:order>
  <s:order id="3"><note xsi:nil="true"/><item>pen</item></s:order>
</s:orders>
<!-- the end -->""".encode("latin-1")
TO = pa.struct([("floor", pa.int64()), ("name", pa.string()), ("city", pa.string())])
TYPES = {
    "id": pa.int64(),
    "item": pa.list_(pa.string()),
    "price": pa.struct([("currency", pa.string()), ("_text", pa.float64())]),
    "day": pa.date32(),
    "zip": pa.string(),
    "to": TO,
    "note": pa.null(),
}
ROWS = {
    "id": [1, 2, 3],
    "item": [["café", "a < b & c!"], None, ["pen"]],
    "price": [{"currency": "EUR", "_text": 1.5}, {"currency": None, "_text": 2.0}, None],
    "day": [date(2024, 5, 1), None, None],
    "zip": ["007", None, None],
    "to": [None, {"floor": 2, "name": "A", "city": "Bern"}, None],
    "note": [None, None, None],
}
INTEGERS = b"<r><x n='1'/><x n='two'/><x n='3'/></r>"


def of(*rows: str) -> bytes:
    """Return a document with these rows."""
    return f"<r>{''.join(f'<x>{row}</x>' for row in rows)}</r>".encode()


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("in/a.xml", data)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "pack"), [(NAME, bytes), ("a.xml.gz", gzip.compress), ("a.xml.zip", zipped)], ids=["plain", "gz", "zip"]
)
def test_rows_and_types(name: str, pack: Any, objects: Any) -> None:
    assert detect_format(name) == "xml"
    assert objects.infer(pack(ORDERS), name) == pa.schema(TYPES)
    assert objects.read(pack(ORDERS), name).to_pydict() == ROWS


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (of("<v>1</v>", "<v>-2</v>"), [1, -2]),
        (of("<v>1</v>", "<v>2.50</v>"), [1.0, 2.5]),
        (of("<v>1</v>", "<v>01</v>"), ["1", "01"]),
        (of("<v>1</v>", "<v>+1</v>"), ["1", "+1"]),
        (of("<v>true</v>", "<v>false</v>", "<v/>"), [True, False, None]),
        (of("<v>12345678901234567890.5</v>"), ["12345678901234567890.5"]),
        (of("<v> a </v>", "<v>\n</v>", "<v>a\nb</v>"), [" a ", None, "a\nb"]),
        (of("<v>a</v>", "<v><w>b</w></v>"), [{"_text": "a", "w": None}, {"_text": None, "w": "b"}]),
        (of("<v>a<w>b</w>c</v>", "<v/>"), [{"w": "b", "_text": "ac"}, None]),
        (of("<v><w i='1'/></v><v/>", "<v/>"), [[{"w": {"i": 1}}, None], None]),
        (of("<v><w>1</w><w>2</w></v>", "<v><w>3</w></v>"), [{"w": [1, 2]}, {"w": [3]}]),
    ],
)
def test_values(content: bytes, expected: Sequence[Any], objects: Any) -> None:
    assert objects.read(content, NAME)["v"].to_pylist() == expected


def test_attributes_of_a_row_its_text_and_empty_rows(objects: Any) -> None:
    data = b"<r><x i='1'>a</x><x>b</x><x/></r>"
    assert objects.read(data, NAME, attribute_prefix="@").to_pydict() == {
        "@i": [1, None, None],
        "_text": ["a", "b", None],
    }
    assert objects.read(b"<r><x>5</x><x>6</x></r>", NAME).to_pydict() == {"_text": [5, 6]}


def test_the_path_of_rows(objects: Any, caplog: pytest.LogCaptureFixture) -> None:
    feed = b"<feed><head><x>no</x></head><list><x v='1'/><y v='2'/></list><list><x v='3'/></list></feed>"
    for path, expected in {"feed/list/x": [1, 3], "/feed/*/x/": [1, 3], "*/list/*": [1, 2, 3]}.items():
        assert (
            objects.read(feed, NAME, pa.schema([("v", pa.int64())]), record_path=path)["v"].drop_null().to_pylist()
            == expected
        )
    with pytest.raises(DataError, match=r"a\.xml, line 1: its root element is <feed>, not <r>\. Correct xml\.record"):
        objects.infer(feed, NAME, record_path="r/x")
    with pytest.raises(
        DataError, match=r"not alike: <head> and <list> .* Set xml\.record_path, for instance to feed/li"
    ):
        objects.infer(feed, NAME)
    with caplog.at_level(logging.WARNING):
        assert objects.read(feed, NAME, record_path="feed/x").num_rows == 0
    assert "no element is at feed/x, so that it has no rows" in caplog.text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<r><x id='1'><id>2</id></x></r>", "'@id' and 'id' of one element would both be 'id'"),
        (b"<r xmlns:a='u:a' xmlns:b='u:b'><x><a:i/><b:i/></x></r>", "'u:a}i' and 'u:b}i' of one element"),
        (b"<r xmlns:a='u:a'><x i='1' a:i='2'/></r>", "'@i' and '@u:a}i' of one"),
        (b"<r><x><_text/>a</x></r>", "'_text' and 'text' of one element"),
    ],
)
def test_names_that_clash(data: bytes, reason: str, objects: Any) -> None:
    with pytest.raises(DataError, match=rf"a\.xml, line 1: {reason}"):
        objects.read(data, NAME)


LAUGHS = (
    "<!DOCTYPE r [<!ENTITY l0 'lol'>"
    + "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
    + "]><r><x>&l9;</x></r>"
)


@pytest.mark.parametrize(
    "data",
    [
        LAUGHS.encode(),
        b"<!DOCTYPE r SYSTEM 'http://127.0.0.1:1/a.dtd'><r><x/></r>",
        b"<!DOCTYPE r [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><r><x>&x;</x></r>",
        b"<!DOCTYPE r [<!ENTITY % p SYSTEM 'http://127.0.0.1:1/'>%p;]><r><x/></r>",
    ],
    ids=["laughs", "dtd", "entity", "parameter"],
)
def test_document_types_are_refused(data: bytes, objects: Any) -> None:
    with pytest.raises(
        DataError, match=r"a\.xml, line 1: it has a document type \(<!DOCTYPE>\), whose entities are not read"
    ):
        objects.infer(data, NAME)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ORDERS[:-60], "line 7: it is truncated"),
        (ORDERS[:330], "line 5: it is truncated"),
        (ORDERS.replace(b"</item>", b"</other>", 1), r"line 4: it is not well-formed XML \(mismatched tag\)"),
        (ORDERS.replace(b"&amp;", b"&no;"), r"line 4: it is not well-formed XML \(undefined entity\)"),
        (b"no xml", "line 1: it is not well-formed XML"),
        (b"<r><x/></r><r/>", r"\(junk after document element\)"),
        (b"<r><x>\xff</x></r>", r"\(invalid token\)|not well-formed"),
        (b"<?xml version='1.0' encoding='gbk'?><r><x>\xc4\xe3</x></r>", "multi-byte encodings .* or csv.encoding"),
        (b"<?xml version='1.0' encoding='none'?><r/>", "line 1: it is not well-formed XML .*unknown encoding"),
        (b"<r>" + b"<x>" * 300, "a row has more than 1,048,576 elements, or more than 200 within each other"),
        (b"<r><x>" + b"<y/>" * (1 << 20), "a row has more than 1,048,576 elements"),
        (b"<r><x><y>" + b"0" * (70 << 20), "a row is longer than 51 MiB"),
        (b"<r><x a='" + b"0" * (10 << 20), "or a tag or comment than 8 MiB"),
        (b"<!--" + b"0" * (10 << 20), "or a tag or comment than 8 MiB"),
    ],
)
@pytest.mark.full("data10-a row has more than 1,048,576 elements")
def test_documents_that_cannot_be_read(data: bytes, reason: str, objects: Any) -> None:
    with pytest.raises(DataError, match=rf"a\.xml, .*{reason}"):
        objects.read(data, NAME, pa.schema([("id", pa.int64())]), on_bad_row="skip")


def test_an_empty_object_and_a_document_without_rows(objects: Any) -> None:
    with pytest.raises(EmptyObjectError):
        objects.infer(b"", NAME)
    assert objects.read(b"<r/>", NAME).num_rows == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "latin-1"])
def test_encodings(encoding: str, objects: Any) -> None:
    declared = "utf-16" if encoding == "utf-16-le" else encoding.removesuffix("-sig")
    data = f"<?xml version='1.0' encoding='{declared}'?><r><x n='é'/></r>".encode(encoding)
    assert objects.read(data, NAME).to_pydict() == {"n": ["é"]}
    wrong = "<?xml version='1.0' encoding='utf-8'?><r><x n='你'/></r>".encode("gbk")
    assert objects.read(wrong, NAME, encoding="gbk").to_pydict() == {"n": ["你"]}


def test_nulls(objects: Any) -> None:
    assert objects.read(b"<r><x n='-' m=''>-</x><x n='1'/></r>", NAME, null_values=("-",)).to_pydict() == {
        "n": [None, 1],
        "m": [None, None],
    }


def test_a_schema_decides_the_shape(objects: Any, caplog: pytest.LogCaptureFixture) -> None:
    data = of("<v>1</v>", "<v>2</v><v>3</v>", "<v w='4'/>", "<v/>")
    members = pa.struct([("w", pa.int64()), ("_text", pa.int64()), ("lacking", pa.int64())])
    found = objects.read(data, NAME, pa.schema([("v", pa.list_(members)), ("none", pa.int64())]))
    null = {"w": None, "_text": None, "lacking": None}
    assert found["v"].to_pylist() == [
        [null | {"_text": 1}],
        [null | {"_text": n} for n in (2, 3)],
        [null | {"w": 4}],
        None,
    ]
    assert objects.read(data, NAME, pa.schema([("v", pa.string())]))["v"].to_pylist() == [
        "1",
        '["2","3"]',
        '{"w":"4"}',
        None,
    ]
    assert (
        caplog.text.count(
            "a.xml: elements that repeat, or have elements, where the schema has a value are JSON text: v"
        )
        == 1
    )
    with pytest.raises(DataError, match=r"a\.xml, row 2, column 'v': '\[\"2\",\"3\"\]' is not an integer"):
        objects.read(data, NAME, pa.schema([("v", pa.int64())]))


def test_too_many_levels_and_members_are_json(objects: Any) -> None:
    deep = of("<v>" + "<w>" * 40 + "1" + "</w>" * 40 + "</v>")
    inner = objects.infer(deep, NAME).field("v")
    while pa.types.is_struct(inner.type):
        inner = inner.type.field(0)
    assert is_json(inner)
    assert objects.read(deep, NAME).num_rows == 1
    assert is_json(objects.infer(of("<v>" + "".join(f"<w{n}>1</w{n}>" for n in range(300)) + "</v>"), NAME).field("v"))


# Bad values and drift -----------------------------------------------------------------------------------------------


def test_bad_values(objects: Any) -> None:
    schema = pa.schema([("n", pa.int64())])
    with pytest.raises(DataError, match=r"a\.xml, row 2, column 'n': 'two' is not an integer"):
        objects.read(INTEGERS, NAME, schema)
    assert objects.read(INTEGERS, NAME, schema, on_bad_row="skip")["n"].to_pylist() == [1, 3]
    rescued = objects.read(INTEGERS, NAME, schema.append(pa.field("_sdc_rescued", pa.string())), on_bad_row="rescue")
    assert rescued["_sdc_rescued"].to_pylist() == [None, '{"n":"two"}', None]
    skipped = list[Any]()
    progress = ReadProgress(on_skip=skipped.append)
    list(FORMATS["xml"].read(objects.reader(INTEGERS, NAME), schema, ReadOptions(on_bad_row="dead_letter"), progress))
    assert [(row.position, row.column, row.record) for row in skipped] == [(2, "n", '{"n":"two"}')]


DRIFT = {"on_drift": "raise", "known_columns": frozenset[str]()}
NESTED = pa.list_(pa.struct([("w", pa.int64())]))


@pytest.mark.parametrize(
    ("data", "schema", "expected"),
    [
        (of("<n>1</n><m>2</m>"), {"n": pa.int64()}, {"m": pa.int64()}),
        (of("<n>1</n>", "<n>two</n>"), {"n": pa.int64()}, {"n": pa.string()}),
        (of("<n>1</n>", "<n>2.5</n>"), {"n": pa.int64()}, {"n": pa.float64()}),
        (of("<n>1</n>"), {"n": pa.null()}, {"n": pa.int64()}),
        (
            of("<v><w>1</w><u>x</u></v>"),
            {"v": NESTED},
            {"v": pa.list_(pa.struct([("w", pa.int64()), ("u", pa.string())]))},
        ),
        (of("<v><w>x</w></v>"), {"v": NESTED}, {"v": pa.list_(pa.struct([("w", pa.string())]))}),
        (of("<n>1</n><n>2</n>"), {"n": pa.int64()}, {"n": pa.string()}),  # JSON text
        (of(*["<v><w>1</w></v>"] * 90_000, "<v><w>1</w></v><v/>"), {"v": NESTED.value_type}, {"v": pa.string()}),
        (
            of(*["<v><w><x>1</x></w></v>"] * 90_000, "<v><w><x>1</x></w><w/></v>"),
            {"v": pa.struct([("w", pa.struct([("x", pa.int64())]))])},
            {"v": pa.struct([("w", pa.string())])},
        ),
    ],
)
@pytest.mark.full("data7-schema7-expected7", "data8-schema8-expected8")
def test_drift(data: bytes, schema: dict[str, pa.DataType], expected: dict[str, pa.DataType], objects: Any) -> None:
    with pytest.raises(DriftError) as raised:
        objects.read(data, NAME, pa.schema(schema), **DRIFT)
    assert {f.name: f.type for f in raised.value.fields} == expected
    assert "a.xml, column '" in str(raised.value)
    if len(data) > 1 << 20:
        return
    wider = pa.schema({**schema, **expected})
    wider = pa.schema([f if f.type != pa.string() else raised.value.fields[0] for f in wider])
    assert objects.read(data, NAME, wider, **DRIFT).num_rows == data.count(b"<x>")


@pytest.mark.full
def test_a_bad_value_after_the_beginning_is_no_drift(objects: Any) -> None:
    data = of(*["<n>1</n>"] * 100_000, "<n>two</n>", "<n>3</n>")
    schema = pa.schema([("n", pa.int64())])
    with pytest.raises(DataError, match=r"row 100001, column 'n': 'two' is not an integer"):
        objects.read(data, NAME, schema, **DRIFT)
    assert objects.read(data, NAME, schema, **DRIFT, on_bad_row="skip").num_rows == 100_001


def test_an_object_that_repeats_where_the_schema_has_one(objects: Any) -> None:
    schema = pa.schema([("v", NESTED.value_type), ("_sdc_rescued", pa.string())])
    with pytest.raises(DataError, match=r"a\.xml.*column 'v': it repeats, and the schema has one of it"):
        objects.read(of("<v><w>1</w></v><v><w>2</w></v>"), NAME, schema, on_drift="rescue", on_bad_row="rescue")


def test_what_the_schema_lacks_is_rescued(objects: Any) -> None:
    schema = pa.schema([("n", pa.int64()), ("v", NESTED), ("_sdc_rescued", pa.string())])
    data = of("<n>1</n><v><w>1</w></v>", "<n>2</n><v><w>2</w><u>x</u></v><m>3</m>", "<m/>")
    found = objects.read(data, NAME, schema, on_drift="rescue", known_columns=frozenset())
    assert found["_sdc_rescued"].to_pylist() == [None, '{"m":"3","v":[{"w":"2","u":"x"}]}', None]
    assert found["v"].to_pylist() == [[{"w": 1}], [{"w": 2}], None]
    without = of("<n>1</n>", "<n>2</n>")
    assert objects.read(without, NAME, pa.schema([]), on_drift="ignore").num_rows == 2


# Readings -----------------------------------------------------------------------------------------------------------


def test_every_reading_gives_the_same_batches_and_resumes(objects: Any) -> None:
    data = of(*(f"<n>{'bad' if n % 7 == 3 else n}</n>" for n in range(500)))
    options, schema, expected = ReadOptions(block_bytes=800, on_bad_row="skip"), pa.schema([("n", pa.int64())]), []

    def read(start: ResumePoint | None) -> list[tuple[list[int], ResumePoint | None]]:
        progress = ReadProgress(start)
        batches = FORMATS["xml"].read(objects.reader(data, NAME), schema, options, progress)
        return [(batch["n"].to_pylist(), progress.resume_point) for batch in batches]

    expected = read(None)
    assert len(expected) > 20
    assert [n for rows, _ in expected for n in rows] == [n for n in range(500) if n % 7 != 3]
    for at in range(0, len(expected), 5):
        assert read(expected[at][1]) == expected[at + 1 :]
    with pytest.raises(DataError, match="where an earlier run ended"):
        read(ResumePoint(400, 0, 501))


def test_a_reading_that_resumes_finds_the_drift_of_the_beginning(objects: Any) -> None:
    data = of("<n>one</n>", *(f"<n>{n}</n>" for n in range(100)))
    options, progress = ReadOptions(on_drift="raise", block_bytes=800), ReadProgress(ResumePoint(50, 0, 50))
    batches = FORMATS["xml"].read(objects.reader(data, NAME), pa.schema([("n", pa.int64())]), options, progress)
    with pytest.raises(DriftError, match="with the file's values it is string, the schema has it as int64"):
        next(batches)
