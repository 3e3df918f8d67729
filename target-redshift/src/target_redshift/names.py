"""What Redshift says of names: at most 127 bytes, in lower case however they are quoted. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from singer_arrow.singer import names

LENGTH = 127
"""Bytes of a name; Redshift cuts what is longer, so that two of them might become one."""
RULES = names.Rules(
    table_length=LENGTH,
    column_length=LENGTH,
    reserved_columns=re.compile(
        r"(?:(?:oid|tableoid|xmin|xmax|cmin|cmax|ctid|deletexid|insertxid)$|_sdc_(?:order|row|unused|staged)(?:_|$)|padb_internal_)",
        re.IGNORECASE,
    ),
    lower=True,
)


def table_name(stream: str, *, prefix: str = "", alias: str | None = None) -> str:
    """The table of a stream: `a-b` and `a.b` both become `a_b`; `distinct_table_name` tells them apart."""
    return names.table_name(stream, RULES, prefix=prefix, alias=alias)


def distinct_table_name(stream: str, *, prefix: str = "", alias: str | None = None) -> str:
    """The table of a stream whose `table_name` belongs to another stream."""
    return names.distinct_table_name(stream, RULES, prefix=prefix, alias=alias)


def column_names(
    properties: Sequence[str], existing: Collection[str] = (), others: Collection[str] = ()
) -> dict[str, str]:
    """The column of each property; one that exists keeps belonging to its property, but for some others."""
    return names.column_names(properties, RULES, existing, others)
