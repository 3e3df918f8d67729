"""Drift between a file and the schema: columns to read, new columns, changed types, rescued values. Pure."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.to_json import is_list
from singer_arrow.errors import DataError, DriftError
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.schema.arrow_schema import UTC_MICROSECONDS, canonical, is_json, merge_fields

_NOT_READ = ("ignore", "count")  # values of `ReadOptions.on_drift` with which new columns are not read


def unknown_columns(names: Iterable[str], schema: pa.Schema, options: ReadOptions) -> list[str]:
    """Return the columns of a file that are neither in the schema nor in `known_columns`."""
    if options.known_columns is None or options.on_drift in _NOT_READ:
        return []
    known = options.known_columns.union(schema.names)
    return [name for name in names if name not in known]


@lru_cache(maxsize=64)
def paths_with_exclusions(excluded: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """Map each path above an excluded member to the rests of the members' paths below it."""
    found = defaultdict[str, list[str]](list)
    for path in excluded:
        for end in (end for end, c in enumerate(path) if c == "."):
            found[path[:end]].append(path[end + 1 :])
    return dict(found)


def without_excluded(field: pa.Field, ours: pa.Field | None, excluded: frozenset[str]) -> pa.Field:
    """Return a file's field without excluded members, at any depth; of type null if nothing remains.

    The members of `ours`, the schema's field, are kept. The types are canonical.
    """
    if not pt.is_nested(field.type) or field.name not in paths_with_exclusions(excluded):
        return field
    return field.with_type(_without(field.type, None if ours is None else ours.type, excluded, field.name))


def _without(t: pa.DataType, ours: pa.DataType | None, excluded: frozenset[str], path: str) -> pa.DataType:
    if pt.is_struct(t):
        own = {f.name: f.type for f in ours} if ours is not None and pt.is_struct(ours) else {}
        kept = []
        for f in t:
            at = f"{path}.{f.name}"
            if f.name not in own and at in excluded:
                continue
            inner = _without(f.type, own.get(f.name), excluded, at)
            if pt.is_null(f.type) or not pt.is_null(inner):
                kept.append(f.with_type(inner))
        return pa.struct(kept) if kept else pa.null()
    if pt.is_list(t):
        inner = _without(
            t.value_type, ours.value_type if ours is not None and pt.is_list(ours) else None, excluded, path
        )
        return pa.list_(inner) if pt.is_null(t.value_type) or not pt.is_null(inner) else inner
    if pt.is_map(t):
        inner = _without(t.item_type, ours.item_type if ours is not None and pt.is_map(ours) else None, excluded, path)
        return pa.map_(t.key_type, inner) if pt.is_null(t.item_type) or not pt.is_null(inner) else inner
    return t


def raise_new_columns(found: Iterable[pa.Field], url: object) -> None:
    """Raise DriftError if there are new columns."""
    fields = list(found)
    if fields:
        listed = ", ".join(f"{f.name!r} ({type_name(f)})" for f in fields[:5])
        more = f" and {len(fields) - 5} more" if len(fields) > 5 else ""
        word = "a new column" if len(fields) == 1 else "new columns"
        raise DriftError(f"the file has {word}: {listed}{more}", fields, url=url, column=fields[0].name)


def widened_field(field: pa.Field, found: pa.Field) -> pa.Field | None:
    """Return the schema's field widened to hold a file's values; None if it already holds them.

    Neither nanoseconds nor microseconds hold all values of the other, so timestamps get the file's unit.
    """
    merged = merge_fields(field, found)
    if not is_json(merged):
        merged = merged.with_type(_with_units(merged.type, found.type))
    return None if merged.type == field.type and is_json(merged) == is_json(field) else merged


def _with_units(t: pa.DataType, found: pa.DataType) -> pa.DataType:
    """Return the type with the units of the file's timestamps, at any depth."""
    if pt.is_timestamp(t) and (pt.is_timestamp(found) or pt.is_date(found)):
        return UTC_MICROSECONDS if pt.is_date(found) else found
    if pt.is_struct(t) and pt.is_struct(found):
        own = {f.name: f.type for f in found}
        return pa.struct([f.with_type(_with_units(f.type, own.get(f.name, f.type))) for f in t])
    if pt.is_list(t) and pt.is_list(found):
        return pa.list_(_with_units(t.value_type, found.value_type))
    if pt.is_map(t) and pt.is_map(found):
        return pa.map_(t.key_type, _with_units(t.item_type, found.item_type))
    return t


def type_name(field: pa.Field) -> str:
    """Return the type of a field for messages."""
    return "json" if is_json(field) else str(field.type)


logger = logging.getLogger(__name__)


def columns_to_read(file: pa.Schema, schema: pa.Schema, options: ReadOptions, url: object) -> list[str]:
    """Return the columns of a file to read, in its order: those of the schema, and new ones to rescue.

    A column of type null is never new, as it has no values. Raises DriftError if the file has new columns or object
    members and `options.on_drift` is `raise`, and DataError if it has one of the columns twice.
    """
    new = unknown_columns([f.name for f in file if not pt.is_null(f.type)], schema, options)
    if paths_with_exclusions(options.excluded_members):
        new = [name for name in new if not pt.is_null(included_field(file.field(name), schema, options).type)]
    names = {*schema_columns(schema, options), *new}
    found = [name for name in file.names if name in names]
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise DataError("the file has it twice", url=url, column=twice, hint="Rename one of them at the source")
    known = set[str]() if options.on_drift in _NOT_READ else set(schema.names)
    grown = [f for f in file if f.name in known and has_new_members(f, schema, options)]
    if options.on_drift == "raise":
        raise_new_columns([included_field(file.field(name), schema, options) for name in new], url)
        fields = [included_field(f, schema, options) for f in grown]
        if merged := [w for f in fields if (w := widened_field(schema.field(f.name), f)) is not None]:
            first = fields[0]
            reason = f"the file has it as {type_name(first)}, the schema as {type_name(schema.field(first.name))}"
            raise DriftError(reason, merged, url=url, column=first.name)
        return found
    if new or grown:
        listed = ", ".join(repr(name) for name in [*new, *(f"{f.name} (members)" for f in grown)][:10])
        logger.warning(f"{url}: the file has what the schema lacks: {listed}; its values go to {RESCUED}")
    return found


def schema_columns(schema: pa.Schema, options: ReadOptions) -> list[str]:
    """Return the columns of a schema that come from files."""
    return [name for name in schema.names if name != RESCUED or not options.rescues]


def included_field(field: pa.Field, schema: pa.Schema, options: ReadOptions) -> pa.Field:
    """Return a field of a file with canonical types, without excluded members; of type null if nothing remains."""
    at = schema.get_field_index(field.name)
    found = canonical(pa.schema([field])).field(0)
    return without_excluded(found, schema.field(at) if at >= 0 else None, options.excluded_members)


def has_new_members(field: pa.Field, schema: pa.Schema, options: ReadOptions) -> bool:
    """Return whether a file's column has object members that the schema lacks, apart from excluded ones."""
    ours = schema.field(field.name)
    if options.known_columns is None or is_json(ours) or not (pt.is_nested(ours.type) and pt.is_nested(field.type)):
        return False
    return _has_more(included_field(field, schema, options).type, ours.type)


def rows_with_new_members(column: pa.Array, kept: pa.Field, ours: pa.Field) -> pa.Array:
    """Return true for rows with a value in a new object member; `kept` is the file's `included_field`."""
    return _new_member_rows(fit(column, kept), ours.type)


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
