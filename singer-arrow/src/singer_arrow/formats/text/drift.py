"""Detect drift in a file of text: new columns, and columns of another type than the schema has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.enforcement.schema_drift import raise_new_columns, type_name, unknown_columns, widened_field
from singer_arrow.errors import DriftError
from singer_arrow.formats.delivery import FilePosition
from singer_arrow.formats.row_policy import BlockResult
from singer_arrow.formats.text.rows import TextRows

SAMPLE = 1 << 20
"""Bytes at the beginning of a file from which the types of its columns are inferred, to detect drift."""


@dataclass(frozen=True)
class TextDrift:
    """Detection of drift in one file; `infer` returns the types of its columns, inferred from its beginning."""

    rows: TextRows
    infer: Callable[[], pa.Schema]

    def refuse(self, block: BlockResult, position: FilePosition) -> None:
        """Raise DriftError if the schema must change before a block is delivered."""
        has_rows = block.failed is not None or (block.batch is not None and block.batch.num_rows > 0)
        if self._new and has_rows:
            raise_new_columns([self._found(pa.field(name, pa.null())) for name in self._new], position.url)
        drifted = [
            (mismatch, own, merged)
            for mismatch in block.mismatches
            if mismatch.column not in self.rows.options.declared_columns
            for own in [self.rows.schema.field(mismatch.column)]
            if (merged := widened_field(own, self._found(own))) is not None
        ]
        if drifted:
            reason = "; ".join(
                f"{mismatch.reason}, as the file has {own.name!r} as {type_name(self._found(own))}, "
                f"the schema as {type_name(own)}"
                for mismatch, own, _ in drifted
            )
            first = position.error(drifted[0][0])
            fields = [merged for *_, merged in drifted]
            raise DriftError(reason, fields, url=position.url, line=first.line, column=first.column)

    def _found(self, own: pa.Field) -> pa.Field:
        """Return a column with its type in the file; text if neither the file nor the schema has a value of it."""
        at = self._types.get_field_index(own.name)
        found = self._types.field(at) if at >= 0 else pa.field(own.name, pa.null())
        return found.with_type(pa.string()) if pt.is_null(found.type) and pt.is_null(own.type) else found

    @cached_property
    def _new(self) -> list[str]:
        return unknown_columns(self.rows.names, self.rows.schema, self.rows.options)

    @cached_property
    def _types(self) -> pa.Schema:
        return self.infer()
