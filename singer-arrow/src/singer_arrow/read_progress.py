"""How far the reading of one file has come, and where another reading can begin: `ReadProgress`, `ResumePoint`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from singer_arrow.errors import DataError

logger = logging.getLogger(__name__)
MOST_LOGGED = 10
"""Bad rows of a file that are logged one by one."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Between two rows of a file, where a reading can begin.

    Attributes:
        rows: Rows that were given before it.
        at: Bytes of text before it, decompressed and in UTF-8. In formats of columns where the part of the file begins
            that holds it: the number of its row group (Parquet) or record batch (Arrow), the first byte of its blocks
            (Avro); 0 in ORC.
        lines: Lines before it, in formats of text; in formats of columns rows of that part before it, given or not.
    """

    rows: int = 0
    at: int = 0
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that was left out because it could not be read.

    Attributes:
        position: Its number in the file, from 1: of its line in formats of text, else of the row.
        column: Where it is bad, if it is one column's fault.
        reason: Why.
        record: The row as JSON text; of a line that is no JSON, an object with the text as `_raw`.
    """

    position: int
    column: str | None
    reason: str
    record: str


@dataclass(slots=True)
class ReadProgress:
    """How far the reading of one file has come, and what it left out so far.

    Attributes:
        place: Before the reading, where it begins. After each batch, where that ends; None if no reading can begin
            there, and where the format cannot begin anywhere else than at the start.
        skipped: Rows that were left out because they could not be read.
        rescued: Rows of which something is in `RESCUED`.
        on_skip: Hears of each row of JSON or of columns that is left out, in order, before the batch that it would have
            been in is given; by default the first ones of a file are logged.
        seen: Rows of a file of columns that were read, given or not.
        end: Where the reading ends: a place that another reading of the same file gave; None at the end of the file.
    """

    place: ResumePoint | None = ResumePoint()
    skipped: int = 0
    rescued: int = 0
    on_skip: Callable[[Skipped], None] | None = None
    seen: int = 0
    end: ResumePoint | None = None

    def has_reached_end(self, place: ResumePoint, url: object) -> bool:
        """Whether a reading that has come to a place is at its end.

        Raises:
            DataError: No batch ends where the reading must end.
        """
        if self.end is None or (place.at, place.lines) < (self.end.at, self.end.lines):
            return False
        if (place.at, place.lines) > (self.end.at, self.end.lines):
            raise no_such_resume_point(self.end, url)
        return True

    def skip(self, error: DataError, rows: int = 1) -> None:
        """Count rows that are left out; the first of a file are logged."""
        self._tell(self.skipped, "skipped", error)
        self.skipped += rows

    def rescue(self, error: DataError, rows: int = 1) -> None:
        """Count rows of which something is in `RESCUED`; the first of a file are logged."""
        self._tell(self.rescued, "rescued", error)
        self.rescued += rows

    @staticmethod
    def _tell(before: int, word: str, error: DataError) -> None:
        if before < MOST_LOGGED:
            more = "; further ones of this file are counted only" if before == MOST_LOGGED - 1 else ""
            logger.warning("A row was %s: %s%s", word, error, more)


def no_such_resume_point(place: ResumePoint, url: object) -> DataError:
    """Return the error for a place that a file does not have."""
    reason = f"no row begins at byte or part {place.at}, line or row {place.lines}, where an earlier run ended"
    hint = "Read it as the earlier run did (csv, format, compression, encoding), or from its start with a new plan_root"
    return DataError(reason, url=url, hint=hint)
