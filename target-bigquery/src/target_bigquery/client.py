"""Client of one BigQuery dataset: its tables, its jobs, each exactly once, and the daily quota of load jobs."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from singer_arrow.errors import CredentialsError, LoadError, NotFoundError, SingerArrowError
from singer_arrow.runtime.threads import Waiting, pauses
from target_bigquery import connection, resources, sql
from target_bigquery.connection import ONCE, REQUEST_SECONDS, Connection, logger
from target_bigquery.resources import AlreadyExistsError, ChangedError, ErrorKind, Job, QueryResult, Table
from target_bigquery.settings import Settings
from target_bigquery.storage_write.client import WriteApi

Fields = Sequence[Mapping[str, Any]]
"""Columns as the API writes them."""
UPLOAD_SECONDS = 600.0
ESTIMATE_SECONDS = 5.0
_POLL_FIRST, _POLL_MOST = 0.1, 2.0
KNOWN_AFTER_SECONDS = 30.0
"""How long BigQuery may need to know a job that it has taken."""
_FORMATS = {"parquet": "PARQUET", "avro": "AVRO", "jsonl": "NEWLINE_DELIMITED_JSON"}
_TRIES = 5  # attempts at a change that conflicts with concurrent ones

# Counts the load jobs per table and day; BigQuery allows 1,500, including failed ones and copies.
#
# The project's list of jobs includes those of earlier runs and other programs. It is read once per run, in a thread
# beside the first loads, and the jobs of this run are added. The counter warns and never refuses a load, because
# BigQuery does not document when its own count is reset.

DAILY_LOADS = 1500
"""Load and copy jobs a table and day (https://cloud.google.com/bigquery/quotas#load_jobs)."""
WARN_SHARE = 0.8
DAY = timedelta(days=1)
MOST_LISTED = 10_000
"""Most jobs that are read from the list, newest first; the count is too low if there are more."""
LIST_SECONDS = 5.0
"""Longest time to wait for the list of jobs."""
NAME = "target-bigquery-budget"


class LoadJobQuota:
    """Counts load jobs by table (`project.dataset.table`); safe to use from any thread.

    `destinations` returns the tables of the load and copy jobs from one time to another, one for each job.
    """

    def __init__(self, destinations: Callable[[datetime, datetime], Iterable[str]]) -> None:
        self._destinations = destinations
        self._lock = threading.Lock()
        self._own: Counter[str] = Counter()
        self._others: Counter[str] = Counter()
        self._warned: set[str] = set()
        self._listing: threading.Thread | None = None

    def add(self, table: str) -> None:
        """Count a load job that is about to be inserted; warn once of each table that comes near the quota."""
        with self._lock:
            if self._listing is None:
                now = datetime.now(UTC)
                self._listing = threading.Thread(target=self._list, args=(now,), name=NAME, daemon=True)
                self._listing.start()
            self._own[table] += 1
        self._warn()

    def used(self, table: str) -> int:
        """Return the number of load jobs of a table within a day; waits for the list."""
        self.close()
        with self._lock:
            return self._own[table] + self._others[table]

    def close(self) -> None:
        """Wait until the list is read, or took too long."""
        if self._listing is not None:
            self._listing.join(LIST_SECONDS)

    def _list(self, until: datetime) -> None:
        try:
            listed = Counter(self._destinations(until - DAY, until))
        except SingerArrowError as error:
            logger.debug("The jobs of the last day could not be listed: %s", error)
            return
        with self._lock:
            self._others = listed
        self._warn()

    def _warn(self) -> None:
        with self._lock:
            used = {table: count + self._others[table] for table, count in self._own.items()}
            near = {t: n for t, n in used.items() if n >= WARN_SHARE * DAILY_LOADS and t not in self._warned}
            self._warned |= near.keys()
        for table, count in near.items():
            logger.warning("Table %s: %s", table, advice(count))


def advice(used: int) -> str:
    """Return the advice for a table with that many load jobs within a day."""
    return (
        f"{used:,} load jobs within 24 hours, of {DAILY_LOADS:,} that BigQuery allows a table and day; raise "
        "max_batch_age_seconds and max_batch_mb, or run less often"
    )


# Tables and jobs.


class BigQuery(Connection):
    """One project and dataset; safe to use from any thread, and opened on first use.

    Jobs are inserted under an id of ours, so that a second try of an insertion whose answer was lost finds the first.
    Behind `@` it has the job's project where that is not the data's, also in the ledger: whatever `job_project` a later
    run has, it looks for the job where it is, and an earlier version finds no such id anywhere, which is an error.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._project = settings.job_project or settings.project  # of new jobs
        self.load_quota = LoadJobQuota(self.destinations)
        self.bytes_billed = 0  # for the queries
        self._bill = threading.Lock()
        self._dataset = f"{settings.project}.{settings.dataset}"

    @cached_property
    def writes(self) -> WriteApi:
        return WriteApi(self)

    def close(self) -> None:
        if "writes" in self.__dict__:
            self.writes.close()
        self.load_quota.close()
        super().close()

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
        partition: tuple[str | None, str | tuple[int, int, int]] | None = None,
        expiration_days: float | None = None,
        require_partition_filter: bool = False,
        cluster: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        description: str | None = None,
        expires: datetime | None = None,
        like: Table | None = None,
    ) -> Table:
        """Create a table, or raise AlreadyExistsError.

        `fields` are as the API writes them, `partition` is a column (None: by the time of arrival)
        and a unit or, of whole numbers, first value, end and width; `labels` come on top of those that are
        set; of `like` it gets partitioning, clustering, labels and description.
        """
        from google.cloud import bigquery

        made = bigquery.Table(self.path(name), schema=[bigquery.SchemaField.from_api_repr(dict(f)) for f in fields])
        made.labels = {**self.settings.labels, **(labels or {})}
        made.description = description
        made.expires = expires
        if partition and isinstance(partition[1], str):
            kept = int(expiration_days * 86_400_000) if expiration_days else None
            made.time_partitioning = bigquery.TimePartitioning(partition[1], partition[0], expiration_ms=kept)
        elif partition:
            cells = bigquery.PartitionRange(*partition[1])
            made.range_partitioning = bigquery.RangePartitioning(range_=cells, field=partition[0])
        if partition and require_partition_filter:
            made.require_partition_filter = True
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
        raise LoadError(f"{what}: others change its policy all the time; grant them by hand")

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
        raise LoadError(f"{where}: others change it all the time; run again when they are done")

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
        path = self.path(name)
        self.call(f"Deleting table {path}", lambda: self.client.delete_table(path, not_found_ok=True, **ONCE))

    def tables_named(self, prefix: str) -> list[str]:
        what = f"Listing tables of {self._dataset}"
        found = self.call(what, lambda: [t.table_id for t in self.client.list_tables(self._dataset, **ONCE)])
        return [name for name in found if name.startswith(prefix)]

    # Jobs

    def new_job_id(self, prefix: str = "target_bigquery_") -> str:
        """Return a new id for a job of this run; it has no ":", with which the ledger's `COMMITTED` begins."""
        elsewhere = f"@{self._project.replace(':', '/')}" if self._project != self.settings.project else ""
        return f"{prefix}{uuid.uuid4().hex}{elsewhere}"

    def _reference(self, job_id: str) -> dict[str, Any]:
        """Return where a job is, as Google's library takes it: in the location of the dataset, whatever its project."""
        name, _, project = job_id.partition("@")
        project = project.replace("/", ":") or self.settings.project
        return {"job_id": name, "project": project, "location": self.location}

    def destinations(self, since: datetime, until: datetime) -> list[str]:
        """Return the tables (`project.dataset.table`) of load and copy jobs: all users', or else only one's own.

        It is asked for once, and older jobs are left out when that takes longer than `LIST_SECONDS`.
        """
        end = time.monotonic() + LIST_SECONDS

        def listed(*, all_users: bool) -> list[str]:
            jobs = self.client.list_jobs(
                project=self._project,
                min_creation_time=since,
                max_creation_time=until,
                max_results=MOST_LISTED,
                all_users=all_users,
                page_size=1000,
                retry=None,
                timeout=LIST_SECONDS,
            )
            in_time = itertools.takewhile(lambda _: time.monotonic() < end, jobs)
            return [table for job in in_time if (table := resources.destination(job))]

        try:
            return self.call_once("Listing jobs", partial(listed, all_users=True))
        except CredentialsError:  # it takes bigquery.jobs.listAll, which loading does not
            return self.call_once("Listing jobs", partial(listed, all_users=False))

    def query(
        self,
        text: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        what: str,
        new_id: Callable[[], str] | None = None,
    ) -> QueryResult:
        """Run a query of `sql` to its end; again, if BigQuery was too busy for it. `what` is for an error's message.

        `new_id` returns the id of its job, another one each time.
        """
        if (size := len(text.encode())) > sql.MOST_BYTES:
            raise LoadError(f"{what}: its query has {size:,} bytes, and BigQuery takes 1 MB; leave columns out")
        is_select = text.startswith("SELECT")
        config = self._query_config(parameters, has_result=is_select)
        job = self._run(
            what,
            lambda job_id: self.client.query(
                text, job_config=config, job_retry=None, **self._reference(job_id), **ONCE
            ),
            new_id,
        )
        with self._bill:
            self.bytes_billed += int(job.resource.total_bytes_billed or 0)
        affected = job.resource.num_dml_affected_rows

        def read() -> list[Mapping[str, Any]]:
            found = job.resource.result(retry=None, job_retry=None, timeout=REQUEST_SECONDS)
            return [dict(row.items()) for row in found]

        rows = self.call(what, read) if is_select else []
        return QueryResult(rows, job.started or job.created, affected or 0)

    def estimate(self, text: str, *, what: str) -> int:
        """Return how many bytes a query would process, by a dry run, which is free; one attempt."""
        config = self._query_config()
        config.dry_run = True
        job = self.call_once(
            what,
            lambda: self.client.query(
                text,
                job_config=config,
                project=self._project,
                location=self.location,
                job_retry=None,
                retry=None,
                timeout=ESTIMATE_SECONDS,
            ),
        )
        return int(job.total_bytes_processed or 0)

    def _query_config(self, parameters: Mapping[str, Any] | None = None, *, has_result: bool = False) -> Any:
        """Return the configuration that all query jobs share, free ones included.

        The key is for the table that BigQuery keeps a result in. A statement that changes a table writes with that
        table's own key, and would be refused with another one.
        """
        from google.cloud import bigquery

        kinds: dict[type, str] = {int: "INT64", datetime: "TIMESTAMP", str: "STRING"}
        given: list[Any] = [
            bigquery.ArrayQueryParameter(name, "STRING", value)
            if isinstance(value, list)
            else bigquery.ScalarQueryParameter(name, kinds[type(value)], value)
            for name, value in (parameters or {}).items()
        ]
        config = bigquery.QueryJobConfig(query_parameters=given, use_legacy_sql=False)
        if self.settings.bytes_billed_limit:
            config.maximum_bytes_billed = self.settings.bytes_billed_limit
        return self._completed(config, is_encrypted=has_result)

    def _completed(self, config: Any, *, is_encrypted: bool = True) -> Any:
        """Return a job configuration with the labels, the key and the reservation that are set."""
        from google.cloud import bigquery

        config.labels = dict(self.settings.labels)
        if is_encrypted and self.settings.kms_key:
            config.destination_encryption_configuration = bigquery.EncryptionConfiguration(self.settings.kms_key)
        if not self.settings.reservation:
            return config
        # not every version of the library knows reservations
        return type(config).from_api_repr({**config.to_api_repr(), "reservation": self.settings.reservation})

    def copy(self, source: str, target: str, *, what: str, new_id: Callable[[], str] | None = None) -> Job:
        """Replace a table by a copy of another, at once and whole; the job that did. `new_id` is as in `query`."""
        from google.cloud import bigquery

        config = self._completed(bigquery.CopyJobConfig(write_disposition="WRITE_TRUNCATE"))

        def insert(job_id: str) -> Any:
            where = self._reference(job_id)
            return self.client.copy_table(self.path(source), self.path(target), job_config=config, **where, **ONCE)

        return self._run(what, insert, new_id)

    def load(self, source: Path | Sequence[str], table: str, *, file_format: str, fields: Fields, job_id: str) -> Job:
        """Append a file, or files on Google Cloud Storage by their URIs, to a table; they have the columns `fields`.

        Return the job of that id when it is done; if the id was taken already, it may be somebody else's.
        """
        from google.cloud import bigquery

        config = bigquery.LoadJobConfig(
            source_format=_FORMATS[file_format],
            write_disposition="WRITE_APPEND",
            create_disposition="CREATE_NEVER",
            schema=[bigquery.SchemaField.from_api_repr(dict(f)) for f in fields],
        )
        if file_format in ("avro", "parquet"):
            config.decimal_target_types = ["NUMERIC", "BIGNUMERIC"]  # the first that holds a decimal's digits
        if file_format == "avro":
            config.use_avro_logical_types = True
        if file_format == "parquet":
            options = bigquery.ParquetOptions()  # type: ignore[no-untyped-call]  # the library lacks it
            options.enable_list_inference = True
            config.parquet_options = options
        completed = self._completed(config)

        def insert(job_id: str) -> Any:
            where = {"job_config": completed, **self._reference(job_id)}
            if not isinstance(source, Path):
                return self.client.load_table_from_uri(list(source), self.path(table), **where, **ONCE)
            size = source.stat().st_size
            with source.open("rb") as file:
                return self.client.load_table_from_file(
                    file, self.path(table), size=size, num_retries=0, timeout=UPLOAD_SECONDS, **where
                )

        return self._insert(f"Loading into table {self.path(table)}", insert, job_id)

    def claim(self, job_id: str, write_stream: str) -> bool:
        """Take a job id for a write stream, or return False if another process has it for something else.

        Any run that finds this claim must commit the stream.
        """
        job = self.occupy(job_id, sql.claim(write_stream))
        return job is None or job.claims == write_stream

    def occupy(self, job_id: str, text: str = sql.NOTHING) -> Job | None:
        """Take a job id with a job that costs nothing, so that no other has it; or return the job that has it."""

        def insert() -> Any:
            config = self._query_config(has_result=True)
            return self.client.query(text, job_config=config, job_retry=None, **self._reference(job_id), **ONCE)

        try:
            _asked_for(resources.job(self.call(f"Taking job id {job_id}", insert)), job_id)
        except AlreadyExistsError:
            job = self.job(job_id, patience=KNOWN_AFTER_SECONDS)
            if job is None:
                msg = f"The job id {job_id} is taken, but BigQuery does not show by which job; run again"
                raise LoadError(msg) from None
            return job
        return None

    def job(self, job_id: str, *, patience: float = 0.0) -> Job | None:
        """Return a job; None if it does not appear within `patience` seconds."""
        for pause in pauses(patience):
            try:
                found = self.call(
                    f"Reading job {job_id}", lambda: self.client.get_job(**self._reference(job_id), **ONCE)
                )
            except NotFoundError:
                if pause is None:
                    return None
                time.sleep(pause)
            else:
                return _asked_for(resources.job(found), job_id)
        return None

    def wait(self, job_id: str, what: str) -> Job:
        """Wait until an existing job is done, and return it."""
        pause = _POLL_FIRST
        while True:
            job = self.job(job_id, patience=KNOWN_AFTER_SECONDS)
            if job is None:
                raise LoadError(f"{what}: BigQuery has lost the job {job_id}; run again")
            if job.is_done:
                return job
            time.sleep(pause)
            pause = min(_POLL_MOST, pause * 1.5)

    def _run(self, what: str, insert: Callable[[str], Any], new_id: Callable[[], str] | None = None) -> Job:
        """Run an idempotent job under new ids until it succeeds or fails with a permanent error."""
        waiting = Waiting(logger)
        for pause in pauses(connection.DEADLINE_SECONDS):
            job = self._insert(what, insert, (new_id or self.new_job_id)())
            is_taken = new_id is not None and job.is_nothing
            if job.error is None and not is_taken:
                return job
            taken = LoadError(f"{what}: another run took the id of the job {job.id}; run again")
            failed = taken if is_taken else resources.failed(what, job)
            if pause is None or not (is_taken or job.error_kind is ErrorKind.RETRY):
                raise failed
            waiting.before_again(pause, failed)
        raise AssertionError

    def _insert(self, what: str, insert: Callable[[str], Any], job_id: str) -> Job:
        """Insert a job under an id, and wait for it; if the id is taken, an earlier try of ours has mostly done it."""
        try:
            job = _asked_for(resources.job(self.call(f"{what} (job {job_id})", lambda: insert(job_id))), job_id)
        except AlreadyExistsError:
            return self.wait(job_id, what)
        return job if job.is_done else self.wait(job_id, what)


def _asked_for(job: Job, job_id: str) -> Job:
    """Return the job if it has the id under which it was inserted, by which later runs know what is loaded."""
    if job.id != job_id.partition("@")[0]:
        raise LoadError(
            f"BigQuery was asked for job {job_id} and answers with job {job.id}, so it cannot be known what is loaded; "
            "set api_endpoint to a service that runs a job under the id that it is given, and empty what was loaded"
        )
    return replace(job, id=job_id)
