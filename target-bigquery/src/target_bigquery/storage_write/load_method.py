"""load_via: storage_write. Rows go as Arrow through the Storage Write API, into a pending write stream for each group.

append-only: the write stream is into the table itself, and is committed once the ledger has a claim for it. upsert: it
is into the group's staging table. Load jobs remain for overwrite, because a copy of a table may lack rows that were
written to it just before; for tables with a column that the API has no Arrow type for; and for items with a row that is
too large for a request.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from singer_arrow.load.backoff import Waiting, pauses
from singer_arrow.load.conversion import ORDER, converted_batches
from singer_arrow.load.item import Item as AnyItem
from singer_arrow.naming import staging_name
from singer_arrow.warehouse.settings import APPEND, OVERWRITE, UPSERT
from target_bigquery.connection import connection
from target_bigquery.connection.connection import logger
from target_bigquery.load import load_job
from target_bigquery.load.append import AppendOnly
from target_bigquery.load.base import BigQueryLoadMethod
from target_bigquery.load.uploads import PreparedItem, Upload
from target_bigquery.load.upsert import Staged, Upsert
from target_bigquery.storage_write import requests as rows
from target_bigquery.storage_write import stream as write_stream
from target_bigquery.storage_write.requests import PreparedRows
from target_bigquery.tables import migrate
from target_bigquery.tables.types import Column

_RECORD_AGE_SECONDS = 1.0
_OPENED_A_SECOND = 2
"""How many write streams a run of many streams opens for RECORD messages; a project has 10,000 an hour in a region."""
_ROWS = "rows"


def record_age_seconds(streams: int, most: float) -> float:
    """Return how long RECORD messages wait for others, at most, where each load adds rows to the table at once."""
    return min(most, max(_RECORD_AGE_SECONDS, streams / _OPENED_A_SECOND))


def why_not(load_method: str, columns: Sequence[Column]) -> str | None:
    """Return why a stream needs load jobs; None if the Storage Write API can load it."""
    if load_method == OVERWRITE:
        return "overwrite replaces the table by a copy, which may lack what was written just before"
    if column := rows.unsupported_column(columns):
        return f"the Storage Write API takes no Arrow for column {column}"
    return None


class _Streamed(BigQueryLoadMethod):
    """What both load methods share: items become rows as they are sent, or else parts for a load job."""

    def make_ready(self, item: AnyItem[Any]) -> Any:
        """Return rows; a part for a load job if one of them is too large, or a batch has none."""
        path, rejects = self.context.files.temporary(".rows"), self.rejects(item)
        try:
            written = rows.write(
                item, converted_batches(item, self.context.files.storage, rejects=rejects), path, rejects
            )
        except rows.TooLargeError:
            path.unlink()
            limit = rows.REQUEST_BYTES / 1e6
            logger.info("Stream %r: rows beyond %.0f MB go by a load job", self.context.stream, limit)
            return super().make_ready(item)
        if item.batch_id and not written.spans:  # the ledger needs a load
            path.unlink()
            return super().make_ready(item)
        if item.is_temporary:
            item.remove_files()
        return written

    def count(self, upload: Upload) -> None:
        kind = "write_streams" if upload.file_format == _ROWS else "load_jobs"
        self.context.tally.add(rows=upload.rows, bytes=upload.bytes, **{kind: 1})

    def discard(self, parts: Sequence[Any]) -> None:
        """Remove temporary files."""
        for part in parts:
            if isinstance(part, PreparedRows):
                part.path.unlink(missing_ok=True)
            else:
                self.context.files.discard(part)


class StreamedAppend(_Streamed, AppendOnly):
    """append-only: each group is one write stream into the table."""

    streams = True

    def stage(self, parts: Sequence[Any]) -> None:
        """Load a group."""
        try:
            ready, large = _sorted(self.fresh([p for p in parts if p.rows or p.rejects]))
            if large:
                super().stage(large)
            self.write_dead_letters(ready)
            if rest := [p for p in ready if p.rows]:
                self._write(rest)
        finally:
            self.discard(parts)

    def _write(self, parts: Sequence[PreparedRows]) -> None:
        writes, ledger, table = self.context.client.writes, self.context.ledger, self.context.destination.name
        name, waiting = write_stream.fill(writes, table, parts), Waiting(logger)
        batches = {p.item.batch_id: p.rows for p in parts if p.item.batch_id}
        for pause in pauses(connection.DEADLINE_SECONDS) if batches else ():
            of_logs = self.entries_of_logs(p.item for p in parts)
            job_id, theirs = ledger.begin(batches, of_logs)
            if theirs:
                for batch_id in theirs:
                    self.skip(batch_id, "just now by another run")
                if rest := [p for p in parts if p.item.batch_id not in theirs]:
                    self._write(rest)
                return
            if self.context.client.claim(job_id, name):
                ledger.committed(batches | of_logs, job_id, write_stream.commit(writes, name))
                break
            error = load_job.BusyError(f"Loading into table {table}: another process took the id of the job {job_id}")
            if pause is None:
                raise load_job.too_busy(error)
            waiting.before_again(pause, error)
        else:
            write_stream.commit(writes, name)
        self.count(_uploaded(parts))


class StreamedUpsert(_Streamed, Upsert):
    """upsert: each group is one write stream into a staging table of its own, which is merged as ever."""

    def stage(self, parts: Sequence[Any]) -> Staged | None:
        """Load a group into a staging table."""
        bigquery, table = self.context.client, self.context.destination
        ready, large = _sorted(parts)
        try:
            if not ready and not large:
                return None
            name = staging_name(table.name, uuid.uuid4().hex)
            fields = [*migrate.nullable(table.load_fields), {"name": ORDER, "type": "INTEGER"}]
            migrate.create_staging_table(bigquery, name, fields)
            self.write_dead_letters(ready)
            if large:
                upload = self.join(large)
                self.write_dead_letters(large)
                try:
                    load_job.run_until_done(bigquery, upload, name, fields)
                finally:
                    self.context.files.discard(upload)
            if rest := [p for p in ready if p.rows]:
                write_stream.commit(bigquery.writes, write_stream.fill(bigquery.writes, name, rest))
        finally:
            self.discard(parts)
        loaded: list[PreparedRows | PreparedItem] = [*ready, *large]
        upload = _uploaded(loaded)
        return Staged(name, upload, self.bounds([p.item for p in loaded], upload.rows))


STREAMED: dict[str, type[StreamedAppend] | type[StreamedUpsert]] = {APPEND: StreamedAppend, UPSERT: StreamedUpsert}


def _sorted(parts: Sequence[Any]) -> tuple[list[PreparedRows], list[PreparedItem]]:
    """Split uploads into those that are sent and those that need a load job; leave out empty ones."""
    live = [p for p in parts if p.rows or p.rejects]
    return [p for p in live if isinstance(p, PreparedRows)], [p for p in live if isinstance(p, PreparedItem)]


def _uploaded(parts: Sequence[PreparedRows | PreparedItem]) -> Upload:
    """Return the rows and bytes that load methods count."""
    kind = _ROWS if any(isinstance(p, PreparedRows) for p in parts) else ""
    count = sum(p.rows if isinstance(p, PreparedRows) else p.kept for p in parts)
    return Upload(None, kind, count, sum(p.bytes for p in parts), is_temporary=False)
