"""Decoding of row groups: small ones in parallel, others one by one, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from singer_arrow.reading.memory_budget import Allowance
from singer_arrow.reading.ordered_map import map_ordered

_MOST_BATCHES = 2  # of a row group that is decoded as a whole
_OF_TEXT = 64  # assumed bytes of a text in a dictionary

Batches = Iterable[pa.RecordBatch]
OpenFile = Callable[..., pq.ParquetFile]


class ReadRowGroup(Protocol):
    """Returns the number of batches of a row group, and the batches; decodes with several threads if `threads`."""

    def __call__(self, open_file: OpenFile, group: int, *, threads: bool) -> tuple[int, Iterator[pa.RecordBatch]]: ...


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Number of a row group, and its bytes as stored and in memory."""

    number: int
    fetched: int
    decoded: int


def decoded_bytes(group: pq.RowGroupMetaData, columns: Iterable[int]) -> int:
    """Estimate the bytes in memory of leaf columns of a row group; at least their uncompressed size."""
    total = 0
    for i in columns:
        chunk = group.column(i)
        width = _OF_TEXT if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page else 8
        total += max(chunk.total_uncompressed_size, chunk.num_values * width)
    return total


def decode_row_groups(
    groups: Sequence[RowGroup], files: Generator[OpenFile], read: ReadRowGroup, allowance: Allowance
) -> Iterator[Batches]:
    """Yield the batches of each row group, in order.

    Args:
        groups: The row groups.
        files: For each row group a function that opens the file with the needed ranges.
        read: Reads a row group.
        allowance: Limits the memory of row groups decoded in parallel.

    Raises:
        Exception: Raised by `read`, after the batches of earlier row groups.
    """
    if len(groups) < 2 or max(g.fetched + g.decoded for g in groups) > allowance.limit // 8:
        for group, file in zip(groups, files, strict=True):
            yield read(file, group.number, threads=True)[1]
        return

    def work(unit: tuple[RowGroup, OpenFile]) -> Batches:
        count, batches = read(unit[1], unit[0].number, threads=False)
        return list(batches) if count <= _MOST_BATCHES else batches  # larger than estimated: decode lazily

    def units() -> Generator[tuple[RowGroup, OpenFile]]:
        with closing(files):
            yield from zip(groups, files, strict=True)

    yield from map_ordered(units(), work, allowance, cost=lambda unit: unit[0].fetched + unit[0].decoded)
