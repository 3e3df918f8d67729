"""append-only: each group is one load job into the table; the ledger keeps batches from being loaded twice."""

from __future__ import annotations

import time
from collections.abc import Sequence

from singer_arrow.singer.retries import pauses
from target_bigquery import connection
from target_bigquery.load import load_job
from target_bigquery.load.files import Item, Part
from target_bigquery.load.lane import Lane, logger


class AppendOnly(Lane):
    """See the module."""

    def prepare(self, item: Item) -> Part:
        """Make an item ready, unless its batch was loaded before."""
        if item.batch_id and not self.way.replay_loads and (when := self.way.ledger.loaded(item.batch_id)):
            self._skip(item.batch_id, f"at {when:%Y-%m-%d %H:%M:%S} UTC")
            return Part(item, skipped=True)
        return super().prepare(item)

    def stage(self, parts: Sequence[Part]) -> None:
        """Load a group."""
        try:
            self._load([p for p in parts if p.rows])
        finally:
            self.way.files.discard(*parts)

    def _load(self, parts: list[Part]) -> None:
        if not parts:
            return
        upload = self.join(parts)
        try:
            for pause in pauses(connection.DEADLINE_SECONDS):
                job_id, theirs = self.way.ledger.begin({p.item.batch_id: p.rows for p in parts if p.item.batch_id})
                if theirs:
                    for batch_id in theirs:
                        self._skip(batch_id, "just now by another run")
                    self._load([p for p in parts if p.item.batch_id not in theirs])
                    return
                table = self.way.destination
                if load_job.run(self.way.client, upload, table.name, table.load_fields, job_id):
                    self.count(upload)
                    return
                if pause is not None:
                    time.sleep(pause)
        finally:
            self.way.files.discard(upload)
        raise load_job.too_busy(self.way.client, self.way.destination.name)

    def _skip(self, batch_id: str, when: str) -> None:
        self.way.tally.add(skipped=1)
        logger.info(
            "Stream %r: batch %s was loaded %s and is left out; to load it again set replay: load, or empty the table",
            self.way.stream,
            batch_id,
            when,
        )
