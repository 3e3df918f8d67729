"""append-only: each group is one load job into the table; the ledger keeps batches from being loaded twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from singer_arrow.load.backoff import Waiting, pauses
from target_bigquery.connection import connection
from target_bigquery.connection.connection import logger
from target_bigquery.load import load_job
from target_bigquery.load.base import BigQueryLoadMethod
from target_bigquery.load.uploads import PreparedItem


class AppendOnly(BigQueryLoadMethod):
    keeps_ledger = True

    def void_if_emptied(self) -> None:
        self.context.ledger.void_if_emptied()

    def expect(self, batch_id: str) -> None:
        self.context.ledger.expect(batch_id)

    def loaded(self, batch_id: str) -> datetime | None:
        return self.context.ledger.loaded(batch_id)

    def loaded_of(self, batch_ids: Sequence[str]) -> dict[str, datetime]:
        return self.context.ledger.loaded_of(batch_ids)

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        """Load a group."""
        self.load_each(parts, self._load)

    def _load(self, parts: Sequence[PreparedItem]) -> None:
        if not parts:
            return
        upload, waiting = self.join(parts), Waiting(logger)
        try:
            self.write_dead_letters(parts)  # before the load job: a replay that finds that done looks no further
            if not upload.rows and not any(p.item.batch_id for p in parts):
                return
            if not upload.rows and upload.path is None:  # the ledger needs a job
                schema = parts[0].item.conversion.upload_schema
                upload = self.context.files.write([], schema, self.context.upload_format)
            for pause in pauses(connection.DEADLINE_SECONDS):
                batches = {p.item.batch_id: p.kept for p in parts if p.item.batch_id}
                job_id, theirs = self.context.ledger.begin(batches, self.entries_of_logs(p.item for p in parts))
                if theirs:
                    for batch_id in theirs:
                        self.skip(batch_id, "just now by another run")
                    self._load([p for p in parts if p.item.batch_id not in theirs])
                    return
                table, client = self.context.destination, self.context.client
                client.load_quota.add(client.path(table.name))
                try:
                    load_job.run(client, upload, table.name, table.load_fields, job_id)
                except load_job.BusyError as error:
                    if pause is None:
                        raise load_job.too_busy(error) from None
                    waiting.before_again(pause, error)
                else:
                    self.count(upload)
                    return
            raise AssertionError
        finally:
            self.context.files.discard(upload)
