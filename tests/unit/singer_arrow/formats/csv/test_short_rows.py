"""Rows with fewer values than the header are refused, or filled with null by `csv.short_rows: fill`."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions, ReadProgress

TEXTS = pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.string())])
SHORT = b'a,b,c\n1,x\n2,y,z\n\n3\r\n"4, 4","line\nbreak"\n'


def test_a_short_row_is_refused_and_the_setting_is_named(objects: Any) -> None:
    with pytest.raises(DataError, match="line 2: row has 2 fields, header has 3. Set csv.short_rows to fill if"):
        objects.infer(SHORT, "refused.csv")
    with pytest.raises(DataError, match=r"line 3: row has 4 fields, header has 3$"):
        objects.infer(b"a,b,c\n1,2,3\n1,2,3,4\n", "long.csv")


@pytest.mark.parametrize("block", [1, 11, 4 << 20])
def test_short_rows_are_filled_with_null(objects: Any, block: int) -> None:
    found = objects.read(SHORT, "filled.csv", short_rows="fill", block_bytes=block)
    assert found.to_pylist() == [
        {"a": "1", "b": "x", "c": None},
        {"a": "2", "b": "y", "c": "z"},
        {"a": "3", "b": None, "c": None},
        {"a": "4, 4", "b": "line\nbreak", "c": None},
    ]


def test_filled_fields_are_null_whatever_means_null(objects: Any) -> None:
    found = objects.read(b"a,b,c\nNA,,\n1\n", "na.csv", TEXTS, short_rows="fill", null_values=("NA",))
    assert found.to_pylist() == [{"a": None, "b": "", "c": ""}, {"a": "1", "b": None, "c": None}]


def test_other_bad_rows_stay_bad_and_keep_their_lines(objects: Any) -> None:
    data = b'a,b,c\n1\n1,2,3,4\n2,"x"y\n\xff,q\n3\n'
    with pytest.raises(DataError, match="line 3: row has 4 fields"):
        objects.read(data, "bad.csv", TEXTS, short_rows="fill")
    progress = ReadProgress()
    options = ReadOptions(short_rows="fill", on_bad_row="skip")
    batches = list(FORMATS["csv"].read(objects.reader(data, "bad.csv"), TEXTS, options, progress))
    assert [row["a"] for batch in batches for row in batch.to_pylist()] == ["1", "3"]
    assert progress.skipped == 3
    few = objects.read(data, "bad.csv", pa.schema([("b", pa.string())]), short_rows="fill", on_bad_row="skip")
    assert few["b"].to_pylist() == [None, "q", None]


FIELDS = st.text(st.sampled_from('ab1,"\n '), max_size=4)


@given(
    rows=st.lists(st.lists(FIELDS, min_size=1, max_size=3), min_size=1, max_size=8), block=st.sampled_from([1, 9, 999])
)
def test_filled_rows_are_those_of_pythons_reader(objects: Any, rows: list[list[str]], block: int) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(TEXTS.names)
    writer.writerows(rows)
    found = objects.read(out.getvalue().encode(), "any.csv", TEXTS, short_rows="fill", block_bytes=block)
    assert found.to_pylist() == [dict(zip("abc", [*row, None, None], strict=False)) for row in rows]
