"""CSV, XML, JSON and Excel files from several writers: the same values in every kind of message."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import openpyxl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from tap_runs import MESSAGES, sent
from typed_values import TEXTS, fields, optional, plain, without_json

MOST_ROWS = 12
CELLS: dict[pa.DataType, tuple[st.SearchStrategy[Any], Callable[[Any], str]]] = {
    pa.int64(): (st.integers(-(2**63), 2**63 - 1), str),
    pa.float64(): (st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: "." in repr(x)), repr),
    pa.bool_(): (st.booleans(), lambda value: "true" if value else "false"),
    pa.date32(): (st.dates(date(1, 1, 1)), date.isoformat),
    pa.timestamp("us", "UTC"): (
        st.datetimes(datetime(1, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - the strategy adds the zone
        lambda value: value.isoformat(),
    ),
    pa.string(): (TEXTS.map(lambda text: f"x{text}"), str),
}
"""Values of a column, and their text in a CSV file."""


@st.composite
def csv_files(draw: st.DrawFn) -> tuple[pa.Table, bytes, dict[str, Any]]:
    """Generate a table, its CSV file in any dialect of Python's writer, and the settings to read it."""
    kinds = st.sampled_from(list(CELLS))
    named = draw(fields(kinds))
    schema = pa.schema([pa.field("number", pa.int64()), *(f for f in named if f.name.casefold() != "number")])
    rows = draw(st.integers(1, MOST_ROWS))
    columns: list[list[Any]] = [list(range(rows))]  # an empty line is no row
    for field in list(schema)[1:]:
        values, _ = CELLS[field.type]
        first = draw(values)  # a column without values has no type
        columns.append([first, *draw(st.lists(st.one_of(st.none(), values), min_size=rows - 1, max_size=rows - 1))])
    delimiter = draw(st.sampled_from([",", ";", "\t", "|"]))
    out = io.StringIO(newline="")
    writer = csv.writer(
        out,
        delimiter=delimiter,
        quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_NOTNULL, csv.QUOTE_STRINGS])),
        lineterminator=draw(st.sampled_from(["\n", "\r\n"])),
    )
    writer.writerow(schema.names)
    texts = [[None if v is None else CELLS[f.type][1](v) for v in c] for f, c in zip(schema, columns, strict=True)]
    writer.writerows(zip(*texts, strict=True))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
    table = pa.table([pa.array(c, f.type) for f, c in zip(schema, columns, strict=True)], schema)
    return table, out.getvalue().encode(encoding), {"csv": {"delimiter": delimiter}}


@pytest.mark.parametrize("messages", MESSAGES)
@given(file=csv_files())
def test_csv_files_arrive(messages: str, file: tuple[pa.Table, bytes, dict[str, Any]]) -> None:
    table, content, settings = file
    found = sent(content, "a.csv", messages, **settings).columns(table.schema)
    assert found == {name: plain(table[name]) for name in table.column_names}


@st.composite
def xml_files(draw: st.DrawFn) -> tuple[pa.Table, bytes]:
    """Generate a table, and its document from lxml: columns are attributes, elements, or elements of an element."""
    schema = pa.schema([(f"c{i}", draw(st.sampled_from(list(CELLS)))) for i in range(draw(st.integers(1, 5)))])
    rows, within = draw(st.integers(1, MOST_ROWS)), draw(st.lists(st.sampled_from("aen"), min_size=5, max_size=5))
    columns = list[list[Any]]()
    for field in schema:
        values = CELLS[field.type][0]
        if field.type == pa.string():
            values = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=20).map(lambda t: f"x{t}")
        columns.append(
            [draw(values), *draw(st.lists(st.one_of(st.none(), values), min_size=rows - 1, max_size=rows - 1))]
        )
    root = etree.Element(draw(st.sampled_from(["rows", "{urn:x}rows"])))
    for row in zip(*columns, strict=True):
        element = etree.SubElement(root, "row")
        inner = etree.SubElement(element, "n")
        for field, kind, value in zip(schema, within, row, strict=False):
            text = None if value is None else CELLS[field.type][1](value)
            if kind == "a" and text is not None:
                element.set(field.name, text)
            elif kind != "a":
                etree.SubElement(inner if kind == "n" else element, field.name).text = text
    made = {f.name: pa.array(c, f.type) for f, c in zip(schema, columns, strict=True)}
    nested = [f for f, kind in zip(schema, within, strict=False) if kind == "n"]
    if nested:
        made["n"] = pa.StructArray.from_arrays([made.pop(f.name) for f in nested], fields=nested)
    table = pa.table(made)
    encoding, pretty = draw(st.sampled_from(["utf-8", "utf-16", "ascii"])), draw(st.booleans())
    return table, etree.tostring(root, encoding=encoding, xml_declaration=True, pretty_print=pretty)


@pytest.mark.parametrize("messages", MESSAGES)
@given(file=xml_files())
def test_xml_files_arrive(messages: str, file: tuple[pa.Table, bytes]) -> None:
    table, content = file
    found = sent(content, "a.xml", messages).columns(table.schema)
    for column in table.column_names:
        parsed = [_parsed(value, table.schema.field(column).type) for value in found[column]]
        assert _dense(parsed) == _dense(without_json(plain(table[column]))), column


JSON_TYPES = st.recursive(
    st.sampled_from([pa.int64(), pa.float64(), pa.bool_(), pa.string()]),
    lambda inner: st.one_of(inner.map(pa.list_), fields(inner, most=3).map(pa.struct)),
    max_leaves=4,
)


@st.composite
def json_files(draw: st.DrawFn) -> tuple[pa.Table, bytes, str]:
    """Generate a table, its JSON file from Python's writer, and the file's name."""
    named = draw(fields(JSON_TYPES))
    schema = pa.schema([pa.field("number", pa.int64()), *(f for f in named if f.name.casefold() != "number")])
    rows = draw(st.integers(1, MOST_ROWS))
    drawn = (draw(st.lists(optional(f.type), min_size=rows, max_size=rows)) for f in list(schema)[1:])
    columns = [list(range(rows)), *drawn]
    table = pa.table([pa.array(c, f.type) for f, c in zip(schema, columns, strict=True)], schema)
    records = [_finite(row) for row in table.to_pylist()]
    if draw(st.booleans()):
        records = [{k: v for k, v in row.items() if v is not None} for row in records]
    options: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {
                "ensure_ascii": st.booleans(),
                "sort_keys": st.booleans(),
                "separators": st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
            }
        )
    )
    if draw(st.booleans()):
        return table, json.dumps(records, indent=draw(st.sampled_from([None, 2])), **options).encode(), "a.json"
    end = draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    return table, "".join(json.dumps(row, **options) + end for row in records).encode(), "a.jsonl"


@pytest.mark.parametrize("messages", MESSAGES)
@given(file=json_files())
def test_json_files_arrive(messages: str, file: tuple[pa.Table, bytes, str]) -> None:
    table, content, name = file
    found = sent(content, name, messages).columns(table.schema)
    for column in table.column_names:
        expected = without_json(plain(table[column]))
        sent_values = found.get(column, [None] * table.num_rows)
        parsed = [_parsed(value, table.schema.field(column).type) for value in sent_values]
        assert _dense(parsed) == _dense(expected), column


def _parsed(value: Any, t: pa.DataType) -> Any:
    """Return a value whose untyped members are parsed from JSON text."""
    if pa.types.is_nested(t) and isinstance(value, str):
        value = json.loads(value)
    if isinstance(value, list):
        return [_parsed(v, t.value_type) for v in value]
    return {f.name: _parsed(value.get(f.name), f.type) for f in t} if isinstance(value, dict) else value


def _finite(value: Any) -> Any:
    """Return a value with infinite floats as null, as JSON requires."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return value if not isinstance(value, float) or value - value == 0 else None


def _dense(value: Any) -> Any:
    """Return a value without the nulls in objects; an empty object becomes null."""
    if isinstance(value, dict):
        return {k: d for k, v in value.items() if (d := _dense(v)) is not None} or None
    return [_dense(v) for v in value] if isinstance(value, list) else value


@st.composite
def workbooks(draw: st.DrawFn) -> tuple[pa.Table, bytes]:
    """Generate a table and its workbook by openpyxl: numbers have 15 digits, times milliseconds."""
    kinds = {
        pa.int64(): st.integers(-(10**14), 10**14),
        pa.bool_(): st.booleans(),
        pa.date32(): st.dates(date(1900, 3, 1)),
        pa.string(): st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).map(lambda text: f"x{text}"),
    }
    named = draw(fields(st.sampled_from(list(kinds))))
    usual = [f for f in named if f.name.casefold() != "number" and not f.name.startswith("=")]  # no formulas
    schema = pa.schema([pa.field("number", pa.int64()), *usual])
    rows = draw(st.integers(1, MOST_ROWS))
    columns: list[list[Any]] = [list(range(rows))]
    for field in list(schema)[1:]:
        values = kinds[field.type]
        more = draw(st.lists(st.one_of(st.none(), values), min_size=rows - 1, max_size=rows - 1))
        columns.append([draw(values), *more])
    book = openpyxl.Workbook(write_only=draw(st.booleans()))
    sheet = book.create_sheet() if book.write_only else book.active
    for row in [schema.names, *zip(*columns, strict=True)]:
        sheet.append([openpyxl.cell.WriteOnlyCell(sheet, v) if book.write_only else v for v in row])
    out = io.BytesIO()
    book.save(out)
    return pa.table([pa.array(c, f.type) for f, c in zip(schema, columns, strict=True)], schema), out.getvalue()


@pytest.mark.parametrize("messages", MESSAGES)
@settings(max_examples=settings.default.max_examples // 3)
@given(file=workbooks())
def test_workbooks_arrive(messages: str, file: tuple[pa.Table, bytes]) -> None:
    table, content = file
    found = sent(content, "a.xlsx", messages).columns(table.schema)
    assert found == {name: plain(table[name]) for name in table.column_names}
