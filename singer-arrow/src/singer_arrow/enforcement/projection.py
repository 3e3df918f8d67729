"""What a file of columns has, beside what a schema wants of it. Pure."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.to_json import is_list
from singer_arrow.enforcement.schema_drift import (
    new_columns,
    paths_with_exclusions,
    raise_new_columns,
    type_name,
    widened_field,
    without_excluded,
)
from singer_arrow.errors import DataError, DriftError
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.schema.arrow_schema import canonical, is_json

logger = logging.getLogger(__name__)


def columns_to_read(file: pa.Schema, schema: pa.Schema, options: ReadOptions, url: object) -> list[str]:
    """The columns of a file that are read, in its order: those of the schema, and new ones if they are rescued.

    A column whose values are all null for its type says so is not new, as it has none.

    Args:
        file: What the file says that it has.
        schema: What is wanted.
        options: How it is read.
        url: The file.

    Raises:
        DriftError: It has new columns, or new members of objects, and `options.on_drift` is `raise`.
        DataError: One of the columns stands in it twice.
    """
    new = new_columns([f.name for f in file if not pt.is_null(f.type)], schema, options)
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
        _refuse_grown([included_field(f, schema, options) for f in grown], schema, url)
        return found
    if new or grown:
        told = ", ".join(repr(name) for name in [*new, *(f"{f.name} (members)" for f in grown)][:10])
        logger.warning(f"{url}: the file has what the schema lacks: {told}; its values go to {RESCUED}")
    return found


def schema_columns(schema: pa.Schema, options: ReadOptions) -> list[str]:
    """The columns of a schema that are looked for in files."""
    return [name for name in schema.names if name != RESCUED or not options.rescues]


def canonical_field(field: pa.Field) -> pa.Field:
    """A column of a file in canonical types."""
    return canonical(pa.schema([field])).field(0)


def included_field(field: pa.Field, schema: pa.Schema, options: ReadOptions) -> pa.Field:
    """A column of a file in canonical types, without members that are left out; of type null if it has no others."""
    at = schema.get_field_index(field.name)
    return without_excluded(canonical_field(field), schema.field(at) if at >= 0 else None, options.excluded_members)


def has_new_members(field: pa.Field, schema: pa.Schema, options: ReadOptions) -> bool:
    """Whether a file's column has members that the schema's lacks, and that are news."""
    ours = schema.field(field.name)
    if options.known_columns is None or is_json(ours) or not (pt.is_nested(ours.type) and pt.is_nested(field.type)):
        return False
    return _is_more(included_field(field, schema, options).type, ours.type)


def rows_with_new_members(column: pa.Array, kept: pa.Field, ours: pa.Field) -> pa.Array:
    """True for rows with a value in a member that the schema's column lacks, and that is news.

    Args:
        column: As the file has it.
        kept: What `included_field` says of it.
        ours: The schema's.
    """
    return _with_more(fit(column, kept), ours.type)


def _refuse_grown(fields: list[pa.Field], schema: pa.Schema, url: object) -> None:
    merged = [w for f in fields if (w := widened_field(schema.field(f.name), f)) is not None]
    if merged:
        first = fields[0]
        reason = f"the file has it as {type_name(first)}, the schema as {type_name(schema.field(first.name))}"
        raise DriftError(reason, merged, url=url, column=first.name)


def _is_more(found: pa.DataType, ours: pa.DataType) -> bool:
    if pt.is_struct(found) and pt.is_struct(ours):
        own = {f.name: f.type for f in ours}
        some = [f for f in found if not pt.is_null(f.type)]
        return any(f.name not in own or _is_more(f.type, own[f.name]) for f in some)
    if (is_list(found) and is_list(ours)) or (pt.is_map(found) and pt.is_map(ours)):
        return _is_more(_item(found), _item(ours))
    return False


def _item(t: pa.DataType) -> pa.DataType:
    return t.item_type if pt.is_map(t) else t.value_type


def _with_more(column: pa.Array, ours: pa.DataType) -> pa.Array:
    """See `rows_with_new_members`; of a column in canonical types."""
    found = pa.repeat(pa.scalar(value=False), len(column))
    t = column.type
    if pt.is_struct(t) and pt.is_struct(ours):
        own = {f.name: f.type for f in ours}
        for member, part in zip(t, column.flatten(), strict=True):
            news = _with_more(part, own[member.name]) if member.name in own else part.is_valid()
            found = pc.or_(found, news)
    elif (is_list(t) and is_list(ours)) or (pt.is_map(t) and pt.is_map(ours)):
        items = _with_more(column.items if pt.is_map(t) else column.values, _item(ours))
        before = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(items.cast(pa.int64()))])
        ends = column.offsets.cast(pa.int64())  # items with more before each offset: where they grow is one
        counted = before.take(ends)
        found = pc.and_(column.is_valid(), pc.not_equal(counted.slice(1), counted.slice(0, len(column))))
    return found
