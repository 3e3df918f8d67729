"""Replaces a table at the end of a run by a staging table."""

from __future__ import annotations

import threading
import uuid
from datetime import datetime

from singer_arrow.load.dead_letters import HeldBack
from singer_arrow.naming import staging_name
from target_bigquery import sql
from target_bigquery.connection.client import BigQuery
from target_bigquery.connection.connection import logger
from target_bigquery.connection.resources import Table
from target_bigquery.tables import migrate
from target_bigquery.tables.migrate import Destination

KEPT = ("description", "friendly_name", "labels", "expires", "require_partition_filter")
"""Properties that are restored after a copy: BigQuery does not document whether a copy keeps them."""


class OverwriteStaging:
    """The staging table that replaces a stream's table; it lasts for the run, across changes of SCHEMA.

    It is created by the first load, or by an ACTIVATE_VERSION; a stream that brings neither leaves its table alone.
    """

    def __init__(self, client: BigQuery) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._name: str | None = None
        self.rejected = HeldBack()  # the rows that are not loaded, of the loads into it

    def staging(self, destination: Destination) -> str:
        """Return the staging table, with the columns that the table has now."""
        with self._lock:
            if self._name is None:
                migrate.remove_leftovers(self._client, destination.name)
                self._name = staging_name(destination.name, uuid.uuid4().hex)
                migrate.create_staging_table(self._client, self._name, destination.table.fields, like=destination.table)
            elif (table := self._client.table(self._name)) and table.columns != destination.table.columns:
                migrate.follow(self._client, table, destination.table)
            return self._name

    def replace(self, destination: Destination) -> datetime | None:
        """Put the staging table in the place of the table, and return when; None if there is nothing to put."""
        with self._lock:
            if self._name is None:
                return None
            client, table = self._client, self._client.table(destination.name) or destination.table
            if self._must_stay(table):  # its rows are replaced; BigQuery bills what the staging table holds
                staging = client.table(self._name)
                assert staging
                names = [c.name for c in staging.columns]
                text = sql.replace_rows(client.quoted(table.name), client.quoted(staging.name), names)
                when = client.query(text, what=f"Replacing the rows of table {client.path(table.name)}").started
            else:  # a copy of the staging table takes its place, which costs nothing
                client.copy_properties(self._name, table, ("expires",))  # an abandoned copy expires like the table
                when = client.copy(self._name, table.name, what=f"Replacing table {client.path(table.name)}").created
                client.copy_properties(table.name, table, KEPT)
            client.delete_table(self._name)
            self._name = None
            return when

    def _must_stay(self, table: Table) -> bool:
        """Return whether the table has something that a copy would remove: row access policies, or declared keys."""
        has_policies = self._client.has_row_policies(table.name)
        if has_policies is None:
            logger.info(
                "Table %s: its row access policies may not be listed, and a copy would remove them, so its rows are "
                "replaced by a query, which bills them once; grant bigquery.rowAccessPolicies.list to spare that",
                self._client.path(table.name),
            )
            return True
        return has_policies or bool(table.resource.table_constraints)
