"""Checks of the keys in JSON Lines, at every depth: keys without a field are refused, as in BigQuery."""

from collections.abc import Sequence
from typing import Any

from local_bigquery.jobs.storage import literal

from local_cloud.bigquery.server.files import files


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
            raise files.unsupported(f"the key {shown}{key} is spelled otherwise than the field {shown}{spelled}")
        if key not in known and not ignore_unknown:
            raise files.refuse(
                f"Error while reading data, error message: JSON parsing error: No such field: {shown}{key}."
            )
    present = {key for (key,) in found}
    for field in fields:
        if field.fields and field.name in present:
            path = '$."' + field.name.replace('"', '\\"') + '"'
            element = f"unnest(json_extract(j, {literal(path + '[*]')}))"
            value = element if field.mode == "REPEATED" else f"json_extract(j, {literal(path)})"
            inside = f"SELECT {value} AS j FROM ({rows}) WHERE json_type(j) = 'OBJECT'"  # noqa: S608 - made here
            _check(cursor, inside, field.fields, f"{shown}{field.name}.", ignore_unknown)
