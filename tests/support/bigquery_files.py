"""Files for BigQuery load jobs, and the tables they produce as the client returns them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

Load = Callable[..., Any]


def avro(rows: list[dict[str, Any]], *fields: tuple[str, Any], codec: str = "deflate") -> bytes:
    schema = {"type": "record", "name": "r", "fields": [{"name": n, "type": ["null", t]} for n, t in fields]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, rows, codec=codec)
    return sink.getvalue()


def ndjson(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def rows(bq: Any, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in bq.query_and_wait(f"SELECT * FROM {table} ORDER BY 1")]


def types(bq: Any, table: str) -> dict[str, str]:
    return {field.name: field.field_type for field in bq.get_table(table).schema}
