"""Size of the columns of an ORC file in memory, and rows per batch, before decoding."""

from __future__ import annotations

from collections.abc import Mapping

from singer_arrow.formats.file_errors import too_large
from singer_arrow.formats.orc.footers import MOST_INFLATED, OrcFooter, OrcSource, Stream, count_blocks, read_streams

_BATCH_BYTES = 16 << 20
"""Bytes in memory of a batch of rows of mean size; Arrow's reader holds them twice."""
_WIDTH = 8
_COUNTED = 1 << 20
"""Blocks of a stream that are counted; more only if the check needs them."""


def check_sizes(source: OrcSource, footer: OrcFooter, columns: Mapping[str, range]) -> dict[str, int]:
    """Check the data of each column in each stripe, by the number of its compressed blocks.

    Args:
        source: The file.
        footer: Its footer.
        columns: The numbers of the columns that are read, by their names at the top level.

    Returns:
        The bytes of each column in the file.

    Raises:
        DataError: One is a few bytes in the file and more than allowed without its compression.
    """
    names = {number: name for name, numbers in columns.items() for number in numbers}
    total = dict.fromkeys(columns, 0)
    for number, stripe in enumerate(footer.stripes):
        stored, inflated = dict.fromkeys(columns, 0), dict.fromkeys(columns, 0)
        for stream in read_streams(source, footer, stripe):
            if (name := names.get(stream.column)) is not None:
                stored[name] += stream.length
                inflated[name] += _inflated(source, footer, stream)
        for name, size in inflated.items():
            if size > source.most and size > MOST_INFLATED * stored[name]:
                raise too_large(f"the column {name!r} of stripe {number}", size, source.most, url=source.url)
            total[name] += stored[name]
    return total


def rows_per_batch(
    source: OrcSource, footer: OrcFooter, columns: Mapping[str, range], stored: Mapping[str, int]
) -> int:
    """Return how many rows of mean size make a batch of at most 16 MiB, at least one.

    Their size comes from the statistics of the file: dictionaries hold a text once for many rows, and runs a number.

    Args:
        source: The file.
        footer: Its footer.
        columns: The numbers of the columns that are read, by their names at the top level.
        stored: What `check_sizes` returned.

    Raises:
        DataError: The mean row of a column takes more than allowed, and the column is a few bytes in the file.
    """
    rows, total = max(1, footer.rows), 1
    for name, numbers in columns.items():
        statistics = footer.statistics[numbers.start : numbers.stop]
        size = sum(max(0, s.text_bytes) + _WIDTH * s.values for s in statistics)
        if size > source.most * rows and size > MOST_INFLATED * stored[name]:
            raise too_large(f"a row of the column {name!r}", size // rows, source.most, url=source.url)
        total += size
    return max(1, _BATCH_BYTES * rows // total)


def _inflated(source: OrcSource, footer: OrcFooter, stream: Stream) -> int:
    """Bytes of a stream without its compression, where all blocks but the last are full."""
    if not footer.is_compressed:
        return stream.length
    size = max(1, footer.block_bytes)
    enough = max(source.most, MOST_INFLATED * stream.length) // size + 3
    return max(0, count_blocks(source, stream, max(_COUNTED, enough)) - 1) * size
