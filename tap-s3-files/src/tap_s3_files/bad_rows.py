"""Bad rows that leave the stream's rows, for the targets' table of rejected rows (`on_bad_row: dead_letter`)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import replace

from singer_arrow.batch.message import Batch
from singer_arrow.errors import one_line
from singer_arrow.load.dead_letters import Rejected, TooManyRejectedError, too_many
from singer_arrow.read_progress import MAX_LOGGED, Skipped
from tap_s3_files.plan.log import identity, task_name
from tap_s3_files.plan.model import Task
from tap_s3_files.stream_job import StreamJob

logger = logging.getLogger("tap-s3-files")
_LONGEST_RECORD, _MOST_TEXT = 1 << 20, 8 << 20
"""Characters of one row, and of all of a message, which is a line that targets read as a whole."""


class BadRows:
    """Bad rows that wait for so many messages of their batches, which may have `most` each."""

    def __init__(self, most: int, messages: int = 1) -> None:
        self._most, self._messages = most, messages
        self.rows: list[Skipped] = []

    def add(self, rows: Iterable[Skipped]) -> None:
        """Add rows; an error if there are too many, or they are too long for a message."""
        self.rows += rows
        if len(self.rows) > self._most * self._messages:
            raise too_many(self._most, Rejected.of_tap(self.rows[0]))
        if sum(len(row.record) for row in self.rows) > _MOST_TEXT * self._messages:
            msg = f"its bad rows have more than {_MOST_TEXT >> 20} MiB of text; the first is {self.rows[0].reason}"
            raise TooManyRejectedError(msg, url=self.rows[0].file, hint="Correct the file, or set on_bad_row: skip")

    def take(self, count: int | None = None) -> tuple[Skipped, ...]:
        """Return the first rows, or all, and remove them from here."""
        taken = tuple(self.rows[:count])
        self.rows = self.rows[len(taken) :]
        return taken


class BadRowsOfObject(BadRows):
    """The bad rows of an object, as its reading passes them to `take_row`; the first ones are logged."""

    def __init__(self, job: StreamJob) -> None:
        super().__init__(job.max_bad_rows)
        self._shows_rows, self._logged = job.shows_rows, 0

    def take_row(self, row: Skipped) -> None:
        """Add a row; of one that is sent only in part, none of the text."""
        record = row.record if self._shows_rows else "{}"
        if len(record) > _LONGEST_RECORD:
            record = json.dumps({"_raw": record[:_LONGEST_RECORD]}, ensure_ascii=False)
        file = (row.file or "").encode(errors="backslashreplace").decode()
        column = one_line(row.column) if row.column is not None else None
        made = replace(row, file=file, column=column, reason=one_line(row.reason), record=record)
        self._logged += 1
        if self._logged <= MAX_LOGGED:
            more = "; further ones of this file are counted only" if self._logged == MAX_LOGGED else ""
            logger.warning("A row is rejected: %s%s", Rejected.of_tap(made), more)
        self.add([made])


def batch_of_bad_rows(job: StreamJob, task: Task, number: int, rows: tuple[Skipped, ...]) -> Batch:
    """Return the message for the bad rows of an object of a task, where rows are sent as RECORD messages.

    Its id depends on the object alone, not on those that it is read with.
    """
    again = tuple((0, count) for place, count in task.again if place == number)
    name = task_name(job.stream, Task((task.objects[number],), task.range, again))
    return Batch(job.stream, "jsonl", (), batch_id=identity(name, "rejected", *job.own_ids), row_count=0, rejected=rows)
