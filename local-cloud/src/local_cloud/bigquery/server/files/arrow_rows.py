"""Arrow rows of the Storage Write API, by the types that BigQuery documents."""

from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.types as pt

from local_cloud.bigquery.server.write_faults import Refusal

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
# Arrow types that each BigQuery type accepts. TIME is not supported.
# https://cloud.google.com/bigquery/docs/supported-data-types#supported_apache_arrow_data_types
_TAKEN = {
    "BOOLEAN": pt.is_boolean,
    "BYTES": pt.is_binary,
    "DATE": lambda t: pt.is_date32(t) or pt.is_string(t) or pt.is_int32(t),
    "DATETIME": lambda t: t == pa.timestamp("us"),
    "FLOAT": lambda t: pt.is_float32(t) or pt.is_float64(t),
    "GEOGRAPHY": pt.is_string,
    "INTEGER": pt.is_integer,
    "JSON": pt.is_string,
    "NUMERIC": pt.is_decimal128,
    "BIGNUMERIC": pt.is_decimal256,
    "STRING": pt.is_string,
    "TIMESTAMP": lambda t: pt.is_timestamp(t) and t.unit == "us" and t.tz in ("UTC", "+00:00"),
}


def read_schema(serialized: bytes, columns: Sequence[Any]) -> pa.Schema:
    """Return the schema of a connection. Each field needs a column of its type, each required column a field."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    except pa.ArrowException as error:
        raise Refusal(_INVALID, f"The Arrow schema cannot be read: {error}") from None
    extra = list(_check(schema, columns, ""))
    if extra:
        message = f"Input schema has more fields than BigQuery schema, extra fields: '{','.join(extra)}'"
        raise Refusal(_INVALID, message, "SCHEMA_MISMATCH_EXTRA_FIELDS")
    given = {name.casefold() for name in schema.names}
    for column in columns:
        if column.mode == "REQUIRED" and column.name.casefold() not in given:
            raise Refusal(_INVALID, f"The required field {column.name} is missing")
    return schema


def read(serialized: bytes, schema: pa.Schema, columns: Sequence[Any]) -> pa.RecordBatch:
    """Return the rows of a request."""
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(serialized), schema)
        batch.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise Refusal(_INVALID, f"The Arrow record batch cannot be read: {error}") from None
    required = {column.name.casefold() for column in columns if column.mode == "REQUIRED"}
    for field, array in zip(batch.schema, batch.columns, strict=True):
        if field.name.casefold() in required and array.null_count:
            raise Refusal(_INVALID, f"Field {field.name} is required and is null in a row")
        _check_lists(array, field.name)
    return batch


def kept(rows: pa.Table) -> pa.Table:
    """Return the rows with decimals rounded to the digits that this server keeps."""
    return rows.cast(pa.schema([field.with_type(_kept(field.type)) for field in rows.schema]))


def _kept(t: pa.DataType) -> pa.DataType:
    if pt.is_decimal256(t):
        return pa.decimal128(38, min(t.scale, 18))
    if pt.is_struct(t):
        return pa.struct([f.with_type(_kept(f.type)) for f in t])
    return pa.list_(t.value_field.with_type(_kept(t.value_type))) if pt.is_list(t) else t


def _check(fields: Any, columns: Sequence[Any], path: str) -> Iterator[str]:
    """Refuse types that do not match the columns, and yield the fields that have no column."""
    by_name = {column.name.casefold(): column for column in columns}
    for field in fields:
        column = by_name.get(field.name.casefold())
        if column is None:
            yield f"{path}{field.name}"
            continue
        t = field.type
        is_list = column.mode == "REPEATED"
        if is_list and pt.is_list(t):
            t, is_list = t.value_type, False
        if not is_list and column.type == "RECORD" and pt.is_struct(t):
            yield from _check(t, column.fields or [], f"{path}{field.name}.")
        elif is_list or not _TAKEN.get(column.type, lambda _: False)(t):
            raise Refusal(
                _INVALID,
                f"The Arrow field mismatched with BigQuery field at {path}{field.name}, the Arrow field type "
                f"{field.type}, BigQuery field type {column.type}{' REPEATED' if column.mode == 'REPEATED' else ''}",
            )


def _check_lists(array: pa.Array, path: str) -> None:
    if pt.is_list(array.type):
        if array.null_count or array.flatten().null_count:
            raise Refusal(_INVALID, f"The repeated field {path} is null, or holds a null; an empty list is none")
        _check_lists(array.flatten(), path)
    elif pt.is_struct(array.type):
        for number, field in enumerate(array.type):
            _check_lists(array.filter(array.is_valid()).field(number), f"{path}.{field.name}")
