"""Rows per batch of a row group, so that batches are bounded in memory, however small the file is.

A thousand columns, or a 10 kB text in a dictionary used by a million rows, would make batches of gigabytes. The size of
a row is estimated from the footer and from the dictionaries of texts, so every run has the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

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
    """Return the number of rows per batch of a row group.

    Args:
        group: Metadata of the row group.
        columns: Indexes of the leaf columns to read.
        most: Maximum number of rows.
        sizes: Returns sizes of the text dictionaries at these paths; a missing one counts as long as its chunk.
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
            found.update((p, _sizes(d)) for p, d in zip(below, dictionaries, strict=True))
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


def _sizes(dictionary: pa.Array) -> TextSizes:
    lengths = pc.binary_length(dictionary)
    return TextSizes(pc.mean(lengths).as_py() or 0.0, pc.max(lengths).as_py() or 0)
