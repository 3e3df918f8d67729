"""Counts of a character, also in text that Arrow skips."""

import random

import pytest

from singer_arrow.formats.csv.dialect import count_byte

_TEXT = random.Random(7).randbytes(200_001)


@pytest.mark.parametrize(
    ("start", "end"), [(0, None), (0, 0), (3, 2), (0, 65_535), (0, 65_536), (5, 150_003), (131_077, None)]
)
def test_counts_as_bytes_do(start: int, end: int | None) -> None:
    for character in (b"\n", b'"', b"\xff"):
        assert count_byte(_TEXT, character, start, end) == _TEXT.count(character, start, end)
