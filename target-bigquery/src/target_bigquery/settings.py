"""The settings of target-bigquery: declared, defaulted and checked here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlparse

from singer_arrow.errors import ConfigError
from singer_arrow.sdk.settings import json_object
from singer_arrow.storage.urls import Url, shown
from singer_arrow.warehouse.settings import (
    LOADS,
    PLACES,
    PLAIN_LOADS,
    LoadSettings,
    choice,
    each_value,
    flag_by_stream,
    given_settings,
    names_by_stream,
    number,
    of_stream,
    secret,
    storage_options,
    text,
    text_by_stream,
)

LOAD_JOB, STORAGE_WRITE = "load_job", "storage_write"
PARTITION_UNITS = ("hour", "day", "month", "year")
_RESERVATION = re.compile(r"none|projects/[^/\s]+/locations/[^/\s]+/reservations/[^/\s]+")
_MEMBER = re.compile(r"(?:user|group|serviceAccount|domain|principal|principalSet):\S+|allAuthenticatedUsers|allUsers")


SETTINGS: dict[str, Any] = {
    "project": {
        "type": "string",
        "minLength": 1,
        "description": "Google Cloud project of the dataset.",
        "examples": ["my-project"],
    },
    "dataset": text("Dataset to load into; created if it does not exist. Required, here or as default_target_schema."),
    "default_target_schema": text("The same as dataset, under the name that Meltano sets by itself."),
    "location": text("Location of the dataset, such as EU or us-east1; an existing dataset must already be there."),
    "credentials_path": text("File with Google credentials. By default, application default credentials are used."),
    "credentials_json": secret("Google credentials as JSON instead of a file.", "object"),
    "impersonate_service_account": text("E-mail address of a service account to act as."),
    "api_endpoint": text("URL of the BigQuery API; outside googleapis.com only explicitly set credentials are sent."),
    "load_method": LOADS["load_method"],
    "load_format": choice(
        "Format of uploads for load jobs: auto is Parquet, or Avro for tables with JSON columns, which Parquet "
        "cannot fill.",
        "auto",
        "auto",
        "parquet",
        "avro",
        "jsonl",
    ),
    "load_via": choice(
        "How rows are loaded: load_job uses files, which is free; storage_write uses the Storage Write API, which "
        "needs no load jobs, and puts the rows of RECORD messages into the table within seconds (append-only).",
        LOAD_JOB,
        LOAD_JOB,
        STORAGE_WRITE,
    ),
    "storage_write_endpoint": text(
        "Address of the Storage Write API, if not Google's own: host:port, or http://host:port without TLS."
    ),
    "gcs_stage": text(
        "gs://bucket/prefix in the dataset's location: files are put there first, and one load job takes everything "
        "that max_batch_mb and max_batch_age_seconds gather, large files too. Parquet files already on Google Cloud "
        "Storage are loaded where they are."
    ),
    "max_parallel_loads": {**LOADS["max_parallel_loads"], "description": "Load jobs that run at the same time."},
    "max_batch_age_seconds": {
        **LOADS["max_batch_age_seconds"],
        "description": "BATCH messages of a stream are gathered into one load job for at most this long. BigQuery "
        "allows 1,500 load jobs per table and day: one a minute.",
    },
    **PLAIN_LOADS,
    "partition_by": text_by_stream(
        "Column by which new tables are partitioned, as `column` or `column:unit` (hour, day, month, year); or an "
        "object from streams (or patterns: `events_*`) to columns."
    ),
    "cluster_by": names_by_stream(
        "Up to four columns by which new tables are clustered; or an object from streams (or patterns) to such lists."
    ),
    "keys_stay_in_partition": flag_by_stream(
        "For upsert: a promise that the value of the partitioning column never changes for a key, so that a MERGE "
        "reads only the partitions of the arriving rows even if that column is not a key. If it does change, the row "
        "is in the table twice from then on. Or an object from streams (or patterns) to true and false."
    ),
    "nested": choice(
        "What nested objects and lists become: record makes RECORD and REPEATED columns, json makes JSON columns.",
        "record",
        "record",
        "json",
    ),
    "labels": {
        "type": ["object", "null"],
        "description": "Labels of the tables and jobs that are created.",
        "additionalProperties": {"type": "string"},
    },
    "kms_key": text(
        "Cloud KMS key that encrypts the tables and the results of queries: "
        "projects/P/locations/L/keyRings/R/cryptoKeys/K."
    ),
    "reservation": text(
        "Reservation whose slots the jobs use, whatever the project is assigned to: projects/P/locations/L/"
        "reservations/R; or none, for on-demand capacity."
    ),
    **PLACES,
    "grants": {
        "type": ["object", "null"],
        "description": "Who gets roles on new tables: an object from roles (`roles/bigquery.dataViewer`, ...) to "
        "lists of `user:E-MAIL`, `group:E-MAIL`, `serviceAccount:E-MAIL` or `domain:NAME`.",
        "additionalProperties": {"type": "array", "items": {"type": "string", "minLength": 1}},
    },
    "bytes_billed_limit": number(
        "Most bytes that one query job may bill; a query that would exceed it fails.", minimum=1
    ),
}


@dataclass(frozen=True, slots=True)
class Settings(LoadSettings):
    """The settings of one run."""

    project: str
    dataset: str
    location: str | None = None
    credentials_path: str | None = None
    credentials: Mapping[str, Any] | None = field(default=None, repr=False)
    impersonate_service_account: str | None = None
    api_endpoint: str | None = None
    load_format: str = "auto"
    load_via: str = LOAD_JOB
    storage_write_endpoint: str | None = None
    partition_by: Any = None
    cluster_by: Any = None
    keys_stay_in_partition: Any = False
    nested: str = "record"
    labels: Mapping[str, str] = field(default_factory=dict)
    kms_key: str | None = None
    reservation: str | None = None
    grants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bytes_billed_limit: int | None = None
    stage: Url | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read a configuration that the JSON Schema of `SETTINGS` accepts."""
        given = given_settings(config)
        dataset, key = _dataset(given), given.get("credentials_json")
        if "credentials_path" in given and "credentials_json" in given:
            msg = "Settings 'credentials_path' and 'credentials_json' are two ways to set the credentials; keep one"
            raise ConfigError(msg)
        settings = cls(
            project=given["project"],
            dataset=dataset,
            credentials=json_object(key, "Setting 'credentials_json'") if isinstance(key, str) else key,
            aws=storage_options(given.get("batch_config")),
            **cls.load_arguments(given),
            bytes_billed_limit=int(limit) if (limit := given.get("bytes_billed_limit")) else None,
            stage=_stage(given.get("gcs_stage")),
            grants={role: tuple(members) for role, members in given.get("grants", {}).items()},
            **{k: given[k] for k in _PLAIN if k in given},
        )
        _check(settings)
        return settings

    def partitioning(self, stream: str) -> tuple[str, str] | None:
        """Column and unit by which the stream's table is partitioned."""
        if not (spec := of_stream(self.partition_by, stream)):
            return None
        column, _, unit = str(spec).partition(":")
        return column, (unit or "day").upper()

    def clustering(self, stream: str) -> list[str]:
        """Columns by which the stream's table is clustered."""
        return list(of_stream(self.cluster_by, stream) or [])

    def keys_stay(self, stream: str) -> bool:
        """Return whether rows of the stream's table never go to another partition."""
        return of_stream(self.keys_stay_in_partition, stream) is True


_PLAIN = (
    *("location", "credentials_path", "impersonate_service_account", "api_endpoint", "load_format", "partition_by"),
    *("cluster_by", "keys_stay_in_partition", "nested", "labels", "kms_key", "reservation", "load_via"),
    "storage_write_endpoint",
)


def _dataset(given: Mapping[str, Any]) -> str:
    dataset, schema = given.get("dataset"), given.get("default_target_schema")
    if dataset and schema and dataset != schema:
        msg = f"Settings 'dataset' ({dataset}) and 'default_target_schema' ({schema}) differ; keep one"
        raise ConfigError(msg)
    name = str(dataset or schema or "")
    if not name:
        msg = "Setting 'dataset' is missing; it names the dataset to load into"
        raise ConfigError(msg)
    _check_dataset("'dataset' is", name)
    return name


def _stage(given: str | None) -> Url | None:
    if given is None:
        return None
    if not re.fullmatch(r"(?:gs|gcs)://[^/*#]+(?:/[^*#]*)?", given):
        msg = f"Setting 'gcs_stage' is {shown(given)!r}; it reads gs://bucket/prefix"
        raise ConfigError(msg)
    return Url.parse(given)


def _check_dataset(what: str, name: str) -> None:
    if not re.fullmatch(r"\w{1,1024}", name, re.ASCII):
        msg = f"Setting {what} {name!r}; a dataset's name has only letters, digits and underscores"
        raise ConfigError(msg)


def _check(settings: Settings) -> None:
    for name in sorted(settings.other_schemas):
        _check_dataset("'tables' has", name)
    for role, members in settings.grants.items():
        for member in members:
            if "/" not in role or not _MEMBER.fullmatch(member):
                msg = (
                    f"Setting 'grants' has {role}: {member}; it reads roles/bigquery.dataViewer: "
                    "[user:E-MAIL, group:E-MAIL, serviceAccount:E-MAIL or domain:NAME]"
                )
                raise ConfigError(msg)
    if settings.reservation and not _RESERVATION.fullmatch(settings.reservation):
        msg = "Setting 'reservation' must read projects/P/locations/L/reservations/R, or none"
        raise ConfigError(msg)
    for spec in each_value(settings.partition_by):
        unit = str(spec).partition(":")[2]
        if unit and unit not in PARTITION_UNITS:
            msg = f"Setting 'partition_by' has {spec!r}; the unit must be one of {', '.join(PARTITION_UNITS)}"
            raise ConfigError(msg)
    for columns in each_value(settings.cluster_by):
        if len(columns) > 4:
            msg = f"Setting 'cluster_by' names {len(columns)} columns; BigQuery takes four at most"
            raise ConfigError(msg)
    if not re.fullmatch(r"[\w.:-]+", settings.project, re.ASCII):
        msg = f"Setting 'project' is {settings.project!r}; a project's id has letters, digits and hyphens"
        raise ConfigError(msg)
    host, endpoint = "", settings.api_endpoint
    if endpoint:
        try:
            parsed = urlparse(endpoint)
            is_good = parsed.scheme in ("http", "https") and bool(parsed.hostname) and "@" not in parsed.netloc
            is_good = is_good and (parsed.port is None or parsed.port > 0)
        except ValueError:  # of a port that is none
            is_good = False
        if not is_good:
            msg = f"Setting 'api_endpoint' is {shown(endpoint)!r}; it reads https://host or http://host:port, no user"
            raise ConfigError(msg)
        host = parsed.hostname or ""
    is_own = bool(host) and host != "googleapis.com" and not host.endswith(".googleapis.com")
    if settings.load_via == STORAGE_WRITE and is_own and not settings.storage_write_endpoint:
        msg = (
            f"Setting 'load_via' is {STORAGE_WRITE}, and setting 'api_endpoint' ({settings.api_endpoint}) is not "
            "Google's; set 'storage_write_endpoint' too, for example to http://127.0.0.1:9060"
        )
        raise ConfigError(msg)
    if settings.kms_key and not settings.kms_key.startswith("projects/"):
        msg = "Setting 'kms_key' must read projects/P/locations/L/keyRings/R/cryptoKeys/K"
        raise ConfigError(msg)
    for key, value in settings.labels.items():
        if (
            not re.fullmatch(r"[a-z][\w-]{0,62}", key)
            or not re.fullmatch(r"[\w-]{0,63}", value)
            or value != value.lower()
        ):
            msg = f"Setting 'labels' has {key}={value}; labels have lower case letters, digits, _ and -, at most 63"
            raise ConfigError(msg)
