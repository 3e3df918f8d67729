"""Deliver the blocks of a file as batches: report bad rows, raise errors, keep the position."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from singer_arrow.casting.cut_digits import warn_truncated
from singer_arrow.enforcement.row_json import line_to_json
from singer_arrow.enforcement.row_policy import BlockResult, RowError, report_rows
from singer_arrow.errors import DataError
from singer_arrow.read_progress import ReadProgress, ResumePoint, Skipped, no_such_resume_point

logger = logging.getLogger(__name__)


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


def until(text: Iterable[Any], end: ResumePoint | None, url: object) -> Iterator[Any]:
    """Yield a text that was read up to a resume point; it is a DataError if no line ends there."""
    last = b""
    for chunk in text:
        last = bytes(memoryview(chunk)[-1:]) or last
        yield chunk
    if end is not None and last not in (b"\n", b"\r", b""):
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
        warn_truncated(logger, position.url, block.cuts, warned)
        progress.left_out.update(block.left_out)
        if block.failed is not None:
            raise position.error(block.failed)
        report_rows(block, progress, position.error, position.record)
        position.advance(block)
        progress.resume_point = position.resume_point
        is_over = progress.has_reached_end(position.resume_point, position.url)
        if block.batch is not None and block.batch.num_rows:
            yield block.batch
        if is_over:
            return
