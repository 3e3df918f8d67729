"""The blocks of text and JSON files as batches; columnar files part by part."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from singer_arrow.casting.spelling import warn_truncated
from singer_arrow.enforcement.bad_rows import BlockResult, RowError, line_to_json, report_rows
from singer_arrow.enforcement.enforce import fit_batch
from singer_arrow.errors import DataError
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint, Skipped, no_such_resume_point

# Deliver the blocks of a file as batches: report bad rows, raise errors, keep the position.

logger = logging.getLogger(__name__)
T = TypeVar("T")


class FilePosition:
    """Position in a file of text, and so of the block that is delivered next."""

    def __init__(self, url: object, resume_point: ResumePoint) -> None:
        self.url, self.resume_point = url, resume_point

    def line_of(self, line: int) -> int:
        """Return the line of the file for a line of the block, both from 1."""
        return self.resume_point.lines + line

    def error(self, error: RowError) -> DataError:
        """Return the error to raise or log, with file, line and column."""
        line = None if error.line is None else self.line_of(error.line)
        return DataError(error.reason, url=self.url, line=line, column=error.column, hint=error.hint)

    def record(self, error: RowError) -> Skipped:
        """Return a skipped row for `ReadProgress.on_skip`."""
        found = self.error(error)
        return Skipped(found.line or 0, error.column, found.reason, line_to_json(error.text), str(self.url))

    def advance(self, block: BlockResult) -> None:
        """Move behind a block."""
        rows = self.resume_point.rows + (0 if block.batch is None else block.batch.num_rows)
        self.resume_point = ResumePoint(rows, self.resume_point.at + block.bytes, self.resume_point.lines + block.lines)


def until(text: Iterable[Any], end: ResumePoint, url: object) -> Iterator[Any]:
    """Yield a text that was read up to a resume point; it is a DataError if no line ends there."""
    last = b""
    for chunk in text:
        last = bytes(memoryview(chunk)[-1:]) or last
        yield chunk
    if last not in (b"\n", b"\r", b""):
        raise no_such_resume_point(end, url)


def deliver(
    blocks: Iterable[BlockResult],
    position: FilePosition,
    progress: ReadProgress,
    refuse_drift: Callable[[BlockResult, FilePosition], None] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file's blocks, up to `progress.end`; `position` is that of the first block, and moves.

    `refuse_drift` raises DriftError if the schema must change before a block is delivered; None accepts drift. A bad
    row is a DataError if the policy is to fail.
    """
    warned = set[str]()
    for block in blocks:
        if refuse_drift is not None:
            refuse_drift(block, position)
        if block.cuts:
            warn_truncated(logger, position.url, block.cuts, warned)
        progress.left_out.update(block.left_out)
        if block.failed is not None:
            raise position.error(block.failed)
        if block.skipped.count or block.rescued.count:
            report_rows(block, progress, position.error, position.record)
        position.advance(block)
        progress.resume_point = position.resume_point
        is_over = progress.end is not None and progress.has_reached_end(position.resume_point, position.url)
        if block.batch is not None and block.batch.num_rows:
            yield block.batch
        if is_over:
            return


def in_groups(items: Iterable[T], size: Callable[[T], int], most: int, count: int = sys.maxsize) -> Iterator[list[T]]:
    """Group items up to a size or count; by them alone, so alike on every run."""
    group, total = list[T](), 0
    for item in items:
        group.append(item)
        total += size(item)
        if total >= most or len(group) == count:
            yield group
            group, total = [], 0
    if group:
        yield group


# Reading a columnar file part by part (row groups, record batches, groups of blocks): `FilePart`, `read_part`.


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file."""

    at: int  # start, as `ResumePoint.at` has it
    following: int | None  # start of the next part; None if the file has a single part
    rows: int  # according to the file
    url: object
    row_group: int | None = None  # its number, if the part is one
    rows_before: int | None = None  # in its row group or else in the file; None if it is unknown


def cast_to(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch of Arrow's reader to the types of the schema of its file, without a check of its values."""
    types = pa.schema([schema.field(name) for name in batch.schema.names])
    return batch if types.equals(batch.schema) else batch.cast(types, safe=False)


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
    end_row = end.lines if end is not None and end.at == part.at else part.rows
    if before > part.rows or end_row > part.rows:
        raise no_such_resume_point(begin if before > part.rows else end or begin, part.url)
    for batch in batches:
        rows += batch.num_rows
        if rows <= before:
            continue
        fresh = batch.slice(max(0, batch.num_rows - (rows - before)))
        if rows > end_row and end_row < part.rows:
            fresh, rows = fresh.slice(0, fresh.num_rows - (rows - end_row)), end_row
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
        if rows == end_row and rows < part.rows:
            return
    if rows != part.rows:
        reason = f"its footer lists {part.rows} rows, there are {rows}"
        raise DataError(reason, url=part.url, row_group=part.row_group, hint="Upload the file again")
