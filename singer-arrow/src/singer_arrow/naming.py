"""Names of tables and columns that a warehouse accepts, and that never collide. Pure.

A name made of ASCII letters, digits and underscores stays as it is; accents are dropped and any other character becomes
an underscore. Where two names would become one, one of them gets a suffix made of its own text, so it is the same on
every run. What differs from warehouse to warehouse is its `Rules`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

LEDGER = "_sdc_batches"
"""The table that says which batches were loaded."""
REJECTED = "_sdc_rejected"
"""The table of rows that were not loaded."""
STAGING = "_sdc_staging_"
"""How the names of staging tables begin."""
OUR_TABLES = re.compile(r"_sdc_", re.IGNORECASE)
_OTHER = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Rules:
    """What a warehouse says of names.

    Args:
        table_length: The longest name of a stream's table.
        column_length: The longest name of a column.
        reserved_columns: Columns cannot be named so; matched at the name's beginning.
        reserved_tables: The same for the tables of streams.
        lower: The warehouse folds names to lower case.
    """

    table_length: int
    column_length: int
    reserved_columns: re.Pattern[str]
    reserved_tables: re.Pattern[str] = OUR_TABLES
    lower: bool = False


def digest(text: str, length: int = 8) -> str:
    """Some hexadecimal digits that stand for the text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def table_name(stream: str, rules: Rules, *, prefix: str = "", alias: str | None = None) -> str:
    """The table of a stream: `a-b` and `a.b` both become `a_b`; `distinct_table_name` tells them apart.

    Args:
        stream: Name of the stream.
        rules: The warehouse's.
        prefix: Comes before it.
        alias: What the table is called instead.
    """
    name = prefix + stream if alias is None else alias
    return _fit(_plain(name, rules.reserved_tables, rules), rules.table_length)


def distinct_table_name(stream: str, rules: Rules, *, prefix: str = "", alias: str | None = None) -> str:
    """The table of a stream whose `table_name` belongs to another stream."""
    name, own = (prefix + stream, prefix + stream) if alias is None else (alias, f"{alias} {stream}")
    return _suffixed(_plain(name, rules.reserved_tables, rules), own, rules.table_length)


def staging_name(table: str, *parts: str) -> str:
    """A name for a staging table of a table; those of one table begin alike."""
    return "_".join([f"{STAGING}{digest(table, 16)}", *parts])


def stream_label(stream: str) -> str:
    """A label of a table that says which stream owns it: lower case, at most 63 characters."""
    readable = re.sub(r"[^a-z0-9_-]", "_", stream.lower())[:50]
    return f"{readable}_{digest(stream)}"


def column_names(
    properties: Sequence[str], rules: Rules, existing: Collection[str] = (), others: Collection[str] = ()
) -> dict[str, str]:
    """The column of each property; columns differ in more than case.

    A column that exists keeps belonging to its property: to the one of exactly its name, or to the one whose suffix it
    bears. So names stay where they are, in whatever order properties come and go; only where two properties without a
    column of their own become one name, the one that comes first has it.

    Args:
        properties: Names of a SCHEMA's properties, or of those of an object in it, in order.
        rules: The warehouse's.
        existing: Columns that the table has.
        others: Further ones, which are no property's own.
    """
    length = rules.column_length
    plain = {name: _plain(name, rules.reserved_columns, rules) for name in properties}
    names: dict[str, str] = {}
    exact, have = frozenset(existing), {column.lower(): column for column in existing}
    for name in properties:
        suffixed = _suffixed(plain[name], name, length)
        if name in exact:
            names[name] = name
        elif suffixed.lower() in have:
            names[name] = have[suffixed.lower()]
    taken = {column.lower() for column in (*names.values(), *others)}
    for name in sorted((n for n in properties if n not in names), key=lambda n: _fit(plain[n], length) != n):
        column = _fit(plain[name], length)
        if column.lower() in taken:
            column = _suffixed(plain[name], name, length)
        taken.add(column.lower())
        names[name] = have.get(column.lower(), column)
    return {name: names[name] for name in properties}


def _plain(name: str, reserved: re.Pattern[str], rules: Rules) -> str:
    ascii_only = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    plain = _OTHER.sub("_", ascii_only)
    if rules.lower:
        plain = plain.lower()
    if not plain.strip("_") and plain != name:
        plain = f"_{digest(name)}"  # nothing readable is left of it
    if reserved.match(plain):
        plain = f"x{plain}"
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def _fit(plain: str, length: int) -> str:
    return plain if len(plain) <= length else _suffixed(plain, plain, length)


def _suffixed(plain: str, name: str, length: int) -> str:
    return f"{plain[: length - 9]}_{digest(name)}"
