"""Reading a columnar file part by part (row groups, record batches, groups of blocks): `FilePart`, `read_part`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from singer_arrow.enforcement.enforce import fit_batch
from singer_arrow.errors import DataError
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint, no_such_resume_point


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file."""

    at: int  # start, as `ResumePoint.at` has it
    following: int | None  # start of the next part; None if the file has a single part
    rows: int  # according to the file
    url: object
    row_group: int | None = None  # its number, if the part is one
    rows_before: int | None = None  # in its row group or else in the file; None if it is unknown


def read_part(
    part: FilePart, batches: Iterable[pa.RecordBatch], schema: pa.Schema, options: ReadOptions, progress: ReadProgress
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part between `progress.resume_point` and `progress.end`, fitted to `schema`.

    `batches` hold all rows of the part and are the same on every run; if they are not `part.rows` rows, it is a
    DataError.
    """
    begin, end = progress.resume_point or ResumePoint(), progress.end
    rows, given, before = 0, begin.rows, begin.lines if begin.at == part.at else 0
    progress.rows_read += before
    until = end.lines if end is not None and end.at == part.at else part.rows
    if before > part.rows or until > part.rows:
        raise no_such_resume_point(begin if before > part.rows else end or begin, part.url)
    for batch in batches:
        rows += batch.num_rows
        if rows <= before:
            continue
        fresh = batch.slice(max(0, batch.num_rows - (rows - before)))
        if rows > until < part.rows:
            fresh, rows = fresh.slice(0, fresh.num_rows - (rows - until)), until
        first = None if part.rows_before is None else part.rows_before + rows - fresh.num_rows + 1
        fitted = fit_batch(
            fresh, schema, part.url, row_group=part.row_group, first_row=first, options=options, progress=progress
        )
        given += fitted.num_rows
        progress.rows_read += fresh.num_rows
        ends = rows == part.rows and part.following is not None
        progress.resume_point = ResumePoint(given, part.following or 0) if ends else ResumePoint(given, part.at, rows)
        if fitted.num_rows:
            yield fitted
        if rows == until < part.rows:
            return
    if rows != part.rows:
        reason = f"its footer lists {part.rows} rows, there are {rows}"
        raise DataError(reason, url=part.url, row_group=part.row_group, hint="Upload the file again")
