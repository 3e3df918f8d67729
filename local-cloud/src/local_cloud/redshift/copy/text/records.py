"""Records of text, with the details for errors."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from local_cloud.redshift.copy.columns import STRING
from local_cloud.redshift.copy.sources import File
from local_cloud.redshift.copy.text import values
from local_cloud.redshift.copy.text.pieces import Load, Piece, piece
from local_cloud.redshift.errors import BadValue, LoadErrorRow

_KEPT = 1024  # bytes of a line and of a field in stl_load_errors


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the file."""

    line: int  # number of its first line
    raw: str
    fields: Sequence[str | None] = ()  # one for each column, None for NULL
    starts: Sequence[int] = ()  # of each field in the record, in characters
    wrong: BadValue | None = None  # error of the record itself; it has no fields then
    at: int | None = None  # the column of the error, if known


def quick(load: Load, texts: Sequence[pa.Array]) -> tuple[Piece | None, bool]:
    """Return the rows of columns that were read at once, and whether all are valid. Records no errors."""
    found = []
    for column, text in zip(load.columns, texts, strict=True):
        converted, wrong = values.convert(load.command, column, text)
        if wrong:
            return None, False
        found.append(converted)
    return piece(load.columns, found), True


def careful(load: Load, file: File, records: Sequence[Record]) -> Piece | None:
    """Return the rows of the valid records and record the errors of the others, in order."""
    good = [record for record in records if record.wrong is None]
    found: list[pa.Array] = []
    wrong: dict[int, tuple[int, BadValue]] = {}
    for place, column in enumerate(load.columns):
        texts = pa.array([record.fields[place] for record in good], STRING)
        converted, bad = values.convert(load.command, column, texts)
        found.append(converted)
        for row, error in bad.items():
            wrong.setdefault(row, (place, error))
    at = {id(good[row]): reason for row, reason in wrong.items()}
    for record in records:
        if record.wrong is not None:
            load.note(_row(load, file, record, record.at, record.wrong))
        elif id(record) in at:
            load.note(_row(load, file, record, *at[id(record)]))
    if wrong:
        kept = pa.array([row not in wrong for row in range(len(good))], pa.bool_())
        found = [pc.filter(column, kept) for column in found]
    return piece(load.columns, found) if good else None


def _row(load: Load, file: File, record: Record, place: int | None, error: BadValue) -> LoadErrorRow:
    column = load.columns[place] if place is not None else None
    start = record.starts[place] if place is not None and place < len(record.starts) else 0
    value = record.fields[place] if place is not None and place < len(record.fields) else ""
    return LoadErrorRow(
        file=file.url,
        line=record.line,
        column=column.name if column else "",
        type=column.type if column else "",
        length=column.size if column else "",
        position=len(record.raw[:start].encode(errors="replace")),
        raw_line=_kept(record.raw),
        raw_value=_kept(value or ""),
        code=error.code,
        reason=error.reason,
    )


def _kept(text: str) -> str:
    shown = text.replace("\0", "").encode(errors="replace")[:_KEPT]
    return shown.decode(errors="ignore")
