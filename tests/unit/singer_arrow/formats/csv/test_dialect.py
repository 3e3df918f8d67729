"""Counts of a character, also in text that Arrow skips."""

import gzip
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.formats import FORMATS
from singer_arrow.formats.base import count_byte, places_of
from singer_arrow.formats.csv_dialect import Dialect, detect_delimiter
from singer_arrow.read_options import ReadOptions, ReadProgress

_TEXT = random.Random(7).randbytes(200_001)


@pytest.mark.parametrize(
    ("start", "end"), [(0, None), (0, 0), (3, 2), (0, 65_535), (0, 65_536), (5, 150_003), (131_077, None)]
)
def test_counts_as_bytes_do(start: int, end: int | None) -> None:
    for character in (b"\n", b'"', b"\xff"):
        assert count_byte(_TEXT, character, start, end) == _TEXT.count(character, start, end)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000])
def test_places_of_characters_are_bits(size: int) -> None:
    found = places_of(_TEXT[:size], b"\n,A")
    assert found == sum(1 << n for n, byte in enumerate(_TEXT[:size]) if byte in b"\n,A")
    assert count_byte(_TEXT, b"A") == _TEXT.count(b"A")


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        (b"", ","),
        (b"a\n1\n", ","),
        (b"a,b\n1;2,3;4\n", ","),
        (b"a;b;c\n1,5;2,5;3\n1;2;3\n", ";"),
        (b"a\tb\n1,2\t3\n", "\t"),
        (b"a|b\n1|2\n", "|"),
        (b'"a;x","b;y"\n1,2\n', ","),
        (b'"a,x";"b,y"\n"1,\n2";2\n', ";"),
        (b"a;b\n", ";"),
        (b"name\nx;y\nz;w\n", ","),
        (b"a;b\n1;2\n1;2;3\n4;5\n", ";"),
        (b"a;b\n1\n2\n3\n4;5\n", ","),
        (b"a b;c,d\n1;2,3\n1,2;3\n1;2\n1;2\n", ";"),
        (b"a,b;c,d\n1,2;3,4\n", ","),
        (b"a;b\n1;2\n3;4,\xff\n", ";"),
        (b'a;b\n1;2\n"3;4', ";"),
        (b"a;b\r1;2\r", ";"),
    ],
)
def test_the_delimiter_is_detected(text: bytes, delimiter: str) -> None:
    assert detect_delimiter(text, Dialect()) == delimiter


def test_characters_that_mean_something_else_are_no_delimiters() -> None:
    assert detect_delimiter(b"a;b\n1;2\n", Dialect(comment=";")) == ","
    assert detect_delimiter(b"a|b;c\n|1|;2\n", Dialect(quote="|")) == ";"


cells = st.text(st.sampled_from('ab ,;|\t"\n'), max_size=6)


@given(
    rows=st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=12),
    delimiter=st.sampled_from(";\t|,"),
    block=st.integers(1, 50),
    packed=st.booleans(),
)
def test_a_file_of_quoted_fields_is_read_as_it_was_written(
    objects: Any, rows: list[list[str]], delimiter: str, block: int, packed: bool
) -> None:
    quoted = [delimiter.join('"' + v.replace('"', '""') + '"' for v in row) for row in rows]
    data = "\n".join([delimiter.join("xyz"), *quoted]).encode()
    name, data = ("a.csv.gz", gzip.compress(data)) if packed else ("a.csv", data)
    assert objects.infer(data, name).names == ["x", "y", "z"]
    schema, options = pa.schema([(n, pa.string()) for n in "xyz"]), ReadOptions(block_bytes=block)
    progress, kind = ReadProgress(), FORMATS["csv"]
    steps = [(progress.resume_point, b) for b in kind.read(objects.reader(data, name), schema, options, progress)]
    assert [list(r.values()) for _, b in steps for r in b.to_pylist()] == rows
    for i, (place, _) in enumerate(steps):
        assert list(kind.read(objects.reader(data, name), schema, options, ReadProgress(place))) == [
            b for _, b in steps[i + 1 :]
        ]


@pytest.mark.full
def test_the_head_alone_decides(objects: Any) -> None:
    """The same bytes are examined, however long the header, and however large the requests."""
    data = b"x;y\n" + b"1;2,5\n" * 20_000 + b"1,5,7\n" * 100_000
    schema = pa.schema([("x", pa.string()), ("y", pa.string())])
    for sample_bytes in (1000, 1 << 20):
        assert objects.infer(data[:60_000], "a.csv", sample_bytes=sample_bytes).names == ["x", "y"]
    with pytest.raises(Exception, match="line 20002: row has 1 field, header has 2"):
        objects.read(data, "a.csv", schema)
    long = b";".join(b"c%d" % i for i in range(12_000)) + b"\n"
    assert len(objects.infer(long, "a.csv").names) == 12_000
    data = b"made, by; hand\n" * 3 + b"x;y\n1;2\n"
    assert objects.read(data, "a.csv", skip_rows=3).to_pylist() == [{"x": 1, "y": 2}]
    assert objects.read(b"1;2\n3;4\n", "a.csv", header=False).num_columns == 2
    assert FORMATS["csv"].infer(objects.reader(b"a;b\t1;2\n", "a.tsv"), ReadOptions(), sample_bytes=9).names == [
        "a;b",
        "1;2",
    ]
    assert objects.read("x;y\n1;é\n".encode("utf-16"), "a.csv").to_pylist() == [{"x": 1, "y": "é"}]
