"""How rows are cut into the files that one COPY takes. Pure.

Redshift reads files in parallel, one a slice, and wants their number to be a multiple of the slices and each of them
between 1 MB and 1 GB compressed [t_splitting-data-files]. Where there is not enough for both, size comes before count:
many tiny files cost more than an idle slice.
"""

from __future__ import annotations

LEAST_BYTES = 1 << 20
TARGET_BYTES = 128 << 20
WORTH_A_WORKER = 8 << 20
"""A file of that size is worth a worker of its own: so many more files are made as can be written at once."""
_MARGIN = 1.25
"""Sizes are estimated from a sample, so files are planned larger than the least by this factor."""


def file_count(estimated_bytes: float, *, rows: int, slices: int, workers: int = 1) -> int:
    """Return the number of files for some rows, none without one, of `estimated_bytes` in all, compressed.

    `slices` are those of the cluster; `workers` files can be written at once.
    """
    most = max(1, int(estimated_bytes // (LEAST_BYTES * _MARGIN)))
    if most < slices:
        return max(1, min(rows, most))
    by_size = -(-int(estimated_bytes) // (slices * TARGET_BYTES))
    by_workers = min(-(-workers // slices), int(estimated_bytes // (slices * WORTH_A_WORKER)))
    return max(1, min(rows, slices * max(1, by_size, by_workers)))


def row_ranges(rows: int, count: int) -> list[tuple[int, int]]:
    """Yield the rows from start to end (exclusive) of each file; they differ by one row at most."""
    return [(rows * i // count, rows * (i + 1) // count) for i in range(count)]
