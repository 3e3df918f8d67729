"""The row groups of a Parquet file, decoded: side by side where they are small, else one by one, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from singer_arrow.reading.memory_budget import Allowance
from singer_arrow.reading.ordered_map import map_ordered

_MOST_BATCHES = 2  # of a row group that is decoded whole
_OF_TEXT = 64  # bytes of a value of text that stands in a dictionary, which nobody has looked at yet

Batches = Iterable[pa.RecordBatch]
OpenFile = Callable[..., pq.ParquetFile]


class ReadRowGroup(Protocol):
    """Gives the batches of a row group of a file, and how many there are; by several threads if told so."""

    def __call__(self, open_file: OpenFile, group: int, *, threads: bool) -> tuple[int, Iterator[pa.RecordBatch]]: ...


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group that is to be decoded: its number, and its bytes, as they are fetched and in memory."""

    number: int
    fetched: int
    decoded: int


def decoded_bytes(group: pq.RowGroupMetaData, columns: Iterable[int]) -> int:
    """Bytes in memory of some leaf columns of a row group, estimated; no less than they have uncompressed."""
    total = 0
    for i in columns:
        chunk = group.column(i)
        width = _OF_TEXT if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page else 8
        total += max(chunk.total_uncompressed_size, chunk.num_values * width)
    return total


def decode_row_groups(
    groups: Sequence[RowGroup], files: Generator[OpenFile], read: ReadRowGroup, allowance: Allowance
) -> Iterator[Batches]:
    """The batches of each row group, in order.

    Args:
        groups: Which.
        files: For each of them what opens the file, whose wanted bytes it can read.
        read: Reads one.
        allowance: What bounds the memory of those that are decoded at once.

    Raises:
        Exception: What `read` raises of a row group, after the batches of those before it.
    """
    if len(groups) < 2 or max(g.fetched + g.decoded for g in groups) > allowance.limit // 8:
        for group, file in zip(groups, files, strict=True):
            yield read(file, group.number, threads=True)[1]
        return

    def work(unit: tuple[RowGroup, OpenFile]) -> Batches:
        count, batches = read(unit[1], unit[0].number, threads=False)
        return list(batches) if count <= _MOST_BATCHES else batches  # larger than it seemed: as it is wanted

    def units() -> Generator[tuple[RowGroup, OpenFile]]:
        with closing(files):
            yield from zip(groups, files, strict=True)

    yield from map_ordered(units(), work, allowance, cost=lambda unit: unit[0].fetched + unit[0].decoded)
