"""Plain lines and fixed width."""

from __future__ import annotations

import gzip
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import ConfigError, DataError, EmptyObjectError
from singer_arrow.formats import detect_format
from singer_arrow.read_options import FixedColumn

LINE = pa.schema([("line", pa.string())])
COLUMNS = (FixedColumn("id", 1, 4), FixedColumn("name", 5, 6), FixedColumn("day", 12, 10))


@given(
    lines=st.lists(st.text(st.sampled_from('aé,"\t{\U0001f600'), max_size=6), min_size=1, max_size=20),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    block=st.integers(1, 30),
)
def test_every_line_is_a_row(objects: Any, lines: list[str], end: str, last: bool, block: int) -> None:
    data = (end.join(lines) + (end if last or not lines[-1] else "")).encode()
    found = objects.read(data, "a.lines", LINE, block_bytes=block)
    assert found["line"].to_pylist() == lines


def test_encodings_skipped_lines_and_compression(objects: Any) -> None:
    text = "first\nsecond é\n\nlast"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"):
        for data in (text.encode(encoding), gzip.compress(text.encode(encoding))):
            found = objects.read(data, "a.lines", encoding=encoding, skip_rows=1)
            assert found.to_pydict() == {"line": ["second é", "", "last"]}
    assert objects.read(b"a\nb\n", "a.lines", skip_rows=9).num_rows == 0
    assert objects.read(b"1\n2\n", "a.lines", pa.schema([("line", pa.int64())])).to_pydict() == {"line": [1, 2]}


def test_what_is_wrong_with_a_line_is_named(objects: Any) -> None:
    data = b"1\n" * 5000 + b"x\n"
    for block in (10, 4 << 20):
        with pytest.raises(DataError, match=r"line 5001, column 'line': 'x' is not an integer"):
            objects.read(data, "a.lines", pa.schema([("line", pa.int64())]), block_bytes=block)
        with pytest.raises(DataError, match=r"line 5002: it is not UTF-8\. Set csv\.encoding"):
            objects.read(data + b"\xff\n", "a.lines", LINE, block_bytes=block)
    with pytest.raises(EmptyObjectError):
        objects.infer(b"", "a.lines")


def test_columns_of_fixed_width(objects: Any) -> None:
    data = b"made by hand\n   1 Anna  2024-05-01\n#comment\n\n0002J\xc3\xb6rg\xc3\xa4nx2024-05-02 rest\n  3\n"
    found = objects.read(data, "a.fixed_width", fixed_width=COLUMNS, skip_rows=1, comment="#")
    assert found.schema.types == [pa.string(), pa.string(), pa.date32()]
    assert found.to_pydict() == {
        "id": ["1", "0002", "3"],
        "name": ["Anna", "Jörgän", None],
        "day": [date(2024, 5, 1), date(2024, 5, 2), None],
    }
    selected = pa.schema([("day", pa.date32()), ("absent", pa.int64()), ("id", pa.int64())])
    options = {"fixed_width": COLUMNS, "skip_rows": 1, "comment": "#"}
    with pytest.raises(DataError, match="line 5, column 'id': '0002' is not an integer"):
        objects.read(data, "a.fixed_width", selected, **options)
    for block in (20, 4 << 20):
        declared = frozenset({"id"})
        found = objects.read(data, "a.fixed_width", selected, **options, declared_columns=declared, block_bytes=block)
        assert found["id"].to_pylist() == [1, 2, 3]
        assert found["absent"].null_count == 3
    with pytest.raises(DataError, match="it has none of the columns that are read .'absent'., but 'id', 'name', 'day'"):
        objects.read(data, "a.fixed_width", pa.schema([("absent", pa.int64())]), fixed_width=COLUMNS)


def test_types_and_nulls_of_fixed_width(objects: Any) -> None:
    columns = (FixedColumn("n", 1, 3), FixedColumn("x", 4, 5), FixedColumn("nothing", 20, 5))
    data = b"  1 1.5 \n 22  NA \n333-2e3 \n"
    found = objects.read(data, "a.fixed_width", fixed_width=columns, null_values=("NA",))
    assert found.schema.types == [pa.int64(), pa.float64(), pa.null()]
    assert found["x"].to_pylist() == [1.5, None, -2000.0]


@pytest.mark.full
def test_what_is_wrong_with_fixed_width_is_named(objects: Any) -> None:
    schema = pa.schema([("id", pa.int64())])
    data = b"#\n\n" + b"   1\n" * 3000 + b" x 2\n"
    for block in (10, 4 << 20):
        with pytest.raises(DataError, match=r"line 3003, column 'id': 'x 2' is not an integer"):
            objects.read(data, "a.fixed_width", schema, fixed_width=COLUMNS, comment="#", block_bytes=block)
    with pytest.raises(ConfigError, match="needs the stream's setting 'fixed_width'"):
        objects.infer(b"1\n", "a.fixed_width")
    with pytest.raises(ConfigError, match="names the column 'id' twice"):
        objects.infer(b"1\n", "a.fixed_width", fixed_width=(COLUMNS[0], COLUMNS[0]))
    with pytest.raises(ConfigError, match="start and width of column 'z' must be at least 1"):
        objects.infer(b"1\n", "a.fixed_width", fixed_width=(FixedColumn("z", 0, 1),))


def test_formats_are_detected_by_suffix() -> None:
    assert [detect_format(n) for n in ("a.log.gz", "a.fwf", "a.txt")] == ["lines", "fixed_width", None]
