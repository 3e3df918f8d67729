"""The settings of target-bigquery alone, and their checks; those of all targets are in `warehouse/settings.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlparse

from singer_arrow.errors import ConfigError
from singer_arrow.sdk.settings import json_object
from singer_arrow.settings import described, setting
from singer_arrow.storage.urls import Url, shown
from singer_arrow.warehouse.settings import LoadSettings, each_value, of_stream

LOAD_JOB, STORAGE_WRITE = "load_job", "storage_write"
ARRIVAL = "_PARTITIONTIME"  # the pseudo-column of tables that are partitioned by the time of arrival
MOST_PARTITIONS = 10_000  # of a table (https://cloud.google.com/bigquery/quotas#partitioned_tables)
PARTITION_UNITS = ("hour", "day", "month", "year")
_RESERVATION = re.compile(r"none|projects/[^/\s]+/locations/[^/\s]+/reservations/[^/\s]+")
_MEMBER = re.compile(r"(?:user|group|serviceAccount|domain|principal|principalSet):\S+|allAuthenticatedUsers|allUsers")


def _check_dataset(what: str, name: str) -> None:
    if not re.fullmatch(r"\w{1,1024}", name, re.ASCII):
        raise ConfigError(f"Setting {what} {name!r}; a dataset's name has only letters, digits and underscores")


def _stage(given: str) -> Url:
    if not re.fullmatch(r"(?:gs|gcs)://[^/*#]+(?:/[^*#]*)?", given):
        raise ConfigError(f"Setting 'gcs_stage' is {shown(given)!r}; it reads gs://bucket/prefix")
    return Url.parse(given)


@dataclass(frozen=True, slots=True)
class Settings(LoadSettings):
    """The settings of one run; `checked` requires more than the JSON Schema, with better messages."""

    project: str = setting("Google Cloud project of the dataset.", required=True, minLength=1, examples=["my-project"])
    job_project: str | None = setting(
        "Google Cloud project in which jobs run, and which is billed for them; by default project. What storage_write "
        "sends is no job."
    )
    dataset: str = setting(
        "Dataset to load into; created if it does not exist. Required, here or as default_target_schema.", default=""
    )
    default_target_schema: str = setting("The same as dataset, under the name that Meltano sets by itself.", default="")
    location: str | None = setting(
        "Location of the dataset, such as EU or us-east1; an existing dataset must already be there."
    )
    credentials_path: str | None = setting(
        "File with Google credentials. By default, application default credentials are used."
    )
    credentials: Mapping[str, Any] | None = setting(
        "Google credentials as JSON instead of a file.",
        name="credentials_json",
        kind=str | dict,
        parse=lambda key: json_object(key, "Setting 'credentials_json'") if isinstance(key, str) else key,
        secret=True,
    )
    impersonate_service_account: str | None = setting("E-mail address of a service account to act as.")
    api_endpoint: str | None = setting(
        "URL of the BigQuery API; outside googleapis.com only explicitly set credentials are sent."
    )
    load_format: Literal["auto", "parquet", "avro", "jsonl"] = setting(
        "Format of uploads for load jobs: auto is Parquet, or Avro for tables with JSON columns, which Parquet cannot "
        "fill.",
        default="auto",
    )
    load_via: Literal["load_job", "storage_write"] = setting(
        "How rows are loaded: load_job uses files, which is free; storage_write uses the Storage Write API, which "
        "needs no load jobs, and puts the rows of RECORD messages into the table within seconds (append-only).",
        default=LOAD_JOB,
    )
    storage_write_endpoint: str | None = setting(
        "Address of the Storage Write API, if not Google's own: host:port, or http://host:port without TLS."
    )
    stage: Url | None = setting(
        "gs://bucket/prefix in the dataset's location: files are put there first, and one load job takes everything "
        "that max_batch_mb and max_batch_age_seconds gather, large files too. Parquet files already on Google Cloud "
        "Storage are loaded where they are.",
        name="gcs_stage",
        kind=str,
        parse=_stage,
    )
    max_parallel_loads: int = described(LoadSettings, "max_parallel_loads", "Load jobs that run at the same time.")
    max_batch_age_seconds: float = described(
        LoadSettings,
        "max_batch_age_seconds",
        "BATCH messages of a stream are gathered into one load job for at most this long. BigQuery allows 1,500 load "
        "jobs per table and day: one a minute.",
    )
    partition_by: str | Mapping[str, str] | None = setting(
        "Column by which new tables are partitioned, as `column`, `column:unit` (hour, day, month, year) or, for "
        "whole numbers, `column:range(first, end, width)`; `_PARTITIONTIME` is the time at which rows arrive. Or an "
        "object from streams (or patterns: `events_*`) to columns.",
        scope="run and stream",
    )
    expiration_days: float | None = setting(
        "After how many days BigQuery removes a partition of new tables that are partitioned by time, also one that a "
        "load has just made. By default as the dataset has it.",
        parse=float,
        exclusiveMinimum=0,
        scope="run and stream",
    )
    require_partition_filter: bool = setting(
        "Whether queries of new partitioned tables must choose partitions by a condition.",
        default=False,
        scope="run and stream",
    )
    cluster_by: tuple[str, ...] | Mapping[str, tuple[str, ...]] | None = setting(
        "Up to four columns by which new tables are clustered; or an object from streams (or patterns) to such lists.",
        scope="run and stream",
    )
    keys_stay_in_partition: bool | Mapping[str, bool] = setting(
        "For upsert: a promise that the value of the partitioning column never changes for a key, so that a MERGE "
        "reads only the partitions of the arriving rows even if that column is not a key. If it does change, the row "
        "is in the table twice from then on. Or an object from streams (or patterns) to true and false.",
        default=False,
        scope="run and stream",
    )
    nested: Literal["record", "json"] = setting(
        "What nested objects and lists become: record makes RECORD and REPEATED columns, json makes JSON columns.",
        default="record",
        scope="run and stream",
    )
    labels: Mapping[str, str] = setting("Labels of the tables and jobs that are created.", default={})
    kms_key: str | None = setting(
        "Cloud KMS key that encrypts the tables and the results of queries: "
        "projects/P/locations/L/keyRings/R/cryptoKeys/K."
    )
    reservation: str | None = setting(
        "Reservation whose slots the jobs use, whatever the project is assigned to: "
        "projects/P/locations/L/reservations/R; or none, for on-demand capacity."
    )
    grants: Mapping[str, tuple[str, ...]] = setting(
        "Who gets roles on new tables: an object from roles (`roles/bigquery.dataViewer`, ...) to lists of "
        "`user:E-MAIL`, `group:E-MAIL`, `serviceAccount:E-MAIL` or `domain:NAME`.",
        default={},
        parse=lambda given: {role: tuple(members) for role, members in given.items()},
        additionalProperties={"type": "array", "items": {"type": "string", "minLength": 1}},
        scope="run and stream",
    )
    bytes_billed_limit: int | None = setting(
        "Most bytes that one query job may bill; a query that would exceed it fails.", parse=int, minimum=1
    )

    def checked(self) -> Settings:
        """Return the settings with their dataset, or raise ConfigError if one is missing or contradicts another."""
        dataset, schema = self.dataset, self.default_target_schema
        if dataset and schema and dataset != schema:
            raise ConfigError(f"Settings 'dataset' ({dataset}) and 'default_target_schema' ({schema}) differ; keep one")
        name = dataset or schema
        if not name:
            raise ConfigError("Setting 'dataset' is missing; it names the dataset to load into")
        _check_dataset("'dataset' is", name)
        if self.credentials_path and self.credentials is not None:
            msg = "Settings 'credentials_path' and 'credentials_json' are two ways to set the credentials; keep one"
            raise ConfigError(msg)
        for other in sorted(self.other_schemas):
            _check_dataset("'tables' has", other)
        for role, members in self.grants.items():
            for member in members:
                if "/" not in role or not _MEMBER.fullmatch(member):
                    raise ConfigError(
                        f"Setting 'grants' has {role}: {member}; it reads roles/bigquery.dataViewer: "
                        "[user:E-MAIL, group:E-MAIL, serviceAccount:E-MAIL or domain:NAME]"
                    )
        if self.reservation and not _RESERVATION.fullmatch(self.reservation):
            raise ConfigError("Setting 'reservation' must read projects/P/locations/L/reservations/R, or none")
        for spec in each_value(self.partition_by):
            column, _, unit = str(spec).partition(":")
            first, end, width = self._cells(unit) or (0, 1, 1)
            if unit and unit not in PARTITION_UNITS and not self._cells(unit):
                units = f"one of {', '.join(PARTITION_UNITS)}, or read range(first, end, width)"
                raise ConfigError(f"Setting 'partition_by' has {spec!r}; the unit must be {units}")
            if not width or not 0 < -(-(end - first) // width) <= MOST_PARTITIONS:
                msg = f"a range has 1 to {MOST_PARTITIONS:,} partitions"
                raise ConfigError(f"Setting 'partition_by' has {spec!r}; {msg}")
            if column.upper() == ARRIVAL and self._cells(unit):
                raise ConfigError(f"Setting 'partition_by' has {spec!r}; {ARRIVAL} is a time, and has no ranges")
        for columns in each_value(self.cluster_by):
            if len(columns) > 4:
                raise ConfigError(f"Setting 'cluster_by' names {len(columns)} columns; BigQuery takes four at most")
        for setting_name, given in {"project": self.project, "job_project": self.job_project}.items():
            if given is not None and not re.fullmatch(r"[\w.:-]+", given, re.ASCII):
                msg = f"Setting {setting_name!r} is {given!r}; a project's id has letters, digits and hyphens"
                raise ConfigError(msg)
        host, endpoint = "", self.api_endpoint
        if endpoint:
            try:
                parsed = urlparse(endpoint)
                is_good = parsed.scheme in ("http", "https") and bool(parsed.hostname) and "@" not in parsed.netloc
                is_good = is_good and (parsed.port is None or parsed.port > 0)
            except ValueError:  # of a port that is none
                is_good = False
            if not is_good:
                raise ConfigError(
                    f"Setting 'api_endpoint' is {shown(endpoint)!r}; it reads https://host or http://host:port, no user"
                )
            host = parsed.hostname or ""
        is_own = bool(host) and host != "googleapis.com" and not host.endswith(".googleapis.com")
        if self.load_via == STORAGE_WRITE and is_own and not self.storage_write_endpoint:
            raise ConfigError(
                f"Setting 'load_via' is {STORAGE_WRITE}, and setting 'api_endpoint' ({self.api_endpoint}) is not "
                "Google's; set 'storage_write_endpoint' too, for example to http://127.0.0.1:9060"
            )
        if self.kms_key and not self.kms_key.startswith("projects/"):
            raise ConfigError("Setting 'kms_key' must read projects/P/locations/L/keyRings/R/cryptoKeys/K")
        for key, value in self.labels.items():
            if (
                not re.fullmatch(r"[a-z][\w-]{0,62}", key)
                or not re.fullmatch(r"[\w-]{0,63}", value)
                or value != value.lower()
            ):
                msg = f"Setting 'labels' has {key}={value}; labels have lower case letters, digits, _ and -, at most 63"
                raise ConfigError(msg)
        return replace(self, dataset=name)

    @staticmethod
    def _cells(unit: str) -> tuple[int, int, int] | None:
        """Return the first value, the end and the width of partitions of whole numbers."""
        found = re.fullmatch(r"range\( *(-?\d+) *, *(-?\d+) *, *(\d+) *\)", unit, re.ASCII)
        return (int(found[1]), int(found[2]), int(found[3])) if found else None

    def partitioning(self, stream: str) -> tuple[str, str | tuple[int, int, int]] | None:
        """Column, and unit or cells, by which the stream's table is partitioned."""
        if not (spec := of_stream(self.partition_by, stream)):
            return None
        column, _, unit = str(spec).partition(":")
        return column, self._cells(unit) or (unit or "day").upper()

    def clustering(self, stream: str) -> list[str]:
        """Columns by which the stream's table is clustered."""
        return list(of_stream(self.cluster_by, stream) or [])

    def keys_stay(self, stream: str) -> bool:
        """Return whether rows of the stream's table never go to another partition."""
        return of_stream(self.keys_stay_in_partition, stream) is True
