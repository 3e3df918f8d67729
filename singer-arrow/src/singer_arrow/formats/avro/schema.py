"""Arrow schema <-> Avro schema. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import DataError, SchemaError
from singer_arrow.schema.arrow_schema import UTC_MICROSECONDS, is_json, json_field

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_MILLISECONDS, _NANOSECONDS = pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC")
_COMPLEX = ("record", "error", "enum", "fixed", "array", "map")
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): _MILLISECONDS,
    ("long", "timestamp-micros"): UTC_MICROSECONDS,
    ("long", "timestamp-nanos"): _NANOSECONDS,
    ("long", "local-timestamp-millis"): _MILLISECONDS,
    ("long", "local-timestamp-micros"): UTC_MICROSECONDS,
    ("long", "local-timestamp-nanos"): _NANOSECONDS,
}
"""Arrow types of logical types that are stored as integers; on other types they are ignored."""


def to_avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Return the Avro schema of an Arrow schema; every column is nullable, array items are not.

    Dates, times and timestamps are logical types of microseconds, decimals logical types of bytes, and JSON text is a
    string that BigQuery loads as JSON (`sqlType`). A name or type that Avro does not allow is a SchemaError.
    """
    return _record("row", list(schema))


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    for field in fields:
        if not _NAME.fullmatch(field.name):
            msg = f"Column {field.name!r} cannot be written to Avro: its name may hold letters, digits and _ only"
            raise SchemaError(msg)
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f.name, "type": ["null", _type(f, f"{name}_{f.name}")], "default": None} for f in fields],
    }


def _type(field: pa.Field, path: str) -> Any:
    t = field.type
    if is_json(field):
        return {"type": "string", "sqlType": "JSON"}
    if pt.is_struct(t):
        return _record(path, list(t))
    if pt.is_list(t) or pt.is_large_list(t):
        return {"type": "array", "items": _type(t.value_field, f"{path}_item")}
    if pt.is_map(t):
        return {"type": "map", "values": _type(t.item_field, f"{path}_value")}
    if pt.is_uint64(t):
        return {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}
    if pt.is_decimal(t):
        return {"type": "bytes", "logicalType": "decimal", "precision": t.precision, "scale": max(0, t.scale)}
    if pt.is_integer(t):
        return "long"
    if pt.is_floating(t):
        return "double"
    if pt.is_timestamp(t):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pt.is_time(t):
        return {"type": "long", "logicalType": "time-micros"}
    if pt.is_date(t):
        return {"type": "int", "logicalType": "date"}
    if pt.is_boolean(t):
        return "boolean"
    if pt.is_binary(t) or pt.is_large_binary(t) or pt.is_fixed_size_binary(t):
        return "bytes"
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_null(t):
        return "string"
    msg = f"Column {field.name!r} is of type {t}, which Avro cannot hold"
    raise SchemaError(msg)


def from_avro_schema(schema: Any, url: object = None) -> pa.Schema:
    """Return the Arrow schema of a file; unions of several types become JSON text."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        msg = "its rows are not records"
        raise DataError(msg, url=url)
    named: dict[str, Any] = {}
    return pa.schema(list(_read_record(schema, named)))


def _read_record(schema: Mapping[str, Any], named: dict[str, Any]) -> pa.StructType:
    fields = []
    named[schema["name"]] = None  # a record within itself has no Arrow type
    for field in schema["fields"]:
        t = _read(field["type"], named)
        fields.append(json_field(field["name"]) if t is None else pa.field(field["name"], t))
    named[schema["name"]] = pa.struct(fields)
    return named[schema["name"]]


def _read(schema: Any, named: dict[str, Any]) -> pa.DataType | None:
    """Return the Arrow type; None for JSON text."""
    if isinstance(schema, list):
        branches = [b for b in schema if b != "null"]
        return _read(branches[0], named) if len(branches) == 1 else None
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else named.get(schema, named.get(schema.rpartition(".")[2]))
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema["precision"], schema.get("scale", 0)
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    if (of_integers := _LOGICAL.get((kind, logical)) if isinstance(kind, str) else None) is not None:
        return of_integers
    if kind == "record":
        return _read_record(schema, named)
    if kind == "array":
        items = _read(schema["items"], named)
        return None if items is None else pa.list_(items)
    if kind == "map":
        values = _read(schema["values"], named)
        return None if values is None else pa.map_(pa.string(), values)
    if kind in ("enum", "fixed"):
        named[schema["name"]] = pa.string() if kind == "enum" else pa.binary()
        return named[schema["name"]]
    return _read(kind, named)


def without_logical_types(schema: Any) -> Any:
    """Return the Avro schema without logical types stored as integers or text, so that decoders return stored values.

    Dates and times within unions of several types are kept, because these become JSON text. All are kept if such a
    union names a type defined elsewhere.
    """
    return _stripped(schema, temporal=not _has_named_union(schema))


def _stripped(schema: Any, *, temporal: bool) -> Any:
    if isinstance(schema, list):
        return [_stripped(b, temporal=temporal and not _is_mixed(schema)) for b in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {k: _stripped(schema[k], temporal=temporal) for k in ("items", "values") if k in schema}
    if "fields" in schema:
        inner["fields"] = [{**f, "type": _stripped(f["type"], temporal=temporal)} for f in schema["fields"]]
    if not isinstance(schema["type"], str):
        inner["type"] = _stripped(schema["type"], temporal=temporal)
    logical = schema.get("logicalType")
    dropped = logical == "uuid" or (temporal and (schema["type"], logical) in _LOGICAL if logical else False)
    return {k: v for k, v in {**schema, **inner}.items() if not (dropped and k == "logicalType")}


def _is_mixed(union: list[Any]) -> bool:
    return len([b for b in union if b != "null"]) > 1


def _has_named_union(schema: Any, *, mixed: bool = False) -> bool:
    """Return whether a union of several types names a type defined elsewhere, at any depth."""
    if isinstance(schema, list):
        return any(_has_named_union(b, mixed=mixed or _is_mixed(schema)) for b in schema)
    if isinstance(schema, Mapping):
        parts = [schema[k] for k in ("type", "items", "values") if k in schema and schema[k] not in _COMPLEX]
        return any(_has_named_union(p, mixed=mixed) for p in (*parts, *(f["type"] for f in schema.get("fields", ()))))
    return mixed and schema not in _PRIMITIVES
