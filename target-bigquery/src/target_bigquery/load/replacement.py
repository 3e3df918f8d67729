"""What replaces a table at the end of a run."""

from __future__ import annotations

import threading
import uuid
from datetime import datetime

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
