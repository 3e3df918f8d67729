"""overwrite: the whole run goes into a staging table, which replaces the table at once at the end of the run."""

from __future__ import annotations

from collections.abc import Sequence

from target_bigquery.load import load_job
from target_bigquery.load.base import Lane, pending_of
from target_bigquery.load.uploads import Part


class Overwrite(Lane):
    """See the module."""

    deferred = True

    def stage(self, parts: Sequence[Part]) -> None:
        """Load a group into the staging table."""
        self.load_each(parts, self._load)

    def _load(self, parts: Sequence[Part]) -> None:
        upload = self.join(parts)
        try:
            if upload.rows:
                name = self.way.replacement.staging(self.way.destination)
                fields = self.way.destination.load_fields
                load_job.run_until_done(self.way.client, upload, name, fields)
                self.count(upload)
            self.way.replacement.rejected.add(pending_of(parts), self.way.most_rejected)
        finally:
            self.way.files.discard(upload)

    def will_replace(self) -> None:
        """See the base."""
        self.way.replacement.staging(self.way.destination)

    def finish(self) -> None:
        """Replace the table; batches that were appended to its former rows count no more."""
        if when := self.way.replacement.replace(self.way.destination):
            self.way.ledger.void(when)
        if rejected := self.way.replacement.rejected.take():
            self.way.rejections.write(self.way.stream, rejected)
            self.was_put_aside((), rejected)
