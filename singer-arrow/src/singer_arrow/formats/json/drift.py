"""What the schema must become before the rows of a block can be given.

A new column has the type of its values in the block, and so have new members of objects: their struct widens. A value
that does not fit its column is drift if the beginning of the file shows that the file has another type there; else the
row is a bad one. A column whose type is null, as no value of it had been seen, takes the type of the values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.enforcement.schema_drift import type_name, widened_field, without_excluded
from singer_arrow.errors import DriftError
from singer_arrow.formats.json.infer import infer_lines
from singer_arrow.formats.json.parser import Parsed
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.schema.arrow_schema import merge_fields


class Drift:
    """What a file's blocks tell about a schema.

    Args:
        schema: What is wanted of the file.
        infer: The types that the beginning of the file shows; asked for once, when a value does not fit.
        url: The file.
        options: Of the reading.
    """

    def __init__(self, schema: pa.Schema, infer: Callable[[], pa.Schema], url: object, options: ReadOptions) -> None:
        self._schema, self._infer, self._url, self._options = schema, infer, url, options

    @cached_property
    def _shown(self) -> pa.Schema:
        return self._infer()

    def refuse(self, parsed: Parsed, line_of: Callable[[int], int]) -> None:
        """Raise DriftError if the schema must change before the rows of a block are given.

        Args:
            parsed: The block.
            line_of: The line of the file for one of the block.
        """
        found = {**self._new(parsed), **self._other(parsed)}
        if not found:
            return
        lines = [(n.line, name) for n in parsed.news for name in n.values]
        lines += [(f.line, f.column) for f in parsed.faults if f.column is not None]
        line, first = min((line, name) for line, name in lines if name in found)
        more = f", and so it is with {len(found) - 1} more" if len(found) > 1 else ""
        raise DriftError(
            f"{found[first][1]}{more}",
            [field for field, _ in found.values()],
            url=self._url,
            line=line_of(line),
            column=first,
        )

    def _new(self, parsed: Parsed) -> dict[str, tuple[pa.Field, str]]:
        """By name, what new columns and columns with new members must become, and why."""
        values = defaultdict[str, list[bytes]](list)
        for news in parsed.news:
            for name, raw in news.values.items():
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

    def _other(self, parsed: Parsed) -> dict[str, tuple[pa.Field, str]]:
        """By name, what columns must become of which a value does not fit, and why."""
        values = defaultdict[str, list[bytes]](list)
        for fault in parsed.faults:
            if (
                fault.raw is not None
                and fault.column is not None
                and fault.column not in self._options.declared_columns
            ):
                values[fault.column].append(fault.raw)
        found = {}
        for name, raws in values.items():
            field = self._schema.field(name)
            if pt.is_null(field.type):
                seen = _seen(name, raws)
            elif name in self._shown.names:
                seen = without_excluded(self._shown.field(name), field, self._options.excluded_members)
            else:
                continue
            if (merged := widened_field(field, seen)) is not None:
                found[name] = (merged, f"the file has it as {type_name(seen)}, the schema as {type_name(field)}")
        return found


def _seen(name: str, raws: Iterable[bytes]) -> pa.Field:
    lines = b"".join(b'{"seen":%b}\n' % raw for raw in raws)
    seen: pa.Field = infer_lines(lines, url=None, strict=False).field(0)
    return seen.with_name(name)
