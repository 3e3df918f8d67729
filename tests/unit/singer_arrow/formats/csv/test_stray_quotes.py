"""Text after a closing quote is a bad row: compared with Python's csv module, whatever the blocks and ranges."""

from __future__ import annotations

import csv
import io
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import DataError
from singer_arrow.formats import DIVISIBLE, csv_dialect
from singer_arrow.formats.base import divide, range_bounds
from singer_arrow.formats.csv_dialect import Dialect
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint

TEXTS = pa.schema([("x", pa.string()), ("y", pa.string())])
PRICES = b'id,item\n1,"Pipe\n2,plain\n3,"5 inch"\n4,last\n'


def _rows(table: pa.Table) -> list[tuple[Any, Any]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("block", [1, 7, 4 << 20])
def test_an_error_names_where_the_quote_opens_and_what_to_set(objects: Any, block: int) -> None:
    with pytest.raises(DataError) as caught:
        objects.read(PRICES, "prices.csv", pa.schema([("id", pa.int64()), ("item", pa.string())]), block_bytes=block)
    text = str(caught.value)
    assert "prices.csv, line 2: a quote that opens on this line is closed 2 lines below, and text follows" in text
    assert "Check csv.quote and csv.escape" in text


def test_the_sample_proposes_no_quotes_where_all_rows_are_then_read(objects: Any) -> None:
    with pytest.raises(DataError, match='line 2: .*; with csv.quote: "" each of these rows has 2 fields'):
        objects.infer(PRICES, "prices.csv")
    assert objects.read(PRICES, "prices.csv", quote=None).to_pylist()[0] == {"id": 1, "item": '"Pipe'}
    with pytest.raises(DataError, match="line 2: .*Check csv.quote and csv.escape$"):
        objects.infer(PRICES + b'5,"one, two"\n', "prices.csv")


@pytest.mark.parametrize("block", [1, 7, 4 << 20])
def test_only_the_line_with_the_quote_is_skipped(objects: Any, block: int) -> None:
    found = objects.read(PRICES, "prices.csv", on_bad_row="skip", block_bytes=block)
    assert _rows(found) == [(2, "plain"), (3, "5 inch"), (4, "last")]


def test_blanks_may_follow_a_closing_quote(objects: Any) -> None:
    found = objects.read(b'x,y\n"a" ,"b"\t \n', "blanks.csv", TEXTS)
    assert _rows(found) == [("a ", "b\t ")]


def test_text_after_a_quote_in_the_header_is_refused(objects: Any) -> None:
    with pytest.raises(DataError, match="line 1: text follows a closing quote in the header"):
        objects.infer(b'"a"b,c\n1,2\n', "header.csv")


def test_small_files_that_are_read_together_are_checked(objects: Any) -> None:
    readers = [objects.reader(data, f"{i}.csv") for i, data in enumerate((b"x,y\n1,2\n", b'x,y\n"a"b,2\n'))]
    assert DIVISIBLE["csv"].join(readers, TEXTS, ReadOptions()) is None


texts = st.text(st.sampled_from('ab,"\n'), max_size=40)


@given(text=texts, block=st.integers(1, 30))
def test_pythons_csv_module_reads_the_same_rows_or_none(objects: Any, text: str, block: int) -> None:
    try:
        due: list[Any] | None = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error:
        due = None
    if due is not None and any(len(row) != 2 for row in due):
        due = None
    try:
        found = _rows(objects.read(b"x,y\n" + text.encode(), "any.csv", TEXTS, block_bytes=block))
    except DataError:
        assert due is None
    else:
        assert [[value or "" for value in row] for row in found] == due


@given(
    text=st.text(st.sampled_from('ab,"\n\r \t\\'), max_size=40),
    escape=st.sampled_from([None, "\\"]),
    delimiter=st.sampled_from(",\t"),
    is_long=st.booleans(),
)
def test_the_fast_checks_of_a_block_agree_with_its_scan(
    text: str, escape: str | None, delimiter: str, is_long: bool
) -> None:
    dialect = Dialect(escape=escape, delimiter=delimiter)
    data = text.encode() + b"\n"
    if escape and (len(text) - len(text.rstrip(escape))) % 2:
        data = text.encode() + b"x\n"  # not an escaped line break at the end
    with mock.patch.object(csv_dialect, "LONG", 0 if is_long else 1 << 20):
        assert dialect.is_regular(data) == (not dialect.scan(data).damage)


@given(texts=st.lists(st.one_of(texts, st.just("a,b\n")), max_size=8), count=st.integers(2, 6))
def test_ranges_of_a_file_together_give_its_rows(objects: Any, texts: list[str], count: int) -> None:
    data = b"x,y\n" + "".join(texts).encode()
    options, kind = ReadOptions(compression="none", on_bad_row="skip", block_bytes=16), DIVISIBLE["csv"]
    scans = [kind.scan(objects.reader(data, "a"), options, span) for span in divide(len(data), count)[:-1]]
    starts = kind.row_starts(objects.reader(data, "a"), options, scans)

    def rows(begin: ResumePoint, end: ResumePoint | None) -> list[Any]:
        found = kind.read(objects.reader(data, "a"), TEXTS, options, ReadProgress(begin, end=end))
        return [row for batch in found for row in batch.to_pylist()]

    ranges = [rows(*points) for n in range(count) if (points := range_bounds(starts, n))]
    assert [row for part in ranges for row in part] == rows(ResumePoint(), None)
