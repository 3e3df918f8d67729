"""overwrite: the whole run goes into a staging table, which replaces the table at once at the end of the run."""

from __future__ import annotations

from collections.abc import Sequence

from target_bigquery.load import load_job
from target_bigquery.load.base import BigQueryLoadMethod, pending_of
from target_bigquery.load.uploads import PreparedItem


class Overwrite(BigQueryLoadMethod):
    deferred = True

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        """Load a group into the staging table."""
        self.load_each(parts, self._load)

    def _load(self, parts: Sequence[PreparedItem]) -> None:
        upload = self.join(parts)
        try:
            if upload.rows:
                name = self.context.overwrite_staging.staging(self.context.destination)
                fields = self.context.destination.load_fields
                load_job.run_until_done(self.context.client, upload, name, fields)
                self.count(upload)
            self.context.overwrite_staging.rejected.add(pending_of(parts), self.context.most_rejected)
        finally:
            self.context.files.discard(upload)

    def replace_table(self) -> None:
        self.context.overwrite_staging.staging(self.context.destination)

    def finish(self) -> None:
        """Replace the table; batches that were appended to its former rows count no more."""
        if when := self.context.overwrite_staging.replace(self.context.destination):
            self.context.ledger.void(when)
        if rejected := self.context.overwrite_staging.rejected.take():
            self.context.dead_letter_table.write(self.context.stream, rejected)
            self.dead_letters_written((), rejected)
