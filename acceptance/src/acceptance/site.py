"""The bucket, the warehouses and the names of one run, as the environment gives them; removes all it made."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from singer_arrow.errors import NotFoundError
from singer_arrow.sdk.settings import environment_settings
from singer_arrow.storage import aws
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.tap import TapS3Files
from target_bigquery import connection as bigquery
from target_bigquery import settings as bigquery_settings
from target_bigquery.target import TargetBigQuery
from target_redshift import connection as redshift
from target_redshift import settings as redshift_settings
from target_redshift.target import TargetRedshift

PREFIX = "acceptance_"
NEEDS = {
    "s3": ("ACCEPTANCE_BUCKET",),
    "bigquery": ("TARGET_BIGQUERY_PROJECT",),
    "redshift": ("TARGET_REDSHIFT_HOST", "TARGET_REDSHIFT_IAM", "TARGET_REDSHIFT_IAM_WORKGROUP"),
    "gcs": ("ACCEPTANCE_GCS_BUCKET",),
    "sqs": ("ACCEPTANCE_QUEUE_URL",),
    "kms": ("ACCEPTANCE_AWS_KMS_KEY",),
    "cloud kms": ("ACCEPTANCE_GCP_KMS_KEY",),
    "copy role": ("TARGET_REDSHIFT_COPY_ROLE_ARN",),
    "iam": ("TARGET_REDSHIFT_IAM", "TARGET_REDSHIFT_IAM_WORKGROUP", "TARGET_REDSHIFT_IAM_CLUSTER_IDENTIFIER"),
    "rights": (),
}
"""What a scenario may need, and the variables of which one must be set; `rights`: a service that checks rights."""
OF_LOCAL_CLOUD = {
    "ACCEPTANCE_BUCKET": "LOCAL_CLOUD_SOURCE_BUCKET",
    "ACCEPTANCE_GCS_BUCKET": "LOCAL_CLOUD_GCS_BUCKET",
    "ACCEPTANCE_QUEUE_URL": "LOCAL_CLOUD_SQS_QUEUE_URL",
}
LOCAL_KEYS = {
    "ACCEPTANCE_AWS_KMS_KEY": "alias/acceptance",
    "ACCEPTANCE_GCP_KMS_KEY": "projects/local/locations/us/keyRings/acceptance/cryptoKeys/acceptance",
}
# Settings of connectors for where a service is, and how to log in; others of the environment would change results.
_ACCESS = re.compile(
    r"TARGET_BIGQUERY_(PROJECT|JOB_PROJECT|LOCATION|CREDENTIALS|IMPERSONATE|API_ENDPOINT|STORAGE_WRITE_ENDPOINT|RESERVATION)"
    r"|TARGET_REDSHIFT_(HOST|PORT|DBNAME|USER|PASSWORD|IAM|SSL|QUERY_GROUP|AWS|COPY_ROLE_ARN|COPY_OPTIONS)"
    r"|TAP_S3_FILES_AWS"
)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the connectors: the given one, with names for what the local cloud has."""
    of_local = {name: given[local] for name, local in OF_LOCAL_CLOUD.items() if local in given}
    if of_local:
        of_local |= LOCAL_KEYS
    own = {n: v for n, v in given.items() if not n.startswith(("TARGET_", "TAP_")) or _ACCESS.match(n)}
    return of_local | own | {"LOG_LEVEL": "INFO"}


def missing(need: str) -> str:
    """Return why a need is not there, or nothing."""
    if need == "rights":
        return "the local cloud checks no rights" if "LOCAL_CLOUD_SOURCE_BUCKET" in os.environ else ""
    names = NEEDS[need]
    return "" if any(os.environ.get(name) for name in names) else f"{names[0]} is not set"


class StoppedError(Exception):
    """The run was interrupted."""


class BigQuery:
    """A dataset of BigQuery, by Google's client."""

    program = "target-bigquery"

    def __init__(self, schema: str) -> None:
        self.schema = schema
        given = environment_settings(TargetBigQuery) | {"dataset": schema}
        self._connection = bigquery.Connection(bigquery_settings.Settings.from_config(given))
        self.client: Any = self._connection.client
        self.project: str = given["project"]

    def create(self) -> None:
        """Create the dataset; its tables expire after a day, whatever becomes of this process."""
        from google.cloud.bigquery import Dataset

        dataset = Dataset(f"{self.project}.{self.schema}")
        if location := self._connection.settings.location:
            dataset.location = location
        dataset.default_table_expiration_ms = 24 * 3600 * 1000
        dataset.description = "Made by `python -m acceptance`; may be removed"
        self.client.create_dataset(dataset)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self._connection.client.query(text).result()]

    def quoted(self, table: str) -> str:
        return f"`{self.project}.{self.schema}.{table}`"

    def columns(self, table: str) -> dict[str, str]:
        """Return the columns of a table with their types."""
        found = self._connection.client.get_table(f"{self.project}.{self.schema}.{table}")
        return {field.name: field.field_type for field in found.schema}

    def tables(self) -> set[str]:
        return {table.table_id for table in self._connection.client.list_tables(f"{self.project}.{self.schema}")}

    def remove(self, schema: str) -> None:
        self.client.delete_dataset(f"{self.project}.{schema}", delete_contents=True, not_found_ok=True)

    def schemas(self) -> list[str]:
        return [d.dataset_id for d in self.client.list_datasets(self.project) if d.dataset_id.startswith(PREFIX)]

    def close(self) -> None:
        self._connection.close()


class Redshift:
    """A schema of Redshift, by Amazon's driver."""

    program = "target-redshift"

    def __init__(self, schema: str) -> None:
        self.schema = schema
        given = environment_settings(TargetRedshift)
        given |= {"default_target_schema": schema, "s3_stage": f"s3://{os.environ['ACCEPTANCE_BUCKET']}/{schema}/stage"}
        self._connection = redshift.Connection(redshift_settings.Settings.from_config(given))

    def create(self) -> None:
        self.query(f'CREATE SCHEMA "{self.schema}"')

    def query(self, text: str) -> list[tuple[Any, ...]]:
        return self._connection.query(text, what="A query of the acceptance suite").rows

    def quoted(self, table: str) -> str:
        return f'"{self.schema}"."{table}"'

    def columns(self, table: str) -> dict[str, str]:
        """Return the columns of a table with their types."""
        where = f"table_schema = '{self.schema}' AND table_name = '{table}'"
        found = self.query(f"SELECT column_name, data_type FROM svv_columns WHERE {where} ORDER BY ordinal_position")
        return dict(found)

    def tables(self) -> set[str]:
        return {
            name for (name,) in self.query(f"SELECT table_name FROM svv_tables WHERE table_schema = '{self.schema}'")
        }

    def remove(self, schema: str) -> None:
        self.query(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')

    def schemas(self) -> list[str]:
        return [str(name) for (name,) in self.query(f"SELECT nspname FROM pg_namespace WHERE nspname LIKE '{PREFIX}%'")]

    def close(self) -> None:
        self._connection.close()


Warehouse = BigQuery | Redshift
KINDS: dict[str, type[BigQuery] | type[Redshift]] = {"bigquery": BigQuery, "redshift": Redshift}


class Site:
    """The services of a run. Everything that it makes has `name` in its name, which begins with the time."""

    def __init__(self, warehouses: Sequence[str]) -> None:
        self.name = f"{PREFIX}{datetime.now(UTC):%Y%m%dt%H%M}_{secrets.token_hex(3)}"
        self.folder = Path(tempfile.mkdtemp(prefix=self.name))
        options = AwsOptions.from_config(environment_settings(TapS3Files).get("aws", {}))
        self.storage = Storage(options)
        self.s3: Any = aws.session(options).client("s3")
        self.bucket = Url("s3", os.environ.get("ACCEPTANCE_BUCKET", ""), "")
        gcs = os.environ.get("ACCEPTANCE_GCS_BUCKET")
        self.gcs = Url("gs", gcs, f"{self.name}/") if gcs else None
        self.warehouses: dict[str, Warehouse] = {name: KINDS[name](self.name) for name in warehouses}
        self.stopped = threading.Event()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own, which ends with `stop`."""
        with self._lock:
            if self.stopped.is_set():
                raise StoppedError
            child = subprocess.Popen(command, start_new_session=True, **options)
            self._children.add(child)
        return child

    def wait(
        self, children: Sequence[subprocess.Popen[bytes]], until: Callable[[], bool] = bool, seconds: float = 900
    ) -> None:
        """Wait until all children have ended or `until` holds; after too many seconds, end them."""
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        while any(child.poll() is None for child in children) and not until():
            if self.stopped.wait(0.05):
                raise StoppedError
            if datetime.now(UTC) > end:
                self.end(children)
                raise TimeoutError(f"The connectors have run for {seconds:.0f} seconds and were ended")

    def end(self, children: Sequence[subprocess.Popen[bytes]]) -> None:
        for child in children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def stop(self) -> None:
        """End all children; no more are started."""
        with self._lock:
            self.stopped.set()
            self.end(list(self._children))

    def leftovers(self) -> Iterator[str]:
        """Return what earlier runs left that began more than a day ago, one name a line."""
        oldest = f"{PREFIX}{datetime.now(UTC) - timedelta(days=1):%Y%m%dt%H%M}"
        for kind, warehouse in self.warehouses.items():
            yield from (f"{kind}: {name}" for name in warehouse.schemas() if name < oldest)
        for bucket in filter(None, (self.bucket, self.gcs and self.gcs._replace(key=""))):
            folders = {info.url.key.partition("/")[0] for info in self.storage.list(bucket._replace(key=PREFIX))}
            yield from (f"{bucket}{name}" for name in sorted(folders) if name < oldest)

    def remove(self) -> list[str]:
        """Remove all that the run made; return what could not be removed, with the reason, one a line."""
        left = []
        places = [self.bucket._replace(key=f"{self.name}/"), *([self.gcs] if self.gcs else [])]
        tasks: list[tuple[str, Callable[[], object]]] = [
            *((f"{kind} {self.name}", lambda w=w: w.remove(self.name)) for kind, w in self.warehouses.items()),
            *((str(place), lambda place=place: self._empty(place)) for place in places),
        ]
        for what, task in tasks:
            try:
                task()
            except Exception as error:  # noqa: BLE001 - the others are to be removed nevertheless
                left.append(f"{what}: {error}")
        for warehouse in self.warehouses.values():
            warehouse.close()
        subprocess.run(["rm", "-rf", str(self.folder)], check=False)
        return left

    def _empty(self, place: Url) -> None:
        try:
            while urls := [info.url for info, _ in zip(self.storage.list(place), range(1000), strict=False)]:
                self.storage.delete(urls)
        except NotFoundError:
            return
