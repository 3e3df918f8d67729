"""Decoding of row groups: small ones in parallel, others one by one, in batches of bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

from singer_arrow.reading.memory_budget import Allowance
from singer_arrow.reading.ordered_map import map_ordered

BATCH_BYTES = 32 << 20
"""Maximum bytes of a batch of rows of average size."""
LARGE_BATCH_BYTES = 64 << 20
"""Maximum bytes of a batch whose rows all use the longest texts of their dictionaries; rows are never split."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "FIXED_LEN_BYTE_ARRAY": 32}
_OFFSET = 4
_SHORT = 512  # bytes up to which the dictionary of a column chunk is not examined


@dataclass(frozen=True, slots=True)
class TextSizes:
    """Mean and maximum bytes of the texts of a dictionary."""

    mean: float
    longest: int


def rows_at_once(
    group: pq.RowGroupMetaData,
    columns: Sequence[int],
    most: int,
    sizes: Callable[[Sequence[str]], Mapping[str, TextSizes]],
) -> int:
    """Return the number of rows per batch of a row group, at most `most`, for its leaf columns of these indexes.

    `sizes` returns the sizes of the text dictionaries at some paths; a missing one counts as long as its chunk.
    """
    chunks = [group.column(i) for i in columns]
    named = [c for c in chunks if c.physical_type == "BYTE_ARRAY" and c.has_dictionary_page]
    large = [c.path_in_schema for c in named if c.total_uncompressed_size > _SHORT]
    found = sizes(large) if large else {}
    rows, mean, longest = max(1, group.num_rows), 0.0, 0.0
    for chunk in chunks:
        fixed = chunk.num_values * _WIDTHS.get(chunk.physical_type, _OFFSET)
        mean += fixed
        longest += fixed
        if chunk.physical_type == "BYTE_ARRAY":
            stored = chunk.total_uncompressed_size
            texts = found.get(chunk.path_in_schema, TextSizes(0, stored)) if chunk in named else TextSizes(0, 0)
            mean += stored + chunk.num_values * texts.mean
            longest += stored + chunk.num_values * texts.longest
    fit = min(BATCH_BYTES * rows / max(1.0, mean), LARGE_BATCH_BYTES * rows / max(1.0, longest))
    return max(1, min(most, int(fit)))


def text_sizes(batch: pa.RecordBatch, paths: Sequence[str]) -> dict[str, TextSizes]:
    """Return the sizes of texts in the dictionaries of a batch, by the paths of its leaf columns.

    Paths without exactly one dictionary are omitted.
    """
    found = dict[str, TextSizes]()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        below = [path for path in paths if path == name or path.startswith(name + ".")]
        dictionaries = list(_dictionaries(column))
        if len(below) == len(dictionaries):
            lengths = [pc.binary_length(dictionary) for dictionary in dictionaries]
            sizes = (TextSizes(pc.mean(n).as_py() or 0.0, pc.max(n).as_py() or 0) for n in lengths)
            found.update(zip(below, sizes, strict=True))
    return found


def _dictionaries(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the dictionaries of an array, in the order of its leaves."""
    if pt.is_dictionary(column.type):
        yield column.dictionary
    elif pt.is_struct(column.type):
        for i in range(column.type.num_fields):
            yield from _dictionaries(column.field(i))
    elif pt.is_map(column.type):
        yield from _dictionaries(column.keys)
        yield from _dictionaries(column.items)
    elif pt.is_nested(column.type):
        yield from _dictionaries(column.values)


_MOST_BATCHES = 2  # of a row group that is decoded as a whole
_OF_TEXT = 64  # assumed bytes of a text in a dictionary

Batches = Iterable[pa.RecordBatch]
OpenFile = Callable[..., pq.ParquetFile]


class ReadRowGroup(Protocol):
    """Returns the number of batches of a row group, and the batches; decodes with several threads if `threads`."""

    def __call__(self, open_file: OpenFile, group: int, *, threads: bool) -> tuple[int, Iterator[pa.RecordBatch]]: ...


def decoded_bytes(group: pq.RowGroupMetaData, columns: Iterable[int]) -> int:
    """Estimate the bytes in memory of leaf columns of a row group; at least their uncompressed size."""
    total = 0
    for i in columns:
        chunk = group.column(i)
        width = _OF_TEXT if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page else 8
        total += max(chunk.total_uncompressed_size, chunk.num_values * width)
    return total


def decode_row_groups(
    costs: Mapping[int, int], files: Generator[OpenFile], read: ReadRowGroup, allowance: Allowance
) -> Iterator[Batches]:
    """Yield the batches of each row group, in order; errors of `read` are raised after those of earlier row groups.

    `costs` are the bytes of each as stored and in memory together. `files` yields for each a function that opens the
    file with the needed ranges.
    """
    if len(costs) < 2 or max(costs.values()) > allowance.limit // 8:
        for group, file in zip(costs, files, strict=True):
            yield read(file, group, threads=True)[1]
        return

    def work(unit: tuple[int, OpenFile]) -> Batches:
        count, batches = read(unit[1], unit[0], threads=False)
        return list(batches) if count <= _MOST_BATCHES else batches  # larger than estimated: decode lazily

    def units() -> Generator[tuple[int, OpenFile]]:
        with closing(files):
            yield from zip(costs, files, strict=True)

    yield from map_ordered(units(), work, allowance, cost=lambda unit: costs[unit[0]])
