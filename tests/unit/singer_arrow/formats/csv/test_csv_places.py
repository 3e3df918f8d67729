"""Reading of CSV can resume at any place of an earlier reading, with the same rows."""

from __future__ import annotations

import gzip
import io
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

SCHEMA = pa.schema([("x", pa.string()), ("y", pa.int64()), (RESCUED, pa.string())])
Step = tuple[ResumePoint | None, list[dict[str, Any]], int, int]


def steps(
    reader: Any, options: ReadOptions, begin: ResumePoint | None = None, schema: pa.Schema = SCHEMA
) -> tuple[list[Step], str]:
    """Return for each batch the place, its rows, and the counts skipped and rescued; then the error, if any."""
    progress, found, error = ReadProgress(begin or ResumePoint()), list[Step](), ""
    skipped, rescued = 0, 0
    try:
        for batch in FORMATS["csv"].read(reader, schema, options, progress):
            batch.validate(full=True)
            found.append(
                (progress.resume_point, batch.to_pylist(), progress.skipped - skipped, progress.rescued - rescued)
            )
            skipped, rescued = progress.skipped, progress.rescued
    except DataError as caught:
        error = str(caught)
    return found, error


pieces = st.sampled_from(['"', '""', ",", "\n", "\r\n", "a", "1", "b,2\n", "é", '"c\n"', "\\", "#", '"d",3\n', "4\n"])


@given(
    parts=st.lists(pieces, max_size=60),
    block=st.integers(1, 40),
    on_bad_row=st.sampled_from(["fail", "skip", "rescue"]),
    how=st.sampled_from([{}, {"escape": "\\"}, {"comment": "#"}, {"quote": None}, {"skip_rows": 1}]),
    mark=st.sampled_from(["", "\ufeff"]),
    encode=st.sampled_from([str.encode, lambda t: t.encode("utf-16"), lambda t: gzip.compress(t.encode())]),
)
def test_a_reading_can_begin_at_every_resume_point(
    objects: Any, parts: list[str], block: int, on_bad_row: str, how: dict[str, Any], mark: str, encode: Any
) -> None:
    """Also with irregular quotes, for which blocks are first cut at wrong places."""
    text = mark + ("first\n" if "skip_rows" in how else "") + "x,y\n" + "".join(parts)
    options = ReadOptions(block_bytes=block, on_bad_row=on_bad_row, delimiter=",", **how)
    reader = objects.reader(encode(text), "rows.csv")
    whole, error = steps(reader, options)
    for i, (place, *_) in enumerate(whole):
        assert place is not None
        assert place.rows == sum(len(rows) for _, rows, *_ in whole[: i + 1])
        assert steps(reader, options, place) == (whole[i + 1 :], error)
    assert on_bad_row == "fail" or not error


@pytest.mark.full
def test_only_the_bytes_behind_a_resume_point_of_a_large_file_are_fetched(objects: Any) -> None:
    rng = random.Random(5)
    data = b"\xef\xbb\xbfx,y\n" + b"".join(
        b'%s "q" %d,%d\n' % (b"z" * rng.randint(0, 90), i, i) for i in range(300_000)
    )
    reader = objects.reader(data, "rows.csv", listed=True)
    options = ReadOptions(block_bytes=1 << 20)
    whole, _ = steps(reader, options)
    place = whole[-4][0]
    assert place is not None
    again = objects.reader(data, "rows.csv", listed=True)
    assert steps(again, options, place) == (whole[-3:], "")
    assert min(a for a, _, _ in objects.storage.asked if a) == place.at + 3
    assert sum(b - a for a, b, _ in objects.storage.asked) < len(data) - place.at + (1 << 20)


@pytest.mark.parametrize("header", [True, False])
def test_lines_are_counted_from_the_beginning_of_the_file(objects: Any, header: bool) -> None:
    data = b"x,y\n" * header + b'"a\n\nb",1\n' * 500 + b"a,z\n"
    schema = SCHEMA if header else pa.schema([("column_2", pa.int64())])
    options = ReadOptions(block_bytes=100, header=header)
    reader = objects.reader(data, "rows.csv")
    whole, error = steps(reader, options, schema=schema)
    assert f"line {1501 + header}, column " in error
    assert steps(reader, options, whole[20][0], schema) == (whole[21:], error)


class _InOrder(Storage):
    """A storage of one object that is read in order, a few bytes at a time."""

    def open(self, url: Url) -> Any:
        return _Slow(url.key.encode())


class _Slow(io.BytesIO):
    def read(self, n: int | None = -1) -> bytes:
        return super().read(min(7, n) if n and n > 0 else n)


def test_objects_that_are_read_in_order_are_begun_anywhere_too() -> None:
    def reader() -> ObjectReader:
        return ObjectReader(_InOrder(), Url("https", "host", 'x,y\n"a\n",1\nb,2\nc,3\nd,4'))

    options = ReadOptions(block_bytes=5)
    whole, error = steps(reader(), options)
    assert [row["y"] for _, rows, *_ in whole for row in rows] == [1, 2, 3, 4]
    for i, (place, *_) in enumerate(whole):
        assert steps(reader(), options, place) == (whole[i + 1 :], error)
    assert FORMATS["csv"].infer(reader(), options, sample_bytes=100).types == [pa.string(), pa.int64()]
