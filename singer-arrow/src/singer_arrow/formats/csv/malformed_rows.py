"""Find the rows of a block of CSV that cannot be read. Pure.

A quote that is never closed makes unreadable the line on which it opens, and the lines of the same row before it. The
next line begins a row again.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise

from singer_arrow.enforcement.mismatches import first_invalid
from singer_arrow.enforcement.row_policy import RowError
from singer_arrow.formats.csv.dialect import Dialect, Scan

_UNCLOSED = "a quote is opened in this row and never closed"
_QUOTE_HINT = "Check csv.quote and csv.escape"
_INVALID = "invalid UTF-8"
_ENCODING_HINT = "Set csv.encoding to the file's encoding, for instance latin-1 or cp1252"


def find_unread(
    block: bytes, scan: Scan, dialect: Dialect, names: Sequence[str], selected: Container[str], *, is_utf8: bool
) -> tuple[dict[int, RowError], bytes]:
    """Return the errors of rows with an open quote or with invalid UTF-8, by row, and the text of the other rows.

    The block begins with a record, and comments are empty lines. Of the columns `names` those `selected` must be UTF-8.
    """
    unread, removed = dict[int, RowError](), list(scan.damage.values())
    for row, (start, end) in scan.damage.items():
        unread[row] = RowError(row, _UNCLOSED, hint=_QUOTE_HINT, text=block[start:end])
    if not is_utf8:
        required = [name in selected for name in names]
        for row, (start, following) in enumerate(pairwise([*scan.starts, len(block)])):
            if row in unread or first_invalid(block[start:following]) is None:
                continue
            end = dialect.end(block, start)
            raw = block[start:end]
            if (reason := _invalid(raw, dialect, required)) is not None:
                hint = _ENCODING_HINT if reason.startswith(_INVALID) else None
                unread[row] = RowError(row, reason, hint=hint, text=raw)
                removed.append((start, end))
    pieces, at = list[bytes](), 0
    for start, end in sorted(removed):
        pieces.append(block[at:start])
        at = end
    return unread, b"".join((*pieces, block[at:])) if pieces else block


def wrong_fields(fields: int, due: int) -> str:
    """Return the reason of the error of a row with another number of fields than the header."""
    return f"row has {fields} {'field' if fields == 1 else 'fields'}, header has {due}"


def _invalid(raw: bytes, dialect: Dialect, required: Sequence[bool]) -> str | None:
    """Return the error of a row that is not UTF-8; None if its invalid bytes are in columns that are not read."""
    fields = dialect.raw_fields(raw)
    if len(fields) != len(required):
        return wrong_fields(len(fields), len(required))
    for field, is_required in zip(fields, required, strict=True):
        if is_required and (at := first_invalid(field)) is not None:
            return f"{_INVALID} (byte 0x{field[at]:02x})"
    return None
