"""BigQuery as the target needs it: datasets, tables and jobs, each call tried again by what its error says.

Jobs are inserted under an id of ours, so that a second try of an insertion whose answer was lost finds the first.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from singer_arrow.errors import LoadError, NotFoundError, ServiceError, SingerArrowError
from target_bigquery import answers, sql
from target_bigquery.answers import AlreadyExistsError, Answer, Job, Table
from target_bigquery.config import Settings
from target_bigquery.connection import find_credentials, open_client
from target_bigquery.retries import Kind, pauses

T = TypeVar("T")
Fields = Sequence[Mapping[str, Any]]
DEADLINE_SECONDS = 300.0
REQUEST_SECONDS = 120.0
UPLOAD_SECONDS = 600.0
_POLL_MOST = 2.0
_FORMATS = {"parquet": "PARQUET", "avro": "AVRO", "jsonl": "NEWLINE_DELIMITED_JSON"}
_ONCE: dict[str, Any] = {"retry": None, "timeout": REQUEST_SECONDS}  # tries are ours, not the library's


class BigQuery:
    """One project and dataset; safe to use from any thread, and opened on first use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.location = settings.location
        self._threads = threading.local()
        self._clients: list[Any] = []
        self._lock = threading.Lock()

    @cached_property
    def _credentials(self) -> Any:
        return find_credentials(self.settings)

    @property
    def _client(self) -> Any:
        client = getattr(self._threads, "client", None)
        if client is None:
            with self._lock:
                client = open_client(self.settings, self._credentials)
                self._clients.append(client)
            self._threads.client = client
        return client

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for client in self._clients:
                client.close()
            self._clients.clear()

    def path(self, table: str) -> str:
        """`project.dataset.table`."""
        return f"{self.settings.project}.{self.settings.dataset}.{table}"

    def quoted(self, table: str) -> str:
        """The table's name for SQL."""
        return sql.quoted(self.settings.project, self.settings.dataset, table)

    # Datasets and tables

    def dataset_location(self) -> str | None:
        """Where the dataset is; None if there is no dataset."""
        where = f"dataset {self.settings.project}.{self.settings.dataset}"
        try:
            dataset = self._call(f"Reading {where}", lambda: self._client.get_dataset(self._dataset, **_ONCE))
        except NotFoundError:
            return None
        return str(dataset.location)

    def create_dataset(self) -> None:
        """Create the dataset, in the location that is set; nothing happens if somebody else just did."""
        from google.cloud import bigquery

        dataset = bigquery.Dataset(self._dataset)
        if self.settings.location:
            dataset.location = self.settings.location
        if self.settings.labels:
            dataset.labels = dict(self.settings.labels)
        if self.settings.kms_key:
            dataset.default_encryption_configuration = bigquery.EncryptionConfiguration(self.settings.kms_key)
        try:
            self._call(f"Creating dataset {self._dataset}", lambda: self._client.create_dataset(dataset, **_ONCE))
        except AlreadyExistsError:
            return

    def table(self, name: str) -> Table | None:
        """A table; None if there is none."""
        try:
            found = self._call(
                f"Reading table {self.path(name)}", lambda: self._client.get_table(self.path(name), **_ONCE)
            )
        except NotFoundError:
            return None
        return answers.table(name, found)

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
        """Create a table.

        Args:
            name: Its name.
            fields: Its columns, as the API writes them.
            partition: Column and unit.
            cluster: Columns.
            labels: On top of those that are set.
            description: What it is for.
            expires: When BigQuery removes it.
            like: A table whose partitioning, clustering, labels and description it gets.

        Raises:
            AlreadyExistsError: There is one.
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
        return answers.table(name, self._call(where, lambda: self._client.create_table(made, **_ONCE)))

    def set_fields(self, table: Table, fields: Fields) -> Table:
        """Give a table other columns, if nobody changed it since it was read.

        Raises:
            ChangedError: Somebody did.
        """
        from google.cloud import bigquery

        changed = table.resource
        changed.schema = [bigquery.SchemaField.from_api_repr(dict(f)) for f in fields]
        where = f"Adding columns to table {self.path(table.name)}"
        return answers.table(
            table.name, self._call(where, lambda: self._client.update_table(changed, ["schema"], **_ONCE))
        )

    def keep_for_good(self, name: str) -> None:
        """Take a table's expiration away, if it has one."""
        where = f"Keeping table {self.path(name)}"
        found = self._call(where, lambda: self._client.get_table(self.path(name), **_ONCE))
        if found.expires is not None:
            found.expires = None
            self._call(where, lambda: self._client.update_table(found, ["expires"], **_ONCE))

    def delete_table(self, name: str) -> None:
        """Remove a table; nothing happens if there is none."""
        self._call(
            f"Deleting table {self.path(name)}",
            lambda: self._client.delete_table(self.path(name), not_found_ok=True, **_ONCE),
        )

    def tables_named(self, prefix: str) -> list[str]:
        """Names of the tables that begin with the prefix."""
        found = self._call(
            f"Listing tables of {self._dataset}",
            lambda: [t.table_id for t in self._client.list_tables(self._dataset, **_ONCE)],
        )
        return [name for name in found if name.startswith(prefix)]

    # Jobs

    def query(self, text: str, parameters: Mapping[str, Any] | None = None, *, what: str) -> Answer:
        """Run a query to its end, once.

        Args:
            text: From `sql`.
            parameters: Values by name.
            what: What it is for, for an error's message.
        """
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(
            query_parameters=[answers.parameter(name, value) for name, value in (parameters or {}).items()],
            labels=dict(self.settings.labels),
            use_legacy_sql=False,
        )
        if self.settings.bytes_billed_limit:
            config.maximum_bytes_billed = self.settings.bytes_billed_limit
        for pause in pauses(DEADLINE_SECONDS):
            job_id = f"target_bigquery_{uuid.uuid4().hex}"
            self._insert(
                what,
                job_id,
                lambda job_id=job_id: self._client.query(  # type: ignore[misc]
                    text, job_config=config, job_id=job_id, location=self.location, job_retry=None, **_ONCE
                ),
            )
            job = self.wait(job_id, what)
            if job.error is None:
                return self._answer(job_id, what)
            if job.error_kind is not Kind.RETRY or pause is None:
                raise answers.failed(what, job)
            time.sleep(pause)
        raise AssertionError

    def _answer(self, job_id: str, what: str) -> Answer:
        def read() -> Answer:
            job = self._client.get_job(job_id, location=self.location, **_ONCE)
            rows: list[Mapping[str, Any]] = [
                dict(row.items()) for row in job.result(retry=None, job_retry=None, timeout=REQUEST_SECONDS)
            ]
            return Answer(rows, job.started or job.created, job.num_dml_affected_rows or 0)

        return self._call(what, read)

    def insert_load(self, path: Path, table: str, *, file_format: str, fields: Fields, job_id: str) -> None:
        """Upload a file and insert the job that appends it to a table.

        Args:
            path: The file.
            table: The table.
            file_format: `parquet`, `avro` or `jsonl`.
            fields: The table's columns that the file has, as the API writes them.
            job_id: The job's id; if there is a job of that id already, nothing happens.
        """
        from google.cloud import bigquery

        config = bigquery.LoadJobConfig(
            source_format=_FORMATS[file_format],
            write_disposition="WRITE_APPEND",
            create_disposition="CREATE_NEVER",
            schema=[bigquery.SchemaField.from_api_repr(dict(f)) for f in fields],
            labels=dict(self.settings.labels),
        )
        if file_format in ("avro", "parquet"):
            config.decimal_target_types = ["NUMERIC", "BIGNUMERIC"]  # the first that holds a decimal's digits
        if file_format == "avro":
            config.use_avro_logical_types = True
        if file_format == "parquet":
            options = bigquery.ParquetOptions()  # type: ignore[no-untyped-call]  # the library lacks it
            options.enable_list_inference = True
            config.parquet_options = options
        if self.settings.kms_key:
            config.destination_encryption_configuration = bigquery.EncryptionConfiguration(self.settings.kms_key)

        def insert() -> object:
            with path.open("rb") as file:
                return self._client.load_table_from_file(
                    file,
                    self.path(table),
                    size=path.stat().st_size,
                    num_retries=0,
                    job_id=job_id,
                    location=self.location,
                    job_config=config,
                    timeout=UPLOAD_SECONDS,
                )

        self._insert(f"Loading into table {self.path(table)}", job_id, insert)

    def occupy(self, job_id: str) -> Job | None:
        """Take a job id with a job that does nothing, so that nobody else can.

        Returns:
            None if the id is taken now; else the job that has it.
        """
        what = f"Taking job id {job_id}"
        try:
            self._call(
                what,
                lambda: self._client.query(sql.NOTHING, job_id=job_id, location=self.location, job_retry=None, **_ONCE),
            )
        except AlreadyExistsError:
            return self.job(job_id, patient=True)
        return None

    def copy(self, source: str, target: str, *, what: str) -> Job:
        """Replace a table by a copy of another, at once and whole; the job that did."""
        from google.cloud import bigquery

        config = bigquery.CopyJobConfig(write_disposition="WRITE_TRUNCATE", labels=dict(self.settings.labels))
        if self.settings.kms_key:
            config.destination_encryption_configuration = bigquery.EncryptionConfiguration(self.settings.kms_key)
        for pause in pauses(DEADLINE_SECONDS):
            job_id = f"target_bigquery_{uuid.uuid4().hex}"
            self._insert(
                what,
                job_id,
                lambda job_id=job_id: self._client.copy_table(  # type: ignore[misc]
                    self.path(source),
                    self.path(target),
                    job_id=job_id,
                    location=self.location,
                    job_config=config,
                    **_ONCE,
                ),
            )
            job = self.wait(job_id, what)
            if job.error is None:
                return job
            if job.error_kind is not Kind.RETRY or pause is None:
                raise answers.failed(what, job)
            time.sleep(pause)
        raise AssertionError

    def job(self, job_id: str, *, patient: bool = False) -> Job | None:
        """A job; None if there is none.

        Args:
            job_id: Its id.
            patient: It is known to exist, so wait a little where BigQuery does not know it yet.
        """
        what = f"Reading job {job_id}"
        for pause in pauses(30.0 if patient else 0.0):
            try:
                return answers.job(
                    self._call(what, lambda: self._client.get_job(job_id, location=self.location, **_ONCE))
                )
            except NotFoundError:
                if pause is None:
                    return None
                time.sleep(pause)
        return None

    def wait(self, job_id: str, what: str) -> Job:
        """A job that exists, once it is done.

        Raises:
            LoadError: It does not exist.
        """
        pause = 0.1
        while True:
            job = self.job(job_id, patient=True)
            if job is None:
                msg = f"{what}: BigQuery has lost the job {job_id}; run again"
                raise LoadError(msg)
            if job.is_done:
                return job
            time.sleep(pause)
            pause = min(_POLL_MOST, pause * 1.5)

    def _insert(self, what: str, job_id: str, insert: Callable[[], object]) -> None:
        """Insert a job under an id of ours; if there is one already, an earlier try of ours has made it."""
        try:
            self._call(f"{what} (job {job_id})", insert)
        except AlreadyExistsError:
            return

    @property
    def _dataset(self) -> str:
        return f"{self.settings.project}.{self.settings.dataset}"

    def _call(self, what: str, function: Callable[[], T]) -> T:
        """Call Google's library: errors become ours, transient ones are met with another try."""
        for pause in pauses(DEADLINE_SECONDS):
            try:
                return function()
            except SingerArrowError:
                raise
            except Exception as error:  # noqa: BLE001 - all of the vendor's errors pass this boundary
                ours = answers.mapped(error, what)
                if not isinstance(ours, ServiceError) or pause is None:
                    raise ours from None
                time.sleep(pause)
        raise AssertionError
