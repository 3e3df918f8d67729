"""overwrite: the whole run goes into a staging table, which replaces the table at once at the end of the run."""

from __future__ import annotations

from collections.abc import Sequence

from singer_arrow.singer.names import digest
from target_bigquery.load import load_job
from target_bigquery.load.files import Part
from target_bigquery.load.lane import Lane


class Overwrite(Lane):
    """See the module."""

    deferred = True

    def stage(self, parts: Sequence[Part]) -> None:
        """Load a group into the staging table."""
        live = [p for p in parts if p.rows]
        if not live:
            return
        upload = self.join(live)
        try:
            name = self.way.replacement.staging(self.way.destination)
            fields = self.way.destination.load_fields
            load_job.run_until_done(self.way.client, upload, name, fields, f"target_bigquery_{digest(name, 16)}_")
            self.count(upload)
        finally:
            self.way.files.discard(upload, *parts)

    def will_replace(self) -> None:
        """See the base."""
        self.way.replacement.staging(self.way.destination)

    def finish(self) -> None:
        """Replace the table; batches that were appended to its former rows count no more."""
        if when := self.way.replacement.replace(self.way.destination):
            self.way.ledger.void(when)
