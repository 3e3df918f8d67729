"""Checks of the files of a load job: what BigQuery refuses or reads differently."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
from local_bigquery.errors import BigQueryError
from local_bigquery.jobs.storage import literal

NUMERIC_SCALE, NUMERIC_INTEGER_DIGITS = 9, 29
LARGEST_PRECISION = 38
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_897  # of the year 1 and of the year 10000, in days since 1970
_UNITS = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


def refuse(message: str) -> BigQueryError:
    """Return BigQuery's error for a file that it cannot load."""
    return BigQueryError("invalid", message)


def unsupported(what: str) -> BigQueryError:
    """Return the error for what BigQuery supports and this server would silently do differently."""
    return BigQueryError("notImplemented", f"the local BigQuery cannot do this as BigQuery does: {what}")


def check_names(names: Collection[str]) -> None:
    """Refuse column names that differ in case only, because column names are case-insensitive."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other is not name:
            raise refuse(f"Duplicate field names in schema: {other} and {name}")


def check_parquet(schema: pa.Schema, *, list_inference: bool, decimal_targets: Collection[str]) -> None:
    """Refuse Parquet columns that BigQuery would load as other types than this server."""
    for path, kind in _walk(schema):
        if pa.types.is_map(kind):
            raise unsupported(f"column {path} is a map, which BigQuery loads as a repeated record key_value")
        if _is_list(kind):
            if not list_inference:
                raise unsupported(f"column {path} is a list, and enableListInference is not set")
            if _is_list(kind.value_type):
                raise refuse(f"Error while reading data: column {path} is an array of arrays, which is not supported")
        if pa.types.is_decimal(kind):
            _check_decimal(path, kind, decimal_targets)


def check_years(metadata: Any) -> None:
    """Refuse dates and timestamps outside the years 1 to 9999, by the statistics of a Parquet file."""
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            kind, found = column.statistics and column.statistics.logical_type.type, column.statistics
            if kind not in ("DATE", "TIMESTAMP") or not found.has_min_max:
                continue
            unit = 1
            if kind == "TIMESTAMP":
                unit = _UNITS[json.loads(found.logical_type.to_json())["timeUnit"]] * 86_400
            if found.min_raw < _FIRST_DAY * unit or found.max_raw >= _LAST_DAY * unit:
                where = f"{kind} value of column {column.path_in_schema}"
                raise refuse(f"Error while reading data, error message: {where} is out of the years 1 to 9999")


def _check_decimal(path: str, kind: pa.DataType, targets: Collection[str]) -> None:
    if kind.precision > LARGEST_PRECISION:
        raise unsupported(f"column {path} has {kind.precision} digits, and this server keeps {LARGEST_PRECISION}")
    fits = kind.scale <= NUMERIC_SCALE and kind.precision - kind.scale <= NUMERIC_INTEGER_DIGITS
    if not fits and "BIGNUMERIC" not in targets:
        raise refuse(
            f"Error while reading data: column {path} is decimal({kind.precision}, {kind.scale}), which NUMERIC cannot "
            f"hold, and decimalTargetTypes does not name BIGNUMERIC"
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _walk(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """Yield all columns, nested ones included, as (path, type)."""
    waiting: list[tuple[str, Any]] = [(field.name, field.type) for field in schema]
    while waiting:
        path, kind = waiting.pop()
        yield path, kind
        if pa.types.is_struct(kind):
            waiting += [(f"{path}.{kind.field(i).name}", kind.field(i).type) for i in range(kind.num_fields)]
        elif _is_list(kind):
            waiting.append((f"{path}[]", kind.value_type))


# Checks of the keys in JSON Lines, at every depth: keys without a field are refused, as in BigQuery.


def check_keys(cursor: Any, upload: str, fields: Sequence[Any], *, ignore_unknown: bool) -> None:
    """Refuse unknown keys, unless they are ignored, and keys that match a field in another case only."""
    _check(cursor, f"SELECT json AS j FROM read_ndjson_objects({literal(upload)})", fields, "", ignore_unknown)  # noqa: S608 - a path of ours


def _check(cursor: Any, rows: str, fields: Sequence[Any], shown: str, ignore_unknown: bool) -> None:
    known = {field.name for field in fields}
    folded = {name.casefold(): name for name in known}
    found = cursor.execute(
        f"SELECT DISTINCT unnest(json_keys(j)) FROM ({rows}) WHERE j IS NOT NULL AND json_type(j) = 'OBJECT'"  # noqa: S608 - made here
    ).fetchall()
    for (key,) in found:
        if key not in known and key.casefold() in folded:
            spelled = folded[key.casefold()]
            raise unsupported(f"the key {shown}{key} is spelled otherwise than the field {shown}{spelled}")
        if key not in known and not ignore_unknown:
            raise refuse(f"Error while reading data, error message: JSON parsing error: No such field: {shown}{key}.")
    present = {key for (key,) in found}
    for field in fields:
        if field.fields and field.name in present:
            path = '$."' + field.name.replace('"', '\\"') + '"'
            element = f"unnest(json_extract(j, {literal(path + '[*]')}))"
            value = element if field.mode == "REPEATED" else f"json_extract(j, {literal(path)})"
            inside = f"SELECT {value} AS j FROM ({rows}) WHERE json_type(j) = 'OBJECT'"  # noqa: S608 - made here
            _check(cursor, inside, field.fields, f"{shown}{field.name}.", ignore_unknown)
