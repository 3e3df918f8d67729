"""Lines of JSON that hold a record among other members, as messages do -> one record batch, fast or not at all.

The lines are read as they are: Arrow's reader makes the record and the other members that are wanted in one go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from singer_arrow.formats.json.fast_reader import (
    ArrowLines,
    NotPlainError,
    Way,
    batch_of,
    by_name,
    by_number,
    finish,
    read_lines,
)
from singer_arrow.formats.json.line_ends import LineEnds
from singer_arrow.formats.json.unknown_keys import NO_FIELD

TextCheck = Callable[[pa.Array, pa.Field], bool]
"""Whether all texts of a column may become values of the field."""
_ANY_ROW = "\0"
"""The name of a column that no record has, for records of which Arrow's reader makes no column."""


class EnvelopedLines(ArrowLines):
    """As `ArrowLines`, of lines whose member `under` is the record; may be called from several threads at once.

    Args:
        schema: The columns that are wanted of the record.
        under: The member that holds it.
        around: The other members that are wanted; that one stands twice in a line is noticed.
        is_closed: Any other member, of lines, records or objects within, is for a closer look.
        loose_text: As in `ArrowLines`.
        fits: Told of columns that come as text, before they are converted.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        under: str,
        around: pa.Schema,
        is_closed: bool = False,
        loose_text: bool = False,
        fits: TextCheck | None = None,
    ) -> None:
        super().__init__(schema, None, frozenset(), loose_text=loose_text)
        self._under, self._around, self._fits = under, around, fits
        self._unexpected = "error" if is_closed else "ignore"

    def rows(self, data: bytes, way: Way) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
        """The records of whole lines, and the members around them.

        Raises:
            Exception: One of `FAILED`: the lines hold something that needs a closer look.
        """
        self._check(data, way)
        columns = self._columns(way)
        read = list(columns.read) or [pa.field(_ANY_ROW, pa.null())]
        whole = self._around.append(pa.field(self._under, pa.struct(read)))
        table = read_lines(data, whole, LineEnds.of(data), unexpected=self._unexpected)
        record = table.column(self._under)
        if record.null_count:
            raise NotPlainError
        found = dict(zip((f.name for f in record.type), record.flatten(), strict=True))
        self._check_integers(data, way)
        raws, _ = self._raws(data, columns.raw, table.num_rows, way)
        made = [raws[f.name] if f.name in raws else self._finished(found[f.name], f) for f in self._schema]
        around = {f.name: table.column(f.name) for f in self._around}
        return batch_of(made, self._schema, table.num_rows), around

    def _finished(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if self._fits is not None and column.type != field.type and not self._fits(column, field):
            raise NotPlainError
        return finish(column, field)

    def _raw_values(self, data: bytes, names: tuple[str, ...]) -> list[list[Any]]:
        is_odd = any(c in name for name in names for c in NO_FIELD)
        messages: list[Any] = (_any_members(self._under) if is_odd else _members(self._under, names)).decode_lines(data)
        records = map(attrgetter("record"), messages)
        return by_name(records, names) if is_odd else by_number(records, len(names))


@lru_cache(maxsize=64)
def _members(under: str, names: tuple[str, ...]) -> Any:
    fields = [(f"f{i}", msgspec.Raw, msgspec.Raw(b"null")) for i in range(len(names))]
    rename = {f"f{i}": name for i, name in enumerate(names)}
    return _envelope(under, msgspec.defstruct("Raws", fields, rename=rename, gc=False))


@lru_cache(maxsize=4)
def _any_members(under: str) -> Any:
    return _envelope(under, dict[str, msgspec.Raw])


def _envelope(under: str, record: Any) -> Any:
    return msgspec.json.Decoder(msgspec.defstruct("Line", [("record", record)], rename={"record": under}, gc=False))
