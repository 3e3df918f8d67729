"""The Avro schema of flat Arrow columns."""

from typing import Any

import pyarrow as pa


def avro_schema(schema: pa.Schema, name: str = "record") -> dict[str, Any]:
    """A record of nullable fields; times become timestamp-micros.

    Raises:
        KeyError: a column has another type than int64, float64, string, or timestamp[us].
    """
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field.name, "type": ["null", _avro_type(field.type)]} for field in schema],
    }


def _avro_type(kind: pa.DataType) -> Any:
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros"}
    return {pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}[kind]
