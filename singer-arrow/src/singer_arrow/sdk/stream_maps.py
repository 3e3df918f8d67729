"""Effects of the SDK's stream maps, flattening and selection, and records of batches for them."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as pt
from singer_sdk.helpers._flattening import flatten_schema
from singer_sdk.mapper import (
    NULL_STRING,
    CustomStreamMap,
    PluginMapper,
    SameRecordTransform,
    StreamMap,
)
from singer_sdk.singerlib.json import deserialize_json
from singer_sdk.typing import CustomType, Property

from singer_arrow.casting.from_text import shorten
from singer_arrow.errors import DataError, SchemaError
from singer_arrow.schema.arrow_schema import is_json

if TYPE_CHECKING:
    from singer_arrow.batch.files import FileProperties
    from singer_arrow.batch.message import Batch
    from singer_arrow.load.dead_letters import Rejected
    from singer_arrow.read_options import Skipped
    from singer_arrow.storage.store import Storage


# Effects of the SDK's stream maps, flattening and selection on records: whether batches can be passed on unchanged.
#
# The privates used here are listed in `tests/unit/singer_arrow/sdk/test_stream_maps.py`, which fails when an SDK
# changes them.

_NAMES = {"_", "record", "config", "fake", "__stream_name__", "__original_stream_name__"}
"""Names that are not properties in expressions of stream maps."""
_HASHES = ("md5", "sha256")
_DUPLICATE = "Duplicate column name produced in schema: "
"""How the text of the SDK's error begins where flattening makes two columns of one name."""


class _OwnSchema(dict[str, Any]):
    """A schema of which each map of a stream gets a copy of its own; the SDK's is shallow, and loses properties."""

    def __copy__(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self))


class ExactMapper(PluginMapper):
    """The SDK's mapper, whose maps change no schema but their own, in taps and in targets alike.

    `md5` and `sha256` of null are null. An expression that fails for a record ends the run in one line.
    """

    def register_raw_stream_schema(
        self, stream_name: str, schema: dict[str, Any], key_properties: Sequence[str] | None
    ) -> None:
        """Make the maps of a stream; SchemaError: its schema cannot be flattened."""
        if self.flattening_options is not None and "properties" in schema:
            schema = _with_types(schema)
        with _flattening_errors(stream_name):
            super().register_raw_stream_schema(stream_name, _OwnSchema(schema), key_properties)
        for stream_map in self.stream_maps[stream_name]:
            if isinstance(stream_map, CustomStreamMap):
                functions = stream_map.expr_evaluator.functions
                functions |= {name: _of_text(functions[name]) for name in _HASHES}
                _set_known_types(stream_map)
                stream_map._eval = _one_line_errors(stream_name, stream_map)  # type: ignore[method-assign]


def _of_text(function: Callable[[str], str]) -> Callable[[Any], str | None]:
    return lambda value: None if value is None else function(value if isinstance(value, str) else str(value))


_SCALARS = ["string", "number", "integer", "boolean", "null"]
_KEPT_BY_SDK = ("string", "array", "object")


def _with_types(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose properties have a type at every depth, as the SDK's flattening needs it.

    It takes the first branch of `anyOf` for all, leaves properties out whose first branch is a number, and makes text
    of those without a type. One that may be of several types is of all of them here, so that no value is refused.
    """
    return {**schema, "properties": {name: _with_type(prop) for name, prop in schema["properties"].items()}}


def _with_type(prop: Any) -> Any:
    if not isinstance(prop, Mapping):
        return prop
    if "type" in prop:
        return _with_types(prop) if isinstance(prop.get("properties"), Mapping) else prop
    branches = prop.get("anyOf") or prop.get("oneOf") or []
    if not all(isinstance(branch, Mapping) for branch in branches):
        return prop
    others = [branch for branch in branches if set(_names_of(branch)) != {"null"}]
    if len(others) == 1 and _names_of(others[0]):
        first = branches[0]
        is_kept = first is others[0] and first["type"] in _KEPT_BY_SDK
        return prop if is_kept else {**others[0], "type": [*_names_of(others[0]), "null"]}
    names = [name for branch in others for name in _names_of(branch)]
    is_known = branches and all(map(_names_of, others)) and set(names) <= set(_SCALARS)
    return {"type": list(dict.fromkeys([*names, "null"])) if is_known else _SCALARS}


_NULL: Mapping[str, Any] = {}
"""The type of an expression that is null alone."""


def _set_known_types(stream_map: CustomStreamMap) -> None:
    """Give the properties that a stream map makes the types of their expressions, where these are known.

    The SDK looks at how an expression begins, and else takes the type that the property had before.
    """
    for name, definition, expression in inspect.getclosurevars(stream_map._transform_fn).nonlocals["stream_map_parsed"]:
        if definition in (None, NULL_STRING) or name not in stream_map.transformed_schema["properties"]:
            continue
        if known := _type_of(expression.value, name, stream_map):
            stream_map.transformed_schema["properties"] |= Property(name, CustomType(dict(known))).to_dict()


def _type_of(node: ast.expr, name: str, stream_map: CustomStreamMap) -> Mapping[str, Any] | None:
    """Return the JSON Schema of an expression's value; `_NULL` for null, None if it is not known."""
    match node:
        case ast.Constant(value=None):
            return _NULL
        case ast.Constant(value=value) if type(value) in _OF_CONSTANTS:
            return {"type": [_OF_CONSTANTS[type(value)]]}
        case ast.JoinedStr() | ast.Call(func=ast.Name(id="md5" | "sha256")):
            return {"type": ["string"]}
        case ast.IfExp(body=first, orelse=second):
            return _same_type([_type_of(part, name, stream_map) for part in (first, second)])
        case ast.BoolOp(values=parts):
            return _same_type([_type_of(part, name, stream_map) for part in parts])
        case ast.BinOp(left=first, op=operator, right=second):
            return _of_arithmetic(operator, [_type_of(part, name, stream_map) for part in (first, second)])
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=value):
            return _of_arithmetic(ast.Add(), [_type_of(value, name, stream_map)])
        case ast.Name(id=used) if used not in _NAMES:
            found: Mapping[str, Any] | None = stream_map.raw_schema["properties"].get(name if used == "self" else used)
            return found
        case ast.Call():
            unknown = CustomType({})
            found_type = stream_map._eval_type(ast.unparse(node), default=unknown)
            return None if found_type is unknown else found_type.to_dict()
    return None


_OF_CONSTANTS = {bool: "boolean", int: "integer", float: "number", str: "string"}


def _of_arithmetic(operator: ast.operator, found: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """Return the type of what numbers give by an operator; None if one of them is not known to be a number."""
    names = {name for t in found for name in (_names_of(t) if t else ["unknown"])} - {"null"}
    if not names or not names <= {"integer", "number"}:
        return None
    is_whole = names == {"integer"} and isinstance(operator, ast.Add | ast.Sub | ast.Mult | ast.Mod | ast.FloorDiv)
    return {"type": ["integer" if is_whole else "number"]}


def _same_type(found: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """Return the type of values that are of one of some types, if it is the same; null may be among them."""
    types = [t for t in found if t is None or t]
    without_null = [None if t is None else {**t, "type": sorted({*_names_of(t)} - {"null"})} for t in types]
    return _NULL if not types else types[0] if all(t == without_null[0] for t in without_null) else None


def _names_of(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("type", [])
    return [given] if isinstance(given, str) else list(given)


_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float, Decimal),
    "object": (dict,),
    "array": (list, tuple),
}


def _misfit(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value of an expression is surely not of the type of its property."""
    names = _names_of(schema)
    if not names or not isinstance(value, str | bool | int | float | Decimal | dict | list | None):
        return False
    is_text = isinstance(value, str) and "string" in names
    fitting = (name for name in names if name in _PYTHON_TYPES and (name == "boolean") == isinstance(value, bool))
    return not is_text and not any(isinstance(value, _PYTHON_TYPES[name]) for name in fitting)


def _one_line_errors(stream: str, stream_map: CustomStreamMap) -> Callable[..., Any]:
    evaluate, properties = stream_map._eval, stream_map.transformed_schema["properties"]

    def evaluated(**given: Any) -> Any:
        name = given["property_name"]
        try:
            value = evaluate(**given)
            schema = properties.get(name)
            if not isinstance(schema, Mapping) or not _misfit(value, schema):
                return value
        except Exception as error:  # noqa: BLE001 - of an expression that the user wrote, with any value in it
            cause = error.__cause__ or error
            why = f"{type(cause).__name__}: {' '.join(str(getattr(cause, 'message', cause)).split())}"
            reason = f"Stream {stream!r}: the expression {given['expr']!r} of stream_maps fails: {why}"
            hint = "Correct it; values may be null, as in `md5(x) if x else None`"
            raise DataError(reason, hint=hint) from None
        kinds = " or ".join(kind for kind in _names_of(schema) if kind != "null")
        reason = (
            f"Stream {stream!r}: the expression {given['expr']!r} of stream_maps gives {shorten(value)} for {name!r}"
        )
        hint = "Wrap it in str(...), int(...) or float(...), which say its type, or correct the expression"
        raise DataError(f"{reason}, which is of type {kinds}", hint=hint)

    return evaluated


def is_plain(stream_map: StreamMap) -> bool:
    """Return whether a stream map leaves records as they are."""
    return isinstance(stream_map, SameRecordTransform) and _is_flat(stream_map)


def keeps_values(stream_map: StreamMap, properties: Collection[str]) -> bool:
    """Return whether a stream map only selects columns, renames the stream or sets its keys.

    Then batch files can be loaded as they are, with the columns of the map's `transformed_schema`. `properties` are
    those of the stream's SCHEMA; the map's `raw_schema` may lack some.
    """
    made = columns_made(stream_map, properties)
    return made is not None and all(name == source for name, source in made.items())


def columns_made(stream_map: StreamMap, properties: Collection[str]) -> dict[str, str | pa.StringScalar] | None:
    """Return the columns that a stream map makes of properties: each is one of those, or a text; None: it does more."""
    if is_plain(stream_map):
        return {name: name for name in properties}
    if type(stream_map) is not CustomStreamMap or not _is_flat(stream_map):
        return None
    if stream_map._filter_fn.__name__ != "always_true":
        return None
    found = inspect.getclosurevars(stream_map._transform_fn).nonlocals
    kept = properties if found["include_by_default"] else stream_map.transformed_key_properties or ()
    made: dict[str, str | pa.StringScalar] = {name: name for name in kept}
    for name, definition, expression in found["stream_map_parsed"]:
        value = expression and expression.value
        if definition in (None, NULL_STRING):
            made.pop(name, None)
        elif name != definition and name in properties:  # in the type that this property has, or as a text
            return None
        elif isinstance(value, ast.Name) and value.id == definition and definition in {*properties} - _NAMES:
            made[name] = definition
        elif isinstance(value, ast.Constant) and isinstance(value.value, str):
            made[name] = pa.scalar(value.value, pa.string())
        else:
            return None
    return made


def _is_flat(stream_map: StreamMap) -> bool:
    """Return whether flattening changes nothing."""
    if not stream_map.flattening_enabled:
        return True
    return bool(stream_map.flatten_schema(stream_map.raw_schema) == stream_map.raw_schema)


@contextlib.contextmanager
def _flattening_errors(stream: str) -> Iterator[None]:
    """Raise a SchemaError that names the stream if the SDK's flattening fails because of its SCHEMA."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        frames = [frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__)]
        if frames[-1] != flatten_schema.__module__:
            raise
        text = " ".join(str(error).split())
        if (column := text.removeprefix(_DUPLICATE)) != text:
            why, cure = (
                f": it has a property {column!r}, and members that become one of this name",
                "rename one of them",
            )
        else:
            why, cure = f" ({type(error).__name__}: {text})", "correct it"
        raise SchemaError(
            f"SCHEMA of stream {stream!r} cannot be flattened{why}; {cure}, or turn flattening off"
        ) from None


def drops_members(mask: Mapping[tuple[str, ...], bool], schema: pa.Schema) -> bool:
    """Return whether records of the schema may hold something that is not selected.

    The mask is the selection by breadcrumb: `("properties", column, "properties", member, ...)`.
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


# Read the rows of BATCH messages as single records, for stream maps and flattening of the SDK.


def records_of(
    batch: Batch,
    schema: Mapping[str, Any],
    storage: Storage,
    temporary: Callable[[str], Path],
    *,
    on_skip: Collection[Callable[[Rejected], None]],
    properties: FileProperties,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as the records that RECORD messages would hold.

    `temporary` returns a name for a new file, by its suffix. `on_skip` are called with each row that cannot be read;
    without any, the first one is an error.
    """
    from singer_arrow.batch.files import read_file
    from singer_arrow.formats import WRITABLE, WriteOptions
    from singer_arrow.load.dead_letters import Rejected
    from singer_arrow.schema.json_schema import from_json_schema

    arrow = from_json_schema(schema)
    never_null = {
        k for k, p in schema["properties"].items() if isinstance(p, Mapping) and "null" not in p.get("type", "null")
    }
    for url in batch.manifest:
        path = temporary(".jsonl")

        def skip(skipped: Skipped, url: str = url) -> None:
            for call in on_skip:
                call(Rejected(url, skipped.position, skipped.column, skipped.reason, skipped.record))

        on_skip_of_file = skip if on_skip else None
        read = read_file(
            storage, url, format=batch.format, schema=arrow, on_skip=on_skip_of_file, properties=properties
        )
        WRITABLE["jsonl"].write(read, arrow, path, WriteOptions("none"))
        with path.open("rb") as lines:
            for row in map(deserialize_json, lines):  # in a file, what a row lacks is null
                yield {k: v for k, v in row.items() if v is not None or k not in never_null}
        path.unlink()
