"""Read lines of JSON whose record is a member of an object, as in messages, by Arrow's JSON reader.

Arrow's reader makes the record and the other selected members in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from singer_arrow.enforcement.row_policy import batch_of
from singer_arrow.formats.json.arrow_checks import LineEnds
from singer_arrow.formats.json.fast_reader import (
    FAST_PATH_ERRORS,
    ArrowJsonReader,
    FastPathError,
    convert_column,
    read_objects,
)
from singer_arrow.formats.json.strategies import ReadStrategy
from singer_arrow.formats.json.unknown_keys import KnownKeys

TextCheck = Callable[[pa.Array, pa.Field], bool]
"""Return whether all texts of a column can become values of the field."""
_ANY_ROW = "\0"  # column that no record has, for records without a column that Arrow's reader makes


class EnvelopeReader(ArrowJsonReader):
    """Reader of lines whose member `under` is the record; safe to call from several threads at once.

    `around` are the other members to read; a line that repeats one of them needs the exact reader. If it `is_closed`,
    so does a line with any other member, also within records. `keys` are the known keys of the record, if others are
    counted. `fits` returns whether a column of text can be converted to a field.
    """

    _under: str

    def __init__(
        self,
        schema: pa.Schema,
        *,
        under: str,
        around: pa.Schema,
        is_closed: bool = False,
        loose_text: bool = False,
        keys: KnownKeys | None = None,
        fits: TextCheck | None = None,
    ) -> None:
        super().__init__(schema, keys, frozenset(), loose_text=loose_text)
        self._under, self._around, self._fits = under, around, fits
        self._unexpected = "error" if is_closed else "ignore" if keys is None else "infer"

    def rows(
        self, data: bytes, strategy: ReadStrategy
    ) -> tuple[pa.RecordBatch, dict[str, pa.Array], Mapping[str, int]]:
        """Return the records of whole lines, the members around them, and how often they hold each unknown key.

        Raises one of `FAST_PATH_ERRORS` if a line is bad, or needs the exact reader.
        """
        self._check(data, strategy)
        made_by_arrow, from_json = self._columns(strategy)
        read = list(made_by_arrow) or [pa.field(_ANY_ROW, pa.null())]
        whole = self._around.append(pa.field(self._under, pa.struct(read)))
        ends, unexpected = LineEnds.of(data), self._unexpected
        try:
            table = read_objects(data, whole, ends, unexpected=unexpected)
        except FAST_PATH_ERRORS:
            if unexpected != "infer":
                raise
            table = read_objects(data, whole, ends, unexpected="ignore")
            self._unexpected = unexpected = "scan"  # for the next blocks too: a key has several kinds of values
        record = table.column(self._under)
        unknown: Mapping[str, int] = {}
        if unexpected == "infer" and self._keys is not None and record.type != whole.field(self._under).type:
            found = dict(zip((f.name for f in record.type), record.flatten(), strict=True))
            unknown = self._keys.count_in(found, self._schema)
            if any(found[f.name].type != f.type for f in read):  # structs with more members
                record = read_objects(data, whole, ends, unexpected="ignore").column(self._under)
        if record.null_count:
            raise FastPathError
        found = dict(zip((f.name for f in record.type), record.flatten(), strict=True))
        self._check_numbers(data, strategy, found)
        raws, _ = self._raws(data, from_json, table.num_rows, strategy)
        made = [raws[f.name] if f.name in raws else self._converted(found[f.name], f) for f in self._schema]
        around = {f.name: table.column(f.name) for f in self._around}
        if unexpected == "scan" and self._keys is not None:
            unknown = self._keys.count_below(self._under, data)
        return batch_of(made, self._schema, table.num_rows), around, unknown

    def _converted(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if self._fits is not None and column.type != field.type and not self._fits(column, field):
            raise FastPathError
        return convert_column(column, field)
