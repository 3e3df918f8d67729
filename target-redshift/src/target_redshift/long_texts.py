"""Texts that are too long for their VARCHAR column: they go into a SUPER column of the same row, whole. Pure.

Redshift's SUPER takes strings of more than 65,535 bytes where the cluster's parameter `enable_large_strings_opt_in`
allows it [r_enable_large_strings_opt_in].
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.casting.to_json import json_text

FAIL, SUPER, RESCUE = "fail", "super", "rescue"
CHOICES = (FAIL, SUPER, RESCUE)
COLUMN = "_sdc_long_text"
"""The column that rescued texts go into: an object from columns to texts; null where a row has none."""
_PLAIN_BYTES = 64
"""More than a number, a time or a word takes in JSON."""


def parted(array: pa.Array, most: int) -> tuple[pa.Array, pa.Array]:
    """Split texts into those of at most so many bytes and longer ones; each is null in one of the two."""
    is_long = pc.fill_null(pc.greater(pc.binary_length(array), most), False)
    nothing = pa.scalar(None, array.type)
    return pc.if_else(is_long, nothing, array), pc.if_else(is_long, array, nothing)


def objects(rows: int, texts: Mapping[str, pa.Array]) -> pa.Array:
    """Return the JSON text of each row's long texts by column; null where a row has none."""
    found: dict[int, dict[str, str]] = {}
    for name, array in texts.items():
        for row in pc.indices_nonzero(array.is_valid()).to_pylist():
            found.setdefault(row, {})[name] = array[row].as_py()
    return pa.array([json_text(found[row]) if row in found else None for row in range(rows)], pa.string())


def json_bytes(batch: pa.RecordBatch, row: int, long: str) -> int:
    """Return the most bytes that a row takes in JSON Lines, with the JSON text of its long texts."""
    size = len(long.encode()) + len(COLUMN) + _PLAIN_BYTES
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        value = array[row].as_py()
        size += len(json_text(name)) + _PLAIN_BYTES
        if isinstance(value, bytes):
            size += -(-len(value) // 3) * 4
        elif isinstance(value, str):
            size += len(json_text(value).encode())
    return size
