"""Effects of the SDK's stream maps, flattening and selection on records: whether batches can be passed on unchanged.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_stream_maps.py`, which fails when an SDK
changes them.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyarrow import types as pt
from singer_sdk.helpers._flattening import flatten_schema
from singer_sdk.mapper import NULL_STRING, CustomStreamMap, SameRecordTransform, StreamMap

from singer_arrow.errors import SchemaError
from singer_arrow.schema.arrow_schema import is_json

_NAMES = {"_", "record", "config", "fake", "__stream_name__", "__original_stream_name__"}
"""Names that are not properties in expressions of stream maps."""


def is_plain(stream_map: StreamMap) -> bool:
    """Return whether a stream map leaves records as they are."""
    return isinstance(stream_map, SameRecordTransform) and _is_flat(stream_map)


def keeps_values(stream_map: StreamMap, properties: Collection[str]) -> bool:
    """Return whether a stream map only selects columns, renames the stream or sets its keys.

    Then batch files can be loaded as they are, with the columns of the map's `transformed_schema`.

    Args:
        stream_map: The map.
        properties: Properties of the stream's SCHEMA; the map's `raw_schema` may lack some.
    """
    if is_plain(stream_map):
        return True
    if type(stream_map) is not CustomStreamMap or not _is_flat(stream_map):
        return False
    if stream_map._filter_fn.__name__ != "always_true":
        return False
    parsed = inspect.getclosurevars(stream_map._transform_fn).nonlocals["stream_map_parsed"]
    own = {*properties} - _NAMES
    return all(
        definition in (None, NULL_STRING)
        or (name in own and name == definition and isinstance(expression.value, ast.Name))
        for name, definition, expression in parsed
    )


def _is_flat(stream_map: StreamMap) -> bool:
    """Return whether flattening changes nothing."""
    if not stream_map.flattening_enabled:
        return True
    return bool(stream_map.flatten_schema(stream_map.raw_schema) == stream_map.raw_schema)


@contextlib.contextmanager
def flattening_errors(stream: str) -> Iterator[None]:
    """Raise an error that names the stream if the SDK's flattening fails because of its SCHEMA.

    Raises:
        SchemaError: The SCHEMA cannot be flattened.
    """
    try:
        yield
    except (TypeError, AttributeError, LookupError) as error:
        frames = [frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__)]
        if frames[-1] != flatten_schema.__module__:
            raise
        why = f"({type(error).__name__}: {' '.join(str(error).split())})"
        msg = f"SCHEMA of stream {stream!r} cannot be flattened {why}; correct it, or turn flattening off"
        raise SchemaError(msg) from None


def drops_members(mask: Mapping[tuple[str, ...], bool], schema: pa.Schema) -> bool:
    """Return whether records of the schema may hold something that is not selected.

    Args:
        mask: The selection by breadcrumb: `("properties", column, "properties", member, ...)`.
        schema: Of the records.
    """
    return any(_holds(schema, place[1::2]) for place, selected in mask.items() if place and not selected)


def is_nested(field: pa.Field) -> bool:
    """Return whether the values of a column may be objects or lists of JSON."""
    return is_json(field) or bool(pt.is_nested(field.type))


def _holds(fields: Iterable[pa.Field], path: Sequence[str]) -> bool:
    field = next((f for f in fields if f.name == path[0]), None)
    if field is None:
        return False
    if len(path) == 1 or is_json(field) or pt.is_map(field.type):
        return True
    return bool(pt.is_struct(field.type)) and _holds(field.type, path[1:])
