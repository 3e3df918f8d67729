"""Detect drift in a file of JSON: new columns, new members of objects, and columns of another type.

A new column has the type of its values in the block; new members of objects widen their struct. A value that does not
fit its column is drift if the beginning of the file has another type there, otherwise its row is bad. A column of type
null, of which no value was seen before, takes the type of its values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.enforcement.row_policy import BlockResult
from singer_arrow.enforcement.schema_drift import type_name, widened_field, without_excluded
from singer_arrow.errors import DriftError
from singer_arrow.formats.delivery import FilePosition
from singer_arrow.formats.json.infer import infer_lines
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.schema.arrow_schema import merge_fields


class JsonDrift:
    """Detection of drift in one file.

    Args:
        schema: Schema of the batches.
        infer: Returns the types of the beginning of the file; called at most once, when a value does not fit.
        options: Options of the reading.
    """

    def __init__(self, schema: pa.Schema, infer: Callable[[], pa.Schema], options: ReadOptions) -> None:
        self._schema, self._infer, self._options = schema, infer, options

    @cached_property
    def _inferred(self) -> pa.Schema:
        return self._infer()

    def refuse(self, block: BlockResult, position: FilePosition) -> None:
        """Raise DriftError if the schema must change before a block is delivered."""
        if not (block.mismatches or block.unknown):
            return
        found = {**self._new_fields(block), **self._changed_fields(block)}
        if not found:
            return
        lines = [(keys.row, name) for keys in block.unknown for name in keys.values]
        lines += [(e.row, e.column) for e in block.mismatches if e.column is not None]
        line, first = min((line, name) for line, name in lines if name in found)
        more = f", and so it is with {len(found) - 1} more" if len(found) > 1 else ""
        raise DriftError(
            f"{found[first][1]}{more}",
            [field for field, _ in found.values()],
            url=position.url,
            line=position.line_of(line),
            column=first,
        )

    def _new_fields(self, block: BlockResult) -> dict[str, tuple[pa.Field, str]]:
        """Return, by name, the fields of new columns and of columns with new members, and the reasons."""
        values = defaultdict[str, list[bytes]](list)
        for keys in block.unknown:
            for name, raw in keys.values.items():
                values[name].append(raw)
        values.pop(RESCUED, None)
        found = {}
        for name, raws in values.items():
            seen = _seen(name, raws)
            if name not in self._schema.names:
                found[name] = (seen, f"the file has a new column: {name!r} ({type_name(seen)})")
            else:
                merged = merge_fields(self._schema.field(name), seen)
                found[name] = (merged, f"the file has new members in it, with which it is {type_name(merged)}")
        return found

    def _changed_fields(self, block: BlockResult) -> dict[str, tuple[pa.Field, str]]:
        """Return, by name, the widened fields of columns with a value that does not fit, and the reasons."""
        values = defaultdict[str, list[bytes]](list)
        for error in block.mismatches:
            if (
                error.raw is not None
                and error.column is not None
                and error.column not in self._options.declared_columns
            ):
                values[error.column].append(error.raw)
        found = {}
        for name, raws in values.items():
            field = self._schema.field(name)
            if pt.is_null(field.type):
                seen = _seen(name, raws)
            elif name in self._inferred.names:
                seen = without_excluded(self._inferred.field(name), field, self._options.excluded_members)
            else:
                continue
            if (merged := widened_field(field, seen)) is not None:
                found[name] = (merged, f"the file has it as {type_name(seen)}, the schema as {type_name(field)}")
        return found


def _seen(name: str, raws: Iterable[bytes]) -> pa.Field:
    lines = b"".join(b'{"seen":%b}\n' % raw for raw in raws)
    seen: pa.Field = infer_lines(lines, url=None, strict=False).field(0)
    return seen.with_name(name)
