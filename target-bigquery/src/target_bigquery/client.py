"""Client of one BigQuery dataset: its tables, and the jobs on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from typing import Any

from singer_arrow.errors import CredentialsError, LoadError, NotFoundError
from target_bigquery import resources
from target_bigquery.connection import ONCE, REQUEST_SECONDS
from target_bigquery.jobs import Fields, Jobs
from target_bigquery.resources import AlreadyExistsError, ChangedError, Table
from target_bigquery.storage_write.client import WriteApi

_TRIES = 5
"""Attempts at a change that conflicts with concurrent ones."""


class BigQuery(Jobs):
    """One project and dataset; safe to use from any thread, and opened on first use."""

    @cached_property
    def writes(self) -> WriteApi:
        """The Storage Write API."""
        return WriteApi(self)

    def close(self) -> None:
        if "writes" in self.__dict__:
            self.writes.close()
        super().close()

    @property
    def _dataset(self) -> str:
        return f"{self.settings.project}.{self.settings.dataset}"

    def dataset_location(self) -> str | None:
        """Return the location of the dataset; None if there is no dataset."""
        try:
            dataset = self.call(
                f"Reading dataset {self._dataset}", lambda: self.client.get_dataset(self._dataset, **ONCE)
            )
        except NotFoundError:
            return None
        return str(dataset.location)

    def create_dataset(self) -> None:
        """Create the dataset, in the location that is set; a concurrent creation is no error."""
        from google.cloud import bigquery

        dataset = bigquery.Dataset(self._dataset)
        if self.settings.location:
            dataset.location = self.settings.location
        if self.settings.labels:
            dataset.labels = dict(self.settings.labels)
        if self.settings.kms_key:
            dataset.default_encryption_configuration = bigquery.EncryptionConfiguration(self.settings.kms_key)
        with suppress(AlreadyExistsError):
            self.call(f"Creating dataset {self._dataset}", lambda: self.client.create_dataset(dataset, **ONCE))

    def table(self, name: str) -> Table | None:
        """Return a table; None if it does not exist."""
        try:
            found = self.call(
                f"Reading table {self.path(name)}", lambda: self.client.get_table(self.path(name), **ONCE)
            )
        except NotFoundError:
            return None
        return resources.table(name, found)

    def create_table(
        self,
        name: str,
        fields: Fields,
        *,
        partition: tuple[str, str] | None = None,
        cluster: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        description: str | None = None,
        expires: datetime | None = None,
        like: Table | None = None,
    ) -> Table:
        """Create a table, or raise AlreadyExistsError.

        `fields` are as the API writes them, `partition` is a column and a unit, `labels` come on top of those that are
        set; of `like` it gets partitioning, clustering, labels and description.
        """
        from google.cloud import bigquery

        made = bigquery.Table(self.path(name), schema=[bigquery.SchemaField.from_api_repr(dict(f)) for f in fields])
        made.labels = {**self.settings.labels, **(labels or {})}
        made.description = description
        made.expires = expires
        if partition:
            made.time_partitioning = bigquery.TimePartitioning(type_=partition[1], field=partition[0])
        if cluster:
            made.clustering_fields = list(cluster)
        if like:
            for name_of in ("time_partitioning", "range_partitioning", "clustering_fields", "labels", "description"):
                if (value := getattr(like.resource, name_of)) is not None:
                    setattr(made, name_of, value)
        if self.settings.kms_key:
            made.encryption_configuration = bigquery.EncryptionConfiguration(self.settings.kms_key)
        where = f"Creating table {self.path(name)}"
        return resources.table(name, self.call(where, lambda: self.client.create_table(made, **ONCE)))

    def set_fields(self, table: Table, fields: Fields, *, description: str | None = None) -> Table:
        """Set the columns, and optionally the description, of a table; raise ChangedError if it has changed since."""
        from google.cloud import bigquery

        changed, what = table.resource, ["schema"]
        changed.schema = [bigquery.SchemaField.from_api_repr(dict(f)) for f in fields]
        if description is not None:
            changed.description = description
            what.append("description")
        where = f"Changing the columns of table {self.path(table.name)}"
        return resources.table(table.name, self.call(where, lambda: self.client.update_table(changed, what, **ONCE)))

    def grant(self, name: str, grants: Mapping[str, Sequence[str]]) -> None:
        """Grant roles on a table to members that lack them; existing grants remain."""
        path = self.path(name)

        def change() -> None:
            policy = self.client.get_iam_policy(path, **ONCE)
            have = {(b["role"], m) for b in policy.bindings if not b.get("condition") for m in b.get("members", ())}
            lacking = {role: {m for m in members if (role, m) not in have} for role, members in grants.items()}
            new = [{"role": role, "members": members} for role, members in lacking.items() if members]
            if not new:
                return
            policy.bindings = [*policy.bindings, *new]
            self.client.set_iam_policy(path, policy, **ONCE)  # with the policy's etag: no concurrent change is lost

        what = f"Granting roles on table {path}"
        for _ in range(_TRIES):
            try:
                self.call(what, change)
            except (AlreadyExistsError, ChangedError):
                continue
            return
        msg = f"{what}: others change its policy all the time; grant them by hand"
        raise LoadError(msg)

    def copy_properties(self, name: str, like: Table, facts: Sequence[str]) -> None:
        """Copy properties of another table, or restore those that the table had before.

        `facts` are their names in Google's library: `description`, `expires`, ...
        """
        where = f"Changing table {self.path(name)}"
        target = {fact: getattr(like.resource, fact) for fact in facts}
        for _ in range(_TRIES):
            found = self.call(where, lambda: self.client.get_table(self.path(name), **ONCE))
            differ = [fact for fact in facts if (getattr(found, fact) or None) != (target[fact] or None)]
            if not differ:
                return
            for fact in differ:
                value = target[fact]
                if fact == "labels":  # an update leaves those that it does not name
                    value = dict.fromkeys(found.labels) | value
                setattr(found, fact, value)
            try:
                self.call(where, partial(self.client.update_table, found, differ, **ONCE))
            except ChangedError:
                continue
            return
        msg = f"{where}: others change it all the time; run again when they are done"
        raise LoadError(msg)

    def has_row_policies(self, name: str) -> bool | None:
        """Return whether a table has row access policies; None if the credentials may not list them."""
        dataset = f"/projects/{self.settings.project}/datasets/{self.settings.dataset}"
        path = f"{dataset}/tables/{name}/rowAccessPolicies"

        def asked() -> Any:
            api = self.client._connection  # Google's library has nothing of its own for it
            return api.api_request(method="GET", path=path, query_params={"pageSize": 1}, timeout=REQUEST_SECONDS)

        try:
            found = self.call(f"Listing the row access policies of table {self.path(name)}", asked)
        except CredentialsError:
            return None
        except NotFoundError:
            return False
        return bool(found.get("rowAccessPolicies"))

    def delete_table(self, name: str) -> None:
        """Delete a table, if it exists."""
        path = self.path(name)
        self.call(f"Deleting table {path}", lambda: self.client.delete_table(path, not_found_ok=True, **ONCE))

    def tables_named(self, prefix: str) -> list[str]:
        """Return the names of the tables that begin with the prefix."""
        what = f"Listing tables of {self._dataset}"
        found = self.call(what, lambda: [t.table_id for t in self.client.list_tables(self._dataset, **ONCE)])
        return [name for name in found if name.startswith(prefix)]
