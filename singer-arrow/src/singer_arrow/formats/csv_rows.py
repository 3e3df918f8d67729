"""The rows of a block of CSV in which something is wrong: those that can be read, and those that cannot. Pure.

A quote that is never closed costs the line on which it is opened (and those before it of the same row): what stands
after that line is read as rows again.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from singer_arrow.formats.csv_dialect import Dialect, Record, count_lines
from singer_arrow.formats.text_misfits import first_invalid
from singer_arrow.formats.text_rows import Problem, Unread

_QUOTE_HINT = "Check csv.quote and csv.escape"
ENCODING_HINT = "Set csv.encoding to the file's encoding, for instance latin-1 or cp1252"


@dataclass(frozen=True, slots=True)
class FoundRows:
    """What a block holds.

    Attributes:
        text: The records that can be read; between them nothing but empty lines.
        records: These, in their order, as they stand in `source`.
        source: The block without what a quote that is never closed has damaged.
        unread: The rows that cannot be read.
    """

    text: bytes
    records: Sequence[Record]
    source: bytes
    unread: Sequence[Unread]

    def without(self, wrong: Mapping[int, int], due: int) -> tuple[list[int], list[Unread]]:
        """The lines of the records that have as many fields as are due; and all rows that cannot be read, by line.

        Args:
            wrong: By its place in `records`, how many fields a record has that has another number of them.
            due: How many there should be.
        """
        unread = [*self.unread, *(self._wrong(self.records[i], n, due) for i, n in wrong.items())]
        unread.sort(key=lambda u: u.problem.line or 0)
        return [r.line for i, r in enumerate(self.records) if i not in wrong], unread

    def _wrong(self, record: Record, fields: int, due: int) -> Unread:
        return Unread(wrong_fields(record.line, fields, due), self.source[record.start : record.end])


def find_rows(block: bytes, dialect: Dialect, names: Sequence[str], wanted: Container[str]) -> FoundRows:
    """The rows of a block that ends with a line break.

    Args:
        block: The text, which begins with a record; comments are empty lines.
        dialect: Its syntax.
        names: The file's columns.
        wanted: The columns that must be UTF-8.
    """
    source, unread = _without_damage(block, dialect)
    records = list(dialect.records(source))
    if first_invalid(source) is None:
        return FoundRows(source, records, source, unread)
    needed = [name in wanted for name in names]
    kept, pieces, at = list[Record](), list[bytes](), 0
    for record in records:
        raw = source[record.start : record.end]
        problem = None if first_invalid(raw) is None else _invalid(record.line, raw, dialect, needed)
        if problem is None:
            kept.append(record)
        else:
            unread.append(Unread(problem, raw))
            pieces += [source[at : record.start], b"\n"]
            at = record.end
    return FoundRows(b"".join((*pieces, source[at:])), kept, source, unread)


def wrong_fields(line: int, fields: int, due: int) -> Problem:
    """The problem of a row of so many fields."""
    return Problem(line, f"row has {fields} {'field' if fields == 1 else 'fields'}, header has {due}")


def not_utf8(line: int, text: bytes, at: int) -> Problem:
    """The problem of a row with a byte that is no UTF-8."""
    return Problem(line, f"invalid UTF-8 (byte 0x{text[at]:02x})", hint=ENCODING_HINT)


def _without_damage(block: bytes, dialect: Dialect) -> tuple[bytes, list[Unread]]:
    kept, unread, line, rest = list[bytes](), list[Unread](), 1, block
    while (whole := dialect.whole(rest)) < len(rest):
        end = dialect.unclosed(rest, whole)
        line += count_lines(rest[:whole])
        problem = Problem(line, "a quote is opened in this row and never closed", hint=_QUOTE_HINT)
        unread.append(Unread(problem, rest[whole:end]))
        broken = count_lines(rest[whole:end])
        kept += [rest[:whole], b"\n" * broken]
        line, rest = line + broken, rest[end:]
    return b"".join((*kept, rest)), unread


def _invalid(line: int, raw: bytes, dialect: Dialect, needed: Sequence[bool]) -> Problem | None:
    """What is wrong with a row that is not UTF-8; None if that is in a column that nobody needs."""
    fields = dialect.raw_fields(raw)
    if len(fields) != len(needed):
        return wrong_fields(line, len(fields), len(needed))
    for field, need in zip(fields, needed, strict=True):
        if need and (at := first_invalid(field)) is not None:
            return not_utf8(line, field, at)
    return None
