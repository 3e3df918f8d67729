"""Detect the delimiter of a CSV file. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from singer_arrow.formats.csv.dialect import Dialect

CANDIDATES = (",", ";", "\t", "|")
_ROWS = 1000
_LEAST_SHARE = 0.5
"""Share of the rows that must have as many fields as the first one."""


def detect_delimiter(text: bytes, dialect: Dialect) -> str:
    """Return the delimiter of a text that begins with a record, from its first 1000 rows.

    It is the candidate that gives most rows as many fields as the first row, and the first row at least two; among
    equals the one with more fields, then the first candidate. If none fits more than half of the rows, it is a comma.

    Args:
        text: Beginning of the file from its header or first row on; a row that is cut off does not count.
        dialect: Dialect with the other characters, which are no candidates.
    """
    taken = (dialect.quote, dialect.escape, dialect.comment)
    tried = [replace(dialect, delimiter=c) for c in CANDIDATES if c not in taken]
    likely = [d for d in tried if _fields(d, text, 1)[0] > 1]
    if not likely or likely == [dialect]:
        return dialect.delimiter
    found = [(*_share(_fields(d, text, _ROWS)), -rank, d.delimiter) for rank, d in enumerate(likely)]
    share, *_, delimiter = max(found)
    return delimiter if share > _LEAST_SHARE else dialect.delimiter


def _fields(dialect: Dialect, text: bytes, rows: int) -> list[int]:
    """Return the number of fields of each of the first rows; of the text, if not even one row is whole."""
    found = [text[r.start : r.end] for r in islice(dialect.records(text), rows)]
    return [len(dialect.raw_fields(row)) for row in found or [text]]


def _share(fields: Iterable[int]) -> tuple[float, int]:
    first, *others = fields
    return (1 + sum(n == first for n in others)) / (1 + len(others)), first
