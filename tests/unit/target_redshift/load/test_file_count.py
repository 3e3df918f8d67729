"""The number of files into which rows are divided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from target_redshift.uploads import LEAST_BYTES, file_count, row_ranges

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "rows", "slices", "workers", "count"),
    [
        (0, 1, 4, 1, 1),
        (100_000, 10_000, 4, 8, 1),  # one file, however small
        (3 * MIB, 10_000, 4, 1, 2),  # too little for every slice: size before count
        (6 * MIB, 10_000, 4, 1, 4),
        (100 * MIB, 10_000, 4, 1, 4),
        (100 * MIB, 10_000, 4, 8, 8),  # more than slices, so that all cores have something to write
        (100 * MIB, 10_000, 3, 8, 9),
        (40 * MIB, 10_000, 4, 8, 4),
        (4 * 128 * MIB + 4, 10_000, 4, 1, 8),
        (64 << 30, 10**9, 4, 8, 512),
        (100 * MIB, 3, 4, 1, 3),  # three long rows
    ],
)
def test_counts(size: int, rows: int, slices: int, workers: int, count: int) -> None:
    assert file_count(size, rows=rows, slices=slices, workers=workers) == count


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 32), st.integers(1, 128), st.integers(1, 64))
def test_files_are_large_enough_and_divide_among_the_slices(size: int, rows: int, slices: int, workers: int) -> None:
    count = file_count(size, rows=rows, slices=slices, workers=workers)
    assert 1 <= count <= rows
    assert count == 1 or size / count >= LEAST_BYTES
    assert count % slices == 0 or count < slices or count == rows
    assert size / count <= 1 << 30 or count == rows


@given(st.integers(1, 10_000), st.integers(1, 100))
def test_ranges_cover_all_rows_once_and_evenly(rows: int, count: int) -> None:
    found = row_ranges(rows, count)
    assert len(found) == count
    assert [start for start, _ in found] == [0, *[end for _, end in found[:-1]]]
    assert found[-1][1] == rows
    sizes = {end - start for start, end in found}
    assert max(sizes) - min(sizes) <= 1
