"""Batches as they are read -> batches that Redshift takes, and the values that it has no place for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.batch import conversion
from singer_arrow.errors import DataError
from target_redshift.types import MAX_VARBYTE, MAX_VARCHAR, Column, read_schema, upload_schema


class Conversion(conversion.Conversion[Column]):
    """See the base."""

    __slots__ = ()

    def read_field(self, column: Column) -> pa.Field:
        """See the base."""
        return read_schema([column], self.given).field(0)

    def upload_field(self, column: Column) -> pa.Field:
        """See the base."""
        return upload_schema([column]).field(0)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value that Redshift cannot hold: its row among those that were looked at, from 0, and what is wrong."""

    row: int
    reason: str
    hint: str


def checked(
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[Column],
    url: str,
    *,
    varchar_max: int = MAX_VARCHAR,
    as_text: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The batches of one file, looked at before Redshift does, which would say less.

    Args:
        batches: As they were read, so with the names of properties.
        columns: What they go into.
        url: The file, for messages.
        varchar_max: The most bytes that VARCHAR columns get, unless they have more already.
        as_text: They are uploaded in a format of text.

    Raises:
        DataError: Text is too long or holds a NUL, or bytes are too many; names the file, the row and the column.
    """
    first = 1
    wanted = {c.source: limit(c, varchar_max, as_text=as_text) for c in columns}
    for batch in batches:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if (most := wanted.get(name)) and (bad := misfit(array, most)):
                reason = f"row {first + bad.row}: {bad.reason}"
                raise DataError(reason, url=url, column=name, hint=bad.hint)
        yield batch
        first += batch.num_rows


def limit(column: Column, varchar_max: int = MAX_VARCHAR, *, as_text: bool = False) -> int | None:
    """The most bytes that a value of the column may have; None if it is of another kind."""
    match column.kind:
        case "VARCHAR":
            return max(column.length or 0, varchar_max)
        case "SUPER":
            return MAX_VARCHAR  # it is staged as text
        case "VARBYTE":
            most = column.length or MAX_VARBYTE
            return min(most, MAX_VARCHAR // 4 * 3) if as_text else most  # base64, which is staged as text
    return None


def misfit(array: pa.Array, most: int) -> Misfit | None:
    """The first value of text or bytes that is longer than `most` bytes, or text with a NUL in it."""
    lengths = pc.binary_length(array)
    if (pc.max(lengths).as_py() or 0) > most:
        row = pc.index(pc.greater(lengths, most), True).as_py()
        what = "the text" if pa.types.is_string(array.type) else "the value"
        return Misfit(
            row,
            f"{what} has {lengths[row].as_py():,} bytes, and Redshift's column takes {most:,}",
            "Shorten it or leave the column out in the tap",
        )
    if pa.types.is_string(array.type):
        has_nul = pc.match_substring(array, "\0")
        if pc.any(has_nul).as_py():
            row = pc.index(has_nul, True).as_py()
            return Misfit(row, "the text holds a NUL character, which Redshift does not take", "Remove it in the tap")
    return None
