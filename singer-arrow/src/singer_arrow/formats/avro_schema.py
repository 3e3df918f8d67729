"""Arrow schema <-> Avro schema. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import DataError, SchemaError
from singer_arrow.schema import UTC_MICROSECONDS, is_json, json_field

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
LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": UTC_MICROSECONDS,
    "timestamp-micros": UTC_MICROSECONDS,
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": UTC_MICROSECONDS,
    "local-timestamp-micros": UTC_MICROSECONDS,
    "local-timestamp-nanos": pa.timestamp("ns", "UTC"),
    "uuid": pa.string(),
}


def to_avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """The Avro schema of rows of an Arrow schema, every column nullable, items of arrays not.

    Dates, times and timestamps are logical types of microseconds, decimals logical types of bytes, JSON text is a
    string that BigQuery takes for its type JSON (`sqlType`).

    Raises:
        SchemaError: A name is none that Avro allows, or a type has no counterpart.
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
    """The Arrow schema of a file's rows. Unions of several types become JSON text.

    Raises:
        DataError: The file's rows are no records.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        msg = "its rows are no records"
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
    """The Arrow type; None for JSON text."""
    if isinstance(schema, list):
        branches = [b for b in schema if b != "null"]
        return _read(branches[0], named) if len(branches) == 1 else None
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else named.get(schema, named.get(schema.rpartition(".")[2]))
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        precision, scale = schema["precision"], schema.get("scale", 0)
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    if logical in LOGICAL:
        return LOGICAL[logical]
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
