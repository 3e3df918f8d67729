"""A checksum of all rows and columns, the same whether computed by BigQuery or from the source's files.

Each row becomes a text: its columns in the table's order, null told apart from the empty text. The first 40 bits of the
texts' MD5 are added up, so that the order of the rows does not matter, while a lost, doubled or changed row does.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

_NULL, _BETWEEN = "\x01", "\x02"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SQL = {
    "STRING": "{0}",
    "FLOAT": "FORMAT('%.6f', {0})",
    "TIMESTAMP": "CAST(UNIX_MICROS({0}) AS STRING)",
}


@dataclass(frozen=True)
class Checksum:
    """Number of rows, and the sum of their hashes."""

    rows: int
    value: int


def of_table(client: Any, table: Any) -> Checksum:
    """Let BigQuery compute it, over the columns that came from the source."""
    cells = [
        f"COALESCE({_SQL.get(f.field_type, 'CAST({0} AS STRING)').format(f'`{f.name}`')}, '{_NULL}')"
        for f in _columns(table)
    ]
    row = f", '{_BETWEEN}', ".join(cells)
    digest = f"SUBSTR(TO_HEX(MD5(CONCAT({row}))), 1, 10)"
    query = f"SELECT COUNT(*), COALESCE(SUM(CAST(CONCAT('0x', {digest}) AS INT64)), 0) FROM `{table.reference}`"  # noqa: S608 - all names come from BigQuery
    rows, value = next(iter(client.query(query).result()))
    return Checksum(rows, value)


def of_source(objects: Iterable[tuple[str, bytes]], table: Any) -> Checksum:
    """Compute it from the objects (key and content), read with Python's own modules."""
    columns = [(f.name, _text_of(f.field_type)) for f in _columns(table)]
    rows = value = 0
    for key, content in objects:
        for row in _rows(key, content):
            cells = (_NULL if row.get(n) is None else text(row[n]) for n, text in columns)
            digest = hashlib.md5(_BETWEEN.join(cells).encode(), usedforsecurity=False).hexdigest()
            value += int(digest[:10], 16)
            rows += 1
    return Checksum(rows, value)


def _columns(table: Any) -> list[Any]:
    return [f for f in table.schema if not f.name.startswith("_sdc_")]


def _rows(key: str, content: bytes) -> Iterator[dict[str, Any]]:
    if key.endswith(".gz"):
        content, key = gzip.decompress(content), key.removesuffix(".gz")
    if key.endswith(".parquet"):
        import pyarrow.parquet as pq

        yield from pq.read_table(io.BytesIO(content)).to_pylist()
    elif key.endswith(".csv"):
        for row in csv.DictReader(io.StringIO(content.decode())):
            yield {k: v or None for k, v in row.items()}
    else:
        yield from map(json.loads, content.decode().splitlines())


def _text_of(kind: str) -> Callable[[Any], str]:
    """How BigQuery writes a value of the column's type, starting from what the source's file holds."""
    kinds: dict[str, Callable[[Any], str]] = {
        "INTEGER": lambda v: str(int(v)),
        "FLOAT": lambda v: f"{float(v):.6f}",
        "BOOLEAN": lambda v: str(v).lower(),
        "TIMESTAMP": lambda v: str(_micros(v)),
        "DATE": lambda v: v.isoformat() if isinstance(v, date) else v,
    }
    return kinds.get(kind, str)


def _micros(value: Any) -> int:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
