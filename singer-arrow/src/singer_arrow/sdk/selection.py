"""What the selection of a catalog does to records of an Arrow schema. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.schema.arrow_schema import is_json


def drops_members(mask: Mapping[tuple[str, ...], bool], schema: pa.Schema) -> bool:
    """Whether records of the schema may hold something that is not selected.

    Args:
        mask: The selection by breadcrumb: `("properties", column, "properties", member, ...)`.
        schema: Of the records.
    """
    return any(_holds(schema, place[1::2]) for place, selected in mask.items() if place and not selected)


def is_nested(field: pa.Field) -> bool:
    """Whether the values of a column may be objects or lists of JSON."""
    return is_json(field) or bool(pt.is_nested(field.type))


def _holds(fields: Iterable[pa.Field], path: Sequence[str]) -> bool:
    field = next((f for f in fields if f.name == path[0]), None)
    if field is None:
        return False
    if len(path) == 1 or is_json(field) or pt.is_map(field.type):
        return True
    return bool(pt.is_struct(field.type)) and _holds(field.type, path[1:])
