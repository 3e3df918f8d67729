"""Valid and unique names of tables and columns in a warehouse, and of streams in keys. Pure.

Names of ASCII letters, digits and underscores are unchanged; accents are dropped, and other characters become
underscores. If two names collide, one of them gets a hash of its text as suffix; which one it is, the table records.
`NamingRules` describes a warehouse.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

LEDGER = "_sdc_batches"
"""Name of the ledger table of loaded batches."""
REJECTED = "_sdc_rejected"
"""Name of the table of rejected rows."""
STAGING = "_sdc_staging_"
"""Prefix of staging tables."""
OUR_TABLES = re.compile(r"_sdc_", re.IGNORECASE)
_LONGEST_OWNER = 300  # characters; descriptions of columns take 1,024 in all
_OTHER = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class NamingRules:
    """Naming rules of a warehouse."""

    table_length: int  # characters
    column_length: int  # characters
    reserved_columns: re.Pattern[str]  # of beginnings of column names
    reserved_tables: re.Pattern[str] = OUR_TABLES  # of beginnings of table names
    lower: bool = False  # the warehouse folds names to lower case


def digest(text: str, length: int = 8) -> str:
    """Return the first hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def folder_name(stream: str) -> str:
    """Return the name of a stream in keys of objects: its own if it is plain, else a similar one with a hash."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", stream)[:100]
    return plain if plain == stream else f"{plain}-{digest(stream)}"


def table_name(stream: str, rules: NamingRules, *, prefix: str = "", alias: str | None = None) -> str:
    """Return the table name of a stream; `a-b` and `a.b` both become `a_b` (see `distinct_table_name`)."""
    name = prefix + stream if alias is None else alias
    return _fit(_plain(name, rules.reserved_tables, rules), rules.table_length)


def distinct_table_name(stream: str, rules: NamingRules, *, prefix: str = "", alias: str | None = None) -> str:
    """Return the table name of a stream whose `table_name` belongs to another stream."""
    name, own = (prefix + stream, prefix + stream) if alias is None else (alias, f"{alias} {stream}")
    return _suffixed(_plain(name, rules.reserved_tables, rules), own, rules.table_length)


def staging_name(table: str, *parts: str) -> str:
    """Return the name of a staging table; those of one table share a prefix."""
    return "_".join([f"{STAGING}{digest(table, 16)}", *parts])


def stream_label(stream: str) -> str:
    """Return the table label that identifies a stream: lower case, at most 63 characters."""
    readable = re.sub(r"[^a-z0-9_-]", "_", stream.lower())[:50]
    return f"{readable}_{digest(stream)}"


def column_names(
    properties: Sequence[str],
    rules: NamingRules,
    existing: Collection[str] | Mapping[str, str | None] = (),
    others: Collection[str] = (),
) -> dict[str, str]:
    """Return the column of each property of a SCHEMA or of an object in it; columns are unique ignoring case.

    An existing column stays with its owner (the `owner_key` of its property), in whatever order properties appear or
    whichever are missing. One whose owner is unknown belongs to the property with its suffix, else to the one of
    exactly its name, else to the first one that becomes its name. If two new properties collide, the one of exactly
    that name gets it, else the first one. `others` are columns that belong to no property.
    """
    length = rules.column_length
    owners: dict[str, str | None] = dict(existing if isinstance(existing, Mapping) else dict.fromkeys(existing))
    plain = {name: plain_column(name, rules) for name in properties}
    owned = {key: column for column, key in reversed(owners.items()) if key is not None}
    free = {column.lower(): column for column, key in owners.items() if key is None}
    names = {name: owned[key] for name in properties if (key := owner_key(name)) in owned}
    for name in (n for n in properties if n not in names):
        if column := free.get(_suffixed(plain[name], name, length).lower(), name if name in free.values() else None):
            names[name] = column
    taken = {c.lower() for c in (*owned.values(), *names.values(), *others)}
    for name in sorted((n for n in properties if n not in names), key=lambda n: plain[n] != n):
        column, tries = plain[name], 0
        while column.lower() in taken:
            column, tries = _suffixed(plain[name], f"{name} {tries}" if tries else name, length), tries + 1
        taken.add(column.lower())
        names[name] = free.get(column.lower(), column)
    return {name: names[name] for name in properties}


def plain_column(name: str, rules: NamingRules) -> str:
    """Return the column name of a property that collides with no other."""
    return _fit(_plain(name, rules.reserved_columns, rules), rules.column_length)


def owner_key(name: str) -> str:
    """Return the text by which the property of a column is written down: its name as JSON, or a hash if it is long."""
    text = json.dumps(name, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST_OWNER else f'"sha256 {digest(name, 32)}"'


def _plain(name: str, reserved: re.Pattern[str], rules: NamingRules) -> str:
    ascii_only = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    plain = _OTHER.sub("_", ascii_only)
    if rules.lower:
        plain = plain.lower()
    if not plain.strip("_") and plain != name:
        plain = f"_{digest(name)}"  # no letters or digits remain
    if reserved.match(plain):
        plain = f"x{plain}"
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def _fit(plain: str, length: int) -> str:
    return plain if len(plain) <= length else _suffixed(plain, plain, length)


def _suffixed(plain: str, name: str, length: int) -> str:
    return f"{plain[: length - 9]}_{digest(name)}"


def counted(count: int, one: str, several: str | None = None) -> str:
    """Return a number with its noun: `1 row`, `1,234 rows`."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def bytes_in_words(count: int) -> str:
    """Return a number of bytes with its unit: `532 bytes`, `12.3 kB`, `1.2 GB`."""
    for unit, power in (("TB", 12), ("GB", 9), ("MB", 6), ("kB", 3)):
        if count >= 10**power:
            return f"{count / 10**power:,.1f} {unit}"
    return counted(count, "byte")
