"""Columns of a columnar file to read, and columns and members that the schema lacks. Pure."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.to_json import is_list
from singer_arrow.enforcement.schema_drift import (
    paths_with_exclusions,
    raise_new_columns,
    type_name,
    unknown_columns,
    widened_field,
    without_excluded,
)
from singer_arrow.errors import DataError, DriftError
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.schema.arrow_schema import canonical, is_json

logger = logging.getLogger(__name__)


def columns_to_read(file: pa.Schema, schema: pa.Schema, options: ReadOptions, url: object) -> list[str]:
    """Return the columns of a file to read, in its order: those of the schema, and new ones to rescue.

    A column of type null is never new, as it has no values.

    Args:
        file: Schema of the file.
        schema: Schema of the stream.
        options: How to read the file.
        url: The file.

    Raises:
        DriftError: The file has new columns or object members, and `options.on_drift` is `raise`.
        DataError: The file has one of the columns twice.
    """
    new = unknown_columns([f.name for f in file if not pt.is_null(f.type)], schema, options)
    if paths_with_exclusions(options.excluded_members):
        new = [name for name in new if not pt.is_null(included_field(file.field(name), schema, options).type)]
    names = {*schema_columns(schema, options), *new}
    found = [name for name in file.names if name in names]
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise DataError("the file has it twice", url=url, column=twice, hint="Rename one of them at the source")
    known = set[str]() if options.on_drift == "ignore" else set(schema.names)
    grown = [f for f in file if f.name in known and has_new_members(f, schema, options)]
    if options.on_drift == "raise":
        raise_new_columns([included_field(file.field(name), schema, options) for name in new], url)
        _raise_new_members([included_field(f, schema, options) for f in grown], schema, url)
        return found
    if new or grown:
        listed = ", ".join(repr(name) for name in [*new, *(f"{f.name} (members)" for f in grown)][:10])
        logger.warning(f"{url}: the file has what the schema lacks: {listed}; its values go to {RESCUED}")
    return found


def schema_columns(schema: pa.Schema, options: ReadOptions) -> list[str]:
    """Return the columns of a schema that come from files."""
    return [name for name in schema.names if name != RESCUED or not options.rescues]


def canonical_field(field: pa.Field) -> pa.Field:
    """Return a field of a file with canonical types."""
    return canonical(pa.schema([field])).field(0)


def included_field(field: pa.Field, schema: pa.Schema, options: ReadOptions) -> pa.Field:
    """Return a field of a file with canonical types, without excluded members; of type null if nothing remains."""
    at = schema.get_field_index(field.name)
    return without_excluded(canonical_field(field), schema.field(at) if at >= 0 else None, options.excluded_members)


def has_new_members(field: pa.Field, schema: pa.Schema, options: ReadOptions) -> bool:
    """Return whether a file's column has object members that the schema lacks, apart from excluded ones."""
    ours = schema.field(field.name)
    if options.known_columns is None or is_json(ours) or not (pt.is_nested(ours.type) and pt.is_nested(field.type)):
        return False
    return _has_more(included_field(field, schema, options).type, ours.type)


def rows_with_new_members(column: pa.Array, kept: pa.Field, ours: pa.Field) -> pa.Array:
    """Return true for rows with a value in a new object member.

    Args:
        column: Column of the file.
        kept: Its `included_field`.
        ours: Field of the schema.
    """
    return _new_member_rows(fit(column, kept), ours.type)


def _raise_new_members(fields: list[pa.Field], schema: pa.Schema, url: object) -> None:
    merged = [w for f in fields if (w := widened_field(schema.field(f.name), f)) is not None]
    if merged:
        first = fields[0]
        reason = f"the file has it as {type_name(first)}, the schema as {type_name(schema.field(first.name))}"
        raise DriftError(reason, merged, url=url, column=first.name)


def _has_more(found: pa.DataType, ours: pa.DataType) -> bool:
    if pt.is_struct(found) and pt.is_struct(ours):
        own = {f.name: f.type for f in ours}
        some = [f for f in found if not pt.is_null(f.type)]
        return any(f.name not in own or _has_more(f.type, own[f.name]) for f in some)
    if (is_list(found) and is_list(ours)) or (pt.is_map(found) and pt.is_map(ours)):
        return _has_more(_item(found), _item(ours))
    return False


def _item(t: pa.DataType) -> pa.DataType:
    return t.item_type if pt.is_map(t) else t.value_type


def _new_member_rows(column: pa.Array, ours: pa.DataType) -> pa.Array:
    """Return what `rows_with_new_members` does, for a column with canonical types."""
    found = pa.repeat(pa.scalar(value=False), len(column))
    t = column.type
    if pt.is_struct(t) and pt.is_struct(ours):
        own = {f.name: f.type for f in ours}
        for member, part in zip(t, column.flatten(), strict=True):
            found_here = _new_member_rows(part, own[member.name]) if member.name in own else part.is_valid()
            found = pc.or_(found, found_here)
    elif (is_list(t) and is_list(ours)) or (pt.is_map(t) and pt.is_map(ours)):
        items = _new_member_rows(column.items if pt.is_map(t) else column.values, _item(ours))
        before = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(items.cast(pa.int64()))])
        ends = column.offsets.cast(pa.int64())  # counts of such items before each offset
        counted = before.take(ends)
        found = pc.and_(column.is_valid(), pc.not_equal(counted.slice(1), counted.slice(0, len(column))))
    return found
