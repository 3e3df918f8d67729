"""Progress of reading one file, and points to resume from: `ReadProgress`, `ResumePoint`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from singer_arrow.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)
MAX_LOGGED = 10
"""Number of bad rows of a file that are logged one by one."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A point between two rows of a file from which reading can resume.

    The tap writes these fields into STATE.

    Attributes:
        rows: Number of rows yielded before the point.
        at: Text formats: bytes before the point, decompressed and in UTF-8. Columnar formats: the part of the file
            that holds the point, which is the number of a row group (Parquet) or record batch (Arrow), the first byte
            of a group of blocks (Avro), or 0 (ORC).
        lines: Text formats: lines before the point. Columnar formats: rows of the part before the point, including
            skipped ones.
    """

    rows: int = 0
    at: int = 0
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that was dropped because it could not be read.

    Attributes:
        position: Line number (text formats) or row number (columnar formats) in the file, from 1.
        column: Column with the bad value, if the error concerns a single column.
        reason: Description of the error.
        record: The row as JSON text, in other text formats with the text of each column; a row that cannot be parsed
            is an object with its text as `_raw`.
        file: The file, or the member of an archive.
    """

    position: int
    column: str | None
    reason: str
    record: str
    file: str | None = None


@dataclass(slots=True)
class ReadProgress:
    """Progress of reading one file; the reader updates it before it yields each batch.

    Attributes:
        resume_point: Initially the start of the reading, then the end of the last batch. None if reading cannot resume
            there, or if the format can only start at the beginning of a file.
        skipped: Number of rows dropped because they could not be read.
        rescued: Number of rows with values in `RESCUED`.
        on_skip: With `on_bad_row: dead_letter`, callback for each dropped row, in order, before the batch that follows
            it is yielded.
        rows_read: Number of the rows of a columnar file up to the end of the last batch, including dropped ones.
        warned: Columns whose truncated digits were logged.
        left_out: With `on_drift: count`, the number of values of JSON without a place in the schema, by path.
        file_schema: Schema of a columnar file; None until it is open.
        end: Exclusive end of the reading: a resume point of an earlier reading of the same file. None: end of the file.
    """

    resume_point: ResumePoint | None = ResumePoint()
    skipped: int = 0
    rescued: int = 0
    on_skip: Callable[[Skipped], None] | None = None
    rows_read: int = 0
    end: ResumePoint | None = None
    warned: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    file_schema: pa.Schema | None = None

    def has_reached_end(self, point: ResumePoint, url: object) -> bool:
        """Return whether a reading that is at `point` has reached `end`.

        Raises:
            DataError: `point` is beyond `end`, so no batch ends there.
        """
        if self.end is None or (point.at, point.lines) < (self.end.at, self.end.lines):
            return False
        if point.at > self.end.at:
            raise no_such_resume_point(self.end, url)
        return True

    def skip(self, error: DataError, rows: int = 1) -> None:
        """Count dropped rows; log the first ones of a file."""
        _log_row(self.skipped, "skipped", error)
        self.skipped += rows

    def rescue(self, error: DataError, rows: int = 1) -> None:
        """Count rows with values in `RESCUED`; log the first ones of a file."""
        _log_row(self.rescued, "rescued", error)
        self.rescued += rows


def _log_row(before: int, action: str, error: DataError) -> None:
    if before < MAX_LOGGED:
        more = "; further ones of this file are counted only" if before == MAX_LOGGED - 1 else ""
        logger.warning("A row was %s: %s%s", action, error, more)


def no_such_resume_point(point: ResumePoint, url: object) -> DataError:
    """Return the error for a resume point that a file does not have."""
    reason = f"no row begins at byte or part {point.at}, line or row {point.lines}, where an earlier run ended"
    hint = "Read it as the earlier run did (csv, format, compression, encoding), or from its start with a new plan_root"
    return DataError(reason, url=url, hint=hint)
