"""A checksum of all rows and columns, computed alike by a warehouse and from the source's files.

Each row becomes a text: its columns in the order of their names, where null differs from the empty text. The first 40
bits of the texts' MD5 are added up, so the order of rows does not matter, while a lost, doubled or changed row does.
Values are written in a form that Python and the warehouses' own SQL compute alike: a float is the nearest whole number
of millionths, a decimal its billionths, a time its microseconds since 1970, an object its JSON without blanks.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

NULL, BETWEEN = "\x01", "\x02"
HEX_DIGITS = 10
Kind = Literal["integer", "float", "boolean", "date", "timestamp", "text", "decimal", "nested"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, order=True)
class Column:
    """A column that came from the source, with the kind of its values."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Checksum:
    """Number of rows, and the sum of their hashes."""

    rows: int
    value: int


def of_source(objects: Iterable[tuple[str, bytes]], columns: Sequence[Column]) -> Checksum:
    """Compute the checksum of objects (key and content), read with Python's own modules."""
    texts = [(column.name, _TEXT[column.kind]) for column in sorted(columns)]
    rows = value = 0
    for key, content in objects:
        for row in _rows(key, content):
            cells = (NULL if row.get(name) is None else text(row[name]) for name, text in texts)
            digest = hashlib.md5(BETWEEN.join(cells).encode(), usedforsecurity=False).hexdigest()
            value += int(digest[:HEX_DIGITS], 16)
            rows += 1
    return Checksum(rows, value)


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


def _micros(value: Any) -> str:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    delta = moment - _EPOCH
    return str((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds)


_TEXT: dict[Kind, Callable[[Any], str]] = {
    "integer": lambda v: str(int(v)),
    "float": lambda v: str(math.floor(float(v) * 1_000_000 + 0.5)),
    "boolean": lambda v: str(v).lower(),
    "date": lambda v: v.isoformat() if isinstance(v, date) else v,
    "timestamp": _micros,
    "text": str,
    "decimal": lambda v: str(int(Decimal(str(v)).scaleb(9))),
    "nested": lambda v: json.dumps(v, ensure_ascii=False).replace(" ", ""),
}
