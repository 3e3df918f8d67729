"""Columns of text as the payload of PostgreSQL's COPY, in its text format (vectorised)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from local_cloud.redshift.copy.columns import Column, scalar
from local_cloud.redshift.copy.command import CopyCommand
from local_cloud.redshift.copy.sources import Objects
from local_cloud.redshift.errors import LoadErrorRow

NULL = "\\N"
_SPECIAL = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPED_TYPES = ("varchar", "char", "super", "varbyte")


@dataclass(frozen=True, slots=True)
class Load:
    """The context of a reader of files."""

    command: CopyCommand
    columns: tuple[Column, ...]  # the columns that the file fills, in order
    objects: Objects
    note: Callable[[LoadErrorRow], None]  # records a wrong record; raises RedshiftError when there were too many


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows in PostgreSQL's text format."""

    payload: bytes
    rows: int


def piece(columns: Sequence[Column], texts: Sequence[pa.Array]) -> Piece | None:
    """Return rows in PostgreSQL's text form, or None if there are none. Columns are large_string or dictionaries."""
    rows = len(texts[0])
    if not rows:
        return None
    cells = [_cell(column, text) for column, text in zip(columns, texts, strict=True)]
    lines = pc.binary_join_element_wise(*cells, scalar("\t"), null_handling="replace", null_replacement=NULL)
    ended = pc.binary_join_element_wise(lines, scalar(""), scalar("\n"))
    return Piece(data_of(ended), rows)


def _cell(column: Column, text: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(text.type):
        return _cell(column, text.dictionary).take(text.indices)
    return _escaped(text) if column.type in _ESCAPED_TYPES else text


def _escaped(text: pa.Array) -> pa.Array:
    """Escape separators of values and rows by backslashes. Most columns contain none, and the test is cheap."""
    data = data_of(text)
    for special, escaped in _SPECIAL.items():
        if special.encode() in data:
            text = pc.replace_substring(text, special, escaped)
    return text


def data_of(text: pa.Array) -> bytes:
    """Return all values of a large_string array, joined. Bytes behind nulls may be among them."""
    if not len(text):
        return b""
    _, offsets, data = text.buffers()
    ends = memoryview(offsets).cast("q")
    start, end = ends[text.offset], ends[text.offset + len(text)]
    return data.slice(start, end - start).to_pybytes() if data is not None else b""
