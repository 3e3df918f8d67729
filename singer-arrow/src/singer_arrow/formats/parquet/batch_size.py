"""How many rows of a row group make a batch, so that none is large in memory, however small the file is.

Rows are counted, bytes are what matters: a thousand columns, or a text of 10 kB that a dictionary holds once and a
million rows name, make batches of gigabytes out of small files. What a row takes is told by the footer, and for
dictionaries of texts by the dictionaries themselves. All of that is the file's own, so every run cuts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

BATCH_BYTES = 32 << 20
"""Bytes in memory of a batch of rows of mean size, at most."""
LARGE_BATCH_BYTES = 64 << 20
"""Bytes of a batch whose rows all name the longest texts of their dictionaries, at most; a row is never cut."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "FIXED_LEN_BYTE_ARRAY": 32}
_OFFSET = 4
_SHORT = 512  # bytes of a column chunk of which no value needs to be looked at


@dataclass(frozen=True, slots=True)
class TextSizes:
    """Bytes of the texts of a dictionary."""

    mean: float
    longest: int


def rows_at_once(
    group: pq.RowGroupMetaData,
    columns: Sequence[int],
    most: int,
    sizes: Callable[[Sequence[str]], Mapping[str, TextSizes]],
) -> int:
    """Rows of a row group that are read at once.

    Args:
        group: What the footer says of it.
        columns: The numbers of the leaf columns that are read.
        most: Rows, at most.
        sizes: Looks at the dictionaries of texts at these paths; what it does not find may be any text of its chunk.
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
    """The sizes of texts in the dictionaries of a batch that was read with them, by the paths of its leaf columns.

    A path that does not lead to exactly one dictionary is left out.
    """
    found = dict[str, TextSizes]()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        below = [path for path in paths if path == name or path.startswith(name + ".")]
        dictionaries = list(_dictionaries(column))
        if len(below) == len(dictionaries):
            found.update((p, _sizes(d)) for p, d in zip(below, dictionaries, strict=True))
    return found


def _dictionaries(column: pa.Array) -> Iterator[pa.Array]:
    """Those of an array, in the order of its leaves."""
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
