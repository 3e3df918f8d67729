"""Names of tables and columns that BigQuery and Avro accept, and that never collide. Pure.

A name made of ASCII letters, digits and underscores stays as it is; accents are dropped and any other character becomes
an underscore. Where two names would become one, one of them gets a suffix made of its own text, so it is the same on
every run.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Sequence

TABLE_LENGTH = 900  # BigQuery takes 1,024 bytes; staging tables add to it
COLUMN_LENGTH = 300
LEDGER = "_sdc_batches"
STAGING = "_sdc_staging_"
_RESERVED_TABLES = re.compile(r"_sdc_", re.IGNORECASE)
_RESERVED_COLUMNS = re.compile(
    r"(_TABLE_|_FILE_|_PARTITION|_ROW_TIMESTAMP|__ROOT__|_COLIDENTIFIER|_CHANGE_SEQUENCE_NUMBER|_CHANGE_TYPE|_CHANGE_TIMESTAMP)",
    re.IGNORECASE,
)
_OTHER = re.compile(r"[^A-Za-z0-9_]")


def digest(text: str, length: int = 8) -> str:
    """Some hexadecimal digits that stand for the text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def table_name(stream: str, *, prefix: str = "") -> str:
    """The table of a stream: `a-b` and `a.b` both become `a_b`; `distinct_table_name` tells them apart."""
    return _fit(_plain(prefix + stream, _RESERVED_TABLES), TABLE_LENGTH)


def distinct_table_name(stream: str, *, prefix: str = "") -> str:
    """The table of a stream whose `table_name` belongs to another stream."""
    return _suffixed(_plain(prefix + stream, _RESERVED_TABLES), prefix + stream, TABLE_LENGTH)


def stream_label(stream: str) -> str:
    """A value for a table's label that says which stream owns it: lower case, at most 63 characters."""
    readable = re.sub(r"[^a-z0-9_-]", "_", stream.lower())[:50]
    return f"{readable}_{digest(stream)}"


def column_names(properties: Sequence[str], existing: Collection[str] = ()) -> dict[str, str]:
    """The column of each property; columns differ in more than case.

    A column that exists keeps belonging to its property: to the one of exactly its name, or to the one whose suffix it
    bears. So names never move, in whatever order properties come and go.

    Args:
        properties: Names of a SCHEMA's properties, or of those of an object in it, in order.
        existing: Columns that the table has.
    """
    names: dict[str, str] = {}
    have = {column.lower(): column for column in existing}
    for name in properties:
        suffixed = _suffixed(_plain(name, _RESERVED_COLUMNS), name, COLUMN_LENGTH)
        if name in existing:
            names[name] = name
        elif suffixed.lower() in have:
            names[name] = have[suffixed.lower()]
    taken = {column.lower() for column in names.values()}
    for name in sorted((n for n in properties if n not in names), key=_is_changed):
        plain = _plain(name, _RESERVED_COLUMNS)
        column = _fit(plain, COLUMN_LENGTH)
        if column.lower() in taken:
            column = _suffixed(plain, name, COLUMN_LENGTH)
        taken.add(column.lower())
        names[name] = have.get(column.lower(), column)
    return {name: names[name] for name in properties}


def _is_changed(name: str) -> bool:
    return _fit(_plain(name, _RESERVED_COLUMNS), COLUMN_LENGTH) != name


def _plain(name: str, reserved: re.Pattern[str]) -> str:
    ascii_only = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    plain = _OTHER.sub("_", ascii_only)
    if not plain.strip("_") and plain != name:
        plain = f"_{digest(name)}"  # nothing readable is left of it
    if reserved.match(plain):
        plain = f"x{plain}"
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def _fit(plain: str, length: int) -> str:
    return plain if len(plain) <= length else _suffixed(plain, plain, length)


def _suffixed(plain: str, name: str, length: int) -> str:
    return f"{plain[: length - 9]}_{digest(name)}"
