"""What replaces a table at the end of a run."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from datetime import datetime

from singer_arrow.batch.rejects import OfBatch, too_many
from target_bigquery import migrate
from target_bigquery.client import BigQuery
from target_bigquery.migrate import Destination


class Replacement:
    """What will replace a stream's table: a staging table that lasts for the run, whatever SCHEMA says meanwhile.

    It is created by the first load, or by an ACTIVATE_VERSION; a stream that brings neither leaves its table alone.
    """

    def __init__(self, client: BigQuery) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._name: str | None = None
        self._rejected: list[OfBatch] = []

    def keep(self, rejected: Sequence[OfBatch], most: int | None) -> None:
        """Keep rows that are not loaded until the others are.

        Raises:
            TooManyRejectedError: There are more than may be.
        """
        with self._lock:
            self._rejected += rejected
            rows = [row for batch in self._rejected for row in batch.rows]
            if most is not None and len(rows) > most:
                raise too_many(most, rows[0])

    def rejected(self) -> list[OfBatch]:
        """The rows that were kept; they are given away."""
        with self._lock:
            rejected, self._rejected = self._rejected, []
            return rejected

    def staging(self, destination: Destination) -> str:
        """The staging table, with the columns that the table has now."""
        with self._lock:
            if self._name is None:
                migrate.remove_leftovers(self._client, destination.name)
                self._name = migrate.staging_name(destination.name, uuid.uuid4().hex)
                migrate.create_staging(self._client, self._name, destination.table.fields, like=destination.table)
            elif (table := self._client.table(self._name)) and table.columns != destination.table.columns:
                migrate.follow(self._client, table, destination.table)
            return self._name

    def replace(self, destination: Destination) -> datetime | None:
        """Put the staging table in the place of the table.

        Returns:
            When; None if there is nothing to put.
        """
        with self._lock:
            if self._name is None:
                return None
            what = f"Replacing table {self._client.path(destination.name)}"
            job = self._client.copy(self._name, destination.name, what=what)
            if destination.table.resource.expires is None:
                self._client.keep_for_good(destination.name)
            self._client.delete_table(self._name)
            self._name = None
            return job.created
