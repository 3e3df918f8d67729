"""The ranges of a file together give the rows of the file, in order, whatever its size is divided by."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from file_bytes import parquet
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.formats import DIVISIBLE, csv_dialect
from singer_arrow.formats.base import RangeScan, divide, range_bounds
from singer_arrow.formats.csv_dialect import LONGEST_RUN
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint

NAMES = ["x", "y", "z"]
TEXTS = pa.schema([(name, pa.string()) for name in NAMES])
HEADER = b"x,y,z\n"


def starts_of(objects: Any, kind: str, data: bytes, count: int, options: ReadOptions) -> list[ResumePoint]:
    spans = divide(len(data), count)
    scans = [DIVISIBLE[kind].scan(objects.reader(data, "a"), options, span) for span in spans[:-1]]
    return list(DIVISIBLE[kind].row_starts(objects.reader(data, "a"), options, scans))


def rows_between(
    objects: Any, kind: str, data: bytes, options: ReadOptions, start: ResumePoint, end: ResumePoint | None, schema: Any
) -> list[dict[str, Any]]:
    found = DIVISIBLE[kind].read(objects.reader(data, "a"), schema, options, ReadProgress(start, end=end))
    return [row for batch in found for row in batch.to_pylist()]


def check(objects: Any, kind: str, data: bytes, count: int, schema: pa.Schema = TEXTS, **more: Any) -> list[int]:
    """Check the rows of the ranges; return how many each has."""
    options = ReadOptions(**{"compression": "none", "block_bytes": 64} | more)
    starts = starts_of(objects, kind, data, count, options)
    found = [range_bounds(starts, number) for number in range(count)]
    ranges = [rows_between(objects, kind, data, options, *points, schema) if points else [] for points in found]
    whole = rows_between(objects, kind, data, options, ResumePoint(), None, schema)
    assert [row for rows in ranges for row in rows] == whole
    return [len(rows) for rows in ranges]


def written(rows: list[list[str]], *, quoting: Any = csv.QUOTE_MINIMAL, line_end: str = "\n") -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, quoting=quoting, lineterminator=line_end).writerows(rows)
    return HEADER + out.getvalue().encode()


fields = st.text(st.sampled_from('ab ,"\n\ré'), max_size=8)
rows_of_fields = st.lists(st.lists(fields, min_size=3, max_size=3), min_size=1, max_size=30)
counts = st.integers(2, 9)


@given(
    rows=rows_of_fields,
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    count=counts,
)
def test_what_python_writes_is_divided(
    objects: Any, rows: list[list[str]], quoting: Any, line_end: str, count: int
) -> None:
    if any("\r" in field or "\n" in field for row in rows for field in row):
        quoting = csv.QUOTE_ALL  # before Python 3.13, the writer quotes only the line breaks of `line_end`
    check(objects, "csv", written(rows, quoting=quoting, line_end=line_end), count)


@given(
    text=st.text(st.sampled_from('ab,"\n\r '), min_size=20, max_size=300),
    count=counts,
    tail=st.sampled_from([0, 9, csv_dialect.TAIL_BYTES]),
)
def test_text_with_irregular_quotes_is_divided(objects: Any, text: str, count: int, tail: int) -> None:
    with mock.patch.object(csv_dialect, "TAIL_BYTES", tail):
        check(objects, "csv", HEADER + text.encode(), count, on_bad_row="skip")
    check(objects, "csv", HEADER + text.encode(), count, on_bad_row="skip", quote=None)


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(
    "row",
    [
        ["1", "plain", ""],
        ["1", "two\nlines", 'a "quoted" one'],
        ["1", "a long text of\n" * 20, "which spans\nseveral ranges"],
    ],
)
def test_ranges_share_the_rows_and_number_their_lines(objects: Any, header: bool, row: list[str]) -> None:
    data = written([row] * 200)[0 if header else len(HEADER) :]
    schema = TEXTS if header else pa.schema([(f"column_{n}", pa.string()) for n in (1, 2, 3)])
    found = check(objects, "csv", data, 4, schema=schema, header=header)
    assert max(found) - min(found) <= 4
    lines = data[: -len(HEADER)].count(b"\n") // 200 if header else data.count(b"\n") // 200
    starts = starts_of(objects, "csv", data, 4, ReadOptions(compression="none", header=header))
    assert [s.rows for s in starts] == [0, *[lines * sum(found[:n]) for n in (1, 2, 3)]]
    assert [s.lines for s in starts[1:]] == [s.rows + header for s in starts[1:]]


@pytest.mark.parametrize("count", [1, 400])
def test_ranges_with_irregular_quotes_are_scanned_by_the_rules_of_the_parser(objects: Any, count: int) -> None:
    """So their rows are divided too; a beginning within quotes is refuted by text after a closing quote."""
    rows = [["1", 'a "yes"\n', "x"]] * 400
    data = written(rows).replace(b'1,"', b'5" pipe,"', count)
    options = ReadOptions(compression="none")
    spans = divide(len(data), 8)
    scans = [DIVISIBLE["csv"].scan(objects.reader(data, "a"), options, span) for span in spans[:-1]]
    assert set(scans[0].found) == {False}
    assert all(scan.found for scan in scans)
    assert min(check(objects, "csv", data, 8)) >= 40


@pytest.mark.full
def test_ranges_that_begin_within_regular_quotes_are_scanned_fast(objects: Any) -> None:
    """So are most ranges of a file whose values are all quoted."""
    data = written([["1234567", "some name", "2024-01-01"]] * 400, quoting=csv.QUOTE_ALL)
    spans = [(start, start + 1000) for start in range(1000, 10_000, 7)]
    options = ReadOptions(compression="none")
    scans = [DIVISIBLE["csv"].scan(objects.reader(data, "a"), options, span) for span in spans]
    assert {tuple(scan.found) for scan in scans} == {(False,), (True,)}


@pytest.mark.full
def test_a_file_of_quotes_is_in_the_first_range(objects: Any) -> None:
    data = written([["1", "a", "b"]] * 10) + b'"' * (4 << 20)
    assert check(objects, "csv", data, 3, on_bad_row="skip") == [10, 0, 0]


def test_an_unlikely_beginning_is_found_when_ranges_are_combined(objects: Any) -> None:
    """A range of values that begin and end with commas and quotes looks regular from outside quotes too."""
    rows = [["1", ',",' * 40 + "\n" + ',",' * 40, "x"]] * 60
    assert sum(check(objects, "csv", written(rows), 7)) == 60


@pytest.mark.full
def test_a_run_of_quotes_where_ranges_meet(objects: Any) -> None:
    for length in (1, 2, 3, 4, 5, 400, 2 * LONGEST_RUN):
        rows = [["1", '"' * length + "\n", "x"]] * (40 if length < 1000 else 5)
        for count in range(2, 9):
            check(objects, "csv", written(rows), count)
    unquoted = HEADER + b'1,a""""""""b,c\n' * 50
    for count in range(2, 30):
        check(objects, "csv", unquoted, count)


def test_the_delimiter_is_that_of_the_whole_file(objects: Any) -> None:
    data = b"a;b,c\n" + b"1;2\n" + b"x,y;z,w\n" * 50
    schema = pa.schema([("a", pa.string()), ("b,c", pa.string())])
    check(objects, "csv", data, 20, schema=schema, on_bad_row="skip")


@pytest.mark.parametrize(
    "more",
    [
        {"escape": "\\"},
        {"comment": "#"},
        {"encoding": "utf-16"},
        {"compression": "gzip"},
    ],
)
def test_files_that_cannot_be_read_from_their_middle_are_in_the_first_range(objects: Any, more: dict[str, Any]) -> None:
    data = written([["1", "a", "b"]] * 100)
    if more.get("encoding"):
        data = data.decode().encode("utf-16")
    if more.get("compression"):
        data = gzip.compress(data)
    assert check(objects, "csv", data, 3, **more) == [100, 0, 0]


@given(texts=st.lists(st.text(max_size=10), min_size=1, max_size=40), count=counts, blank=st.booleans())
def test_lines_of_json_are_divided(objects: Any, texts: list[str], count: int, blank: bool) -> None:
    lines = [json.dumps({"x": text}, ensure_ascii=False) + ("\n\n" if blank else "\n") for text in texts]
    check(objects, "jsonl", "".join(lines).encode(), count, schema=pa.schema([("x", pa.string())]))
    check(objects, "jsonl", "".join(lines).encode().rstrip(), count, schema=pa.schema([("x", pa.string())]))


def test_a_list_of_json_is_in_the_first_range(objects: Any) -> None:
    data = json.dumps([{"x": str(n)} for n in range(100)], indent=1).encode()
    assert check(objects, "jsonl", data, 3, schema=pa.schema([("x", pa.string())])) == [100, 0, 0]


@pytest.mark.parametrize(("group", "count"), [(10, 4), (1000, 4), (7, 30)])
def test_row_groups_are_divided(objects: Any, group: int, count: int) -> None:
    table = pa.table({"id": range(100)})
    found = check(objects, "parquet", parquet(table, row_group_size=group), count, schema=table.schema)
    assert sum(found) == 100
    assert group == 1000 or max(found) < 100


def test_a_scan_is_small_and_survives_pickle(objects: Any) -> None:
    import pickle

    data = written([["1", "a\nb", "c"]] * 1000)
    scan = DIVISIBLE["csv"].scan(objects.reader(data, "a"), ReadOptions(compression="none"), divide(len(data), 2)[0])
    sent = pickle.dumps(scan)
    assert len(sent) < 1000
    assert isinstance(pickle.loads(sent), RangeScan)
