"""The rows of a block of CSV in which something is wrong: those that can be read, and those that cannot. Pure.

A quote that is never closed costs the line on which it is opened (and those before it of the same row): what stands
after that line is read as rows again.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from singer_arrow.enforcement.text_mismatches import first_invalid
from singer_arrow.formats.csv.dialect import Dialect, Scan, count_lines
from singer_arrow.formats.text.rows import Unread

_QUOTE_HINT = "Check csv.quote and csv.escape"
_ENCODING_HINT = "Set csv.encoding to the file's encoding, for instance latin-1 or cp1252"


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of a block, each called by its number, from 0.

    Attributes:
        block: The block.
        scan: Where they begin.
        unread: Those that cannot be read whatever the number of their fields.
        text: The others.
    """

    block: bytes
    scan: Scan
    unread: Mapping[int, Unread]
    text: bytes

    def line(self, row: int) -> int:
        """On which line of the block a row begins, from 1."""
        return count_lines(self.block[: self.scan.starts[row]]) + 1

    def without(self, wrong: Mapping[int, int], dialect: Dialect, due: int) -> tuple[Sequence[int], list[Unread]]:
        """The rows that have as many fields as are due, and all that cannot be read.

        Args:
            wrong: How many fields a row has that has another number of them, by its number in `text`.
            dialect: The block's syntax.
            due: How many there should be.
        """
        rows: Sequence[int] = range(len(self.scan.starts))
        if self.unread:
            rows = [row for row in rows if row not in self.unread]
        if not wrong:
            return rows, list(self.unread.values())
        fields = {rows[i]: n for i, n in wrong.items()}
        more = {row: self._wrong(row, n, dialect, due) for row, n in fields.items()}
        return [row for row in rows if row not in more], sorted([*self.unread.values(), *more.values()], key=_number)

    def _wrong(self, row: int, fields: int, dialect: Dialect, due: int) -> Unread:
        start = self.scan.starts[row]
        return Unread(row, _wrong_fields(fields, due), self.block[start : dialect.end(self.block, start)])


def find_rows(
    block: bytes, scan: Scan, dialect: Dialect, names: Sequence[str], wanted: Container[str], *, valid: bool
) -> FoundRows:
    """The rows of a block.

    Args:
        block: The text, which begins with a record; comments are empty lines.
        scan: Where its rows begin.
        dialect: Its syntax.
        names: The file's columns.
        wanted: The columns that must be UTF-8.
        valid: That all of it is UTF-8.
    """
    unread = {row: Unread(row, _UNCLOSED, block[start:end], _QUOTE_HINT) for row, (start, end) in scan.damage.items()}
    gone = list(scan.damage.values())
    if not valid:
        needed = [name in wanted for name in names]
        for row, (start, following) in enumerate(pairwise([*scan.starts, len(block)])):
            if row in unread or first_invalid(block[start:following]) is None:
                continue
            end = dialect.end(block, start)
            raw = block[start:end]
            if (reason := _invalid(raw, dialect, needed)) is not None:
                unread[row] = Unread(row, reason, raw, _ENCODING_HINT if reason.startswith(_INVALID) else None)
                gone.append((start, end))
        unread = dict(sorted(unread.items()))
    pieces, at = list[bytes](), 0
    for start, end in sorted(gone):
        pieces.append(block[at:start])
        at = end
    return FoundRows(block, scan, unread, b"".join((*pieces, block[at:])) if pieces else block)


_UNCLOSED = "a quote is opened in this row and never closed"
_INVALID = "invalid UTF-8"


def _wrong_fields(fields: int, due: int) -> str:
    return f"row has {fields} {'field' if fields == 1 else 'fields'}, header has {due}"


def _invalid(raw: bytes, dialect: Dialect, needed: Sequence[bool]) -> str | None:
    """What is wrong with a row that is not UTF-8; None if that is in a column that nobody needs."""
    fields = dialect.raw_fields(raw)
    if len(fields) != len(needed):
        return _wrong_fields(len(fields), len(needed))
    for field, need in zip(fields, needed, strict=True):
        if need and (at := first_invalid(field)) is not None:
            return f"{_INVALID} (byte 0x{field[at]:02x})"
    return None


def _number(row: Unread) -> int:
    return row.number
