"""A checksum of all rows and columns, computed alike by a warehouse and from the source's files.

Each row becomes a text: its columns in the order of their names, where null differs from the empty text. The first 40
bits of the texts' MD5 are added up, so the order of rows does not matter, while a lost, doubled or changed row does.
Values are written in a form that all three SQL dialects compute alike: a float is the nearest whole number of
millionths, a decimal its billionths, a time its microseconds since 1970, an object its JSON without blanks.

The source's files are read by DuckDB, which the connectors do not use.
"""

from __future__ import annotations

import csv
import gzip
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

NULL, BETWEEN = "\x01", "\x02"
HEX_DIGITS = 10
Kind = Literal["integer", "float", "boolean", "date", "timestamp", "text", "decimal", "nested"]


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


_NULL = f"CHR({ord(NULL)})"
# The text of a value that is read as text, from CSV and JSON, or with its type, from Parquet.
_TEXT: dict[Kind, str] = {
    "integer": "CAST(CAST({0} AS BIGINT) AS VARCHAR)",
    "float": "CAST(CAST(FLOOR(CAST({0} AS DOUBLE) * 1000000 + 0.5) AS BIGINT) AS VARCHAR)",
    "boolean": "CAST(CAST({0} AS BOOLEAN) AS VARCHAR)",
    "date": "CAST(CAST({0} AS DATE) AS VARCHAR)",
    "timestamp": "CAST(EPOCH_US(CAST({0} AS TIMESTAMP)) AS VARCHAR)",
    "text": "{0}",
    "decimal": "CAST(CAST(CAST({0} AS DECIMAL(28, 9)) * 1000000000 AS HUGEINT) AS VARCHAR)",
    "nested": "REPLACE({0}, ' ', '')",
}
_TYPED_TEXT = _TEXT | {
    "timestamp": "CAST(EPOCH_US({0}) AS VARCHAR)",
    "nested": "REPLACE(CAST(TO_JSON({0}) AS VARCHAR), ' ', '')",
}


def of_source(objects: Iterable[tuple[str, bytes]], columns: Sequence[Column]) -> Checksum:
    """Compute the checksum of a stream's objects (key and content), which are all of one format."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="demo-") as folder, duckdb.connect() as connection:
        files = [_write(Path(folder, str(number)), *found) for number, found in enumerate(objects)]
        source = _source(files, columns)
        is_typed = files[0].suffix == ".parquet"
        names = {name for name, *_ in connection.execute(f"DESCRIBE FROM {source}").fetchall()}
        cells = ", ".join(_cell(c, is_typed=is_typed) if c.name in names else _NULL for c in sorted(columns))
        digits = f"SUBSTR(MD5(CONCAT_WS(CHR({ord(BETWEEN)}), {cells})), 1, {HEX_DIGITS})"
        numbers = f"SUM(CAST('0x' || {digits} AS BIGINT))"
        found = connection.execute(f"SELECT COUNT(*), COALESCE({numbers}, 0) FROM {source}").fetchall()  # noqa: S608 - our own names
    ((rows, value),) = found
    return Checksum(int(rows), int(value))


def _cell(column: Column, *, is_typed: bool) -> str:
    text = (_TYPED_TEXT if is_typed else _TEXT)[column.kind].format('"' + column.name.replace('"', '""') + '"')
    return f"COALESCE({text}, {_NULL})"


def _write(path: Path, key: str, content: bytes) -> Path:
    """Write an object to a file, without its compression, and return the file's path."""
    if key.endswith(".gz"):
        content, key = gzip.decompress(content), key.removesuffix(".gz")
    path = path.with_suffix(Path(key).suffix)
    path.write_bytes(content)
    return path


def _source(files: Sequence[Path], columns: Sequence[Column]) -> str:
    """Return the function that reads files: of CSV or JSON all values as text, where an empty cell of CSV is null."""
    names = [str(file) for file in files]
    if files[0].suffix == ".parquet":
        return f"read_parquet({names})"
    if files[0].suffix == ".csv":
        with files[0].open(newline="", encoding="utf-8") as file:
            header = next(csv.reader(file))
        options = "delim = ',', quote = '\"', escape = '\"', header = true, auto_detect = false"
        return f"read_csv({names}, columns = {dict.fromkeys(header, 'VARCHAR')}, {options})"
    types = {column.name: "VARCHAR" for column in columns}
    return f"read_json({names}, columns = {types}, format = 'newline_delimited')"
