"""What the SDK's stream maps and flattening do to a stream, as far as it decides how its batches are read.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_stream_maps.py`, which fails when an SDK
changes them.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import traceback
from collections.abc import Collection, Iterator

from singer_sdk.helpers._flattening import flatten_schema
from singer_sdk.mapper import NULL_STRING, CustomStreamMap, SameRecordTransform, StreamMap

from singer_arrow.errors import SchemaError

_NAMES = {"_", "record", "config", "fake", "__stream_name__", "__original_stream_name__"}
"""What expressions call other things than a property of that name."""


def is_plain(stream_map: StreamMap) -> bool:
    """Whether a stream map leaves records as they are."""
    return isinstance(stream_map, SameRecordTransform) and _is_flat(stream_map)


def keeps_values(stream_map: StreamMap, properties: Collection[str]) -> bool:
    """Whether a stream map at most chooses columns, and gives the stream another name and other keys.

    Then the columns of its `transformed_schema` are in batch files as they are to be loaded.

    Args:
        stream_map: The map.
        properties: Those of the stream's SCHEMA, which the map's `raw_schema` does not keep.
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
        definition in (None, NULL_STRING) or (name in own and name == definition and isinstance(said.value, ast.Name))
        for name, definition, said in parsed
    )


def _is_flat(stream_map: StreamMap) -> bool:
    """Whether there is nothing to be flattened."""
    if not stream_map.flattening_enabled:
        return True
    return bool(stream_map.flatten_schema(stream_map.raw_schema) == stream_map.raw_schema)


@contextlib.contextmanager
def flattening_errors(stream: str) -> Iterator[None]:
    """Raise an error that names the stream where the SDK's flattening fails at the shape of its SCHEMA.

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
