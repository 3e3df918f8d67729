"""The settings of target-bigquery: declared, defaulted and checked here and nowhere else."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from singer_arrow.aws import AwsOptions
from singer_arrow.errors import ConfigError

APPEND, UPSERT, OVERWRITE = "append-only", "upsert", "overwrite"
VIA = ("load_job", "storage_write")
PARTITION_UNITS = ("hour", "day", "month", "year")
_NOT_YET = "is not available yet; leave it out"


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": ["string", "null"], "description": description, **more}


def _choice(description: str, default: str, *values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values), "default": default, "description": description}


def _number(description: str, default: float | None = None, *, minimum: float, whole: bool = True) -> dict[str, Any]:
    kind = "integer" if whole else "number"
    if default is None:
        return {"type": [kind, "null"], "minimum": minimum, "description": description}
    return {"type": kind, "minimum": minimum, "default": default, "description": description}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "default": False, "description": description}


SETTINGS: dict[str, Any] = {
    "project": {"type": "string", "minLength": 1, "description": "Google Cloud project that holds the dataset."},
    "dataset": _text("Dataset to load into; created if it does not exist. Required, here or as default_target_schema."),
    "default_target_schema": _text("The same as dataset, under the name that Meltano fills in by itself."),
    "location": _text("Location of the dataset, such as EU or us-east1; an existing dataset must be there."),
    "credentials_path": _text("File of Google credentials. Without any, application default credentials are used."),
    "credentials_json": {
        "type": ["string", "object", "null"],
        "description": "Google credentials as JSON, instead of a file.",
        "secret": True,
        "writeOnly": True,
    },
    "impersonate_service_account": _text("E-mail address of a service account to act as."),
    "api_endpoint": _text("URL of the BigQuery API; outside googleapis.com only credentials that are set are sent."),
    "load_method": _choice(
        "append-only adds rows; upsert replaces rows with the same key_properties; overwrite replaces the table's rows "
        "by those of the run, all at once at its end.",
        APPEND,
        APPEND,
        UPSERT,
        OVERWRITE,
    ),
    "load_format": _choice(
        "What load jobs get: auto sends Parquet batches as Parquet and everything else as Avro.",
        "auto",
        "auto",
        "parquet",
        "avro",
        "jsonl",
    ),
    "load_via": _choice(
        "How rows get there; storage_write is not available yet.", "load_job", "load_job", "storage_write"
    ),
    "gcs_stage": _text("gs://bucket/prefix to upload to before loading. Not available yet."),
    "max_parallel_loads": _number("Load jobs that run at once.", 4, minimum=1),
    "max_batch_age_seconds": _number(
        "BATCH messages of one stream are gathered into one load job for at most so long. "
        "BigQuery allows 1,500 load jobs a table and day: one a minute.",
        60,
        minimum=0,
        whole=False,
    ),
    "max_batch_mb": {**_number("And until they weigh so much.", 512, minimum=0, whole=False), "exclusiveMinimum": 0},
    "hard_delete": _flag("ACTIVATE_VERSION deletes rows of older versions, instead of filling in _sdc_deleted_at."),
    "replay": _choice(
        "What is done with a batch that was loaded before: skip leaves it out and says so, load loads it again.",
        "skip",
        "skip",
        "load",
    ),
    "partition_by": {
        "type": ["string", "object", "null"],
        "description": "Column by which new tables are partitioned, as `column` or `column:unit` (hour, day, month, "
        "year); or an object from streams (also patterns: `events_*`) to columns.",
        "additionalProperties": {"type": "string"},
    },
    "cluster_by": {
        "type": ["array", "object", "null"],
        "description": "Up to four columns by which new tables are clustered; or an object from streams to such lists.",
        "items": {"type": "string"},
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    },
    "nested": _choice(
        "What nested objects and lists become: record makes RECORD and REPEATED columns, json makes JSON columns.",
        "record",
        "record",
        "json",
    ),
    "labels": {
        "type": ["object", "null"],
        "description": "Labels for the tables and jobs that are created.",
        "additionalProperties": {"type": "string"},
    },
    "kms_key": _text("Cloud KMS key that encrypts the tables: projects/P/locations/L/keyRings/R/cryptoKeys/K."),
    "table_prefix": _text("Text put before each table's name."),
    "bytes_billed_limit": _number("Most bytes that one query job may bill; one that would exceed it fails.", minimum=1),
}

STORAGE_PARAMS: dict[str, Any] = {
    "type": ["object", "null"],
    "description": "How batch files on S3 are read, in the words of s3fs: key, secret, token, profile, anon, "
    "endpoint_url, client_kwargs. Without any, the environment says.",
    "secret": True,
    "writeOnly": True,
}
"""`batch_config.storage.params`, which the SDK reads and does not declare."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one run."""

    project: str
    dataset: str
    location: str | None = None
    credentials_path: str | None = None
    credentials: Mapping[str, Any] | None = field(default=None, repr=False)
    impersonate_service_account: str | None = None
    api_endpoint: str | None = None
    load_method: str = APPEND
    load_format: str = "auto"
    max_parallel_loads: int = 4
    max_batch_age_seconds: float = 60
    max_batch_bytes: int = 512 << 20
    hard_delete: bool = False
    replay_loads: bool = False
    partition_by: Any = None
    cluster_by: Any = None
    nested: str = "record"
    labels: Mapping[str, str] = field(default_factory=dict)
    kms_key: str | None = None
    table_prefix: str = ""
    bytes_billed_limit: int | None = None
    aws: AwsOptions = field(default_factory=AwsOptions)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read a configuration that the JSON Schema of `SETTINGS` accepts.

        Raises:
            ConfigError: A value is wrong, or two contradict each other.
        """
        given = {k: v for k, v in config.items() if v not in (None, "")}
        for name, value in (("gcs_stage", None), ("load_via", "load_job")):
            if given.get(name, value) != value:
                msg = f"Setting {name!r} ({given[name]}) {_NOT_YET}"
                raise ConfigError(msg)
        dataset = _dataset(given)
        if "credentials_path" in given and "credentials_json" in given:
            msg = "Settings 'credentials_path' and 'credentials_json' say the same twice; keep one"
            raise ConfigError(msg)
        settings = cls(
            project=given["project"],
            dataset=dataset,
            credentials=_credentials(given.get("credentials_json")),
            max_batch_age_seconds=float(given.get("max_batch_age_seconds", 60)),
            max_batch_bytes=int(given.get("max_batch_mb", 512) * (1 << 20)),
            replay_loads=given.get("replay") == "load",
            aws=_aws(given.get("batch_config")),
            **{k: given[k] for k in _PLAIN if k in given},
        )
        _check(settings)
        return settings

    def partitioning(self, stream: str) -> tuple[str, str] | None:
        """Column and unit by which the stream's table is partitioned."""
        if not (spec := _of_stream(self.partition_by, stream)):
            return None
        column, _, unit = str(spec).partition(":")
        return column, (unit or "day").upper()

    def clustering(self, stream: str) -> list[str]:
        """Columns by which the stream's table is clustered."""
        return list(_of_stream(self.cluster_by, stream) or [])

    @property
    def names_streams(self) -> bool:
        """Whether partitioning and clustering are given stream by stream."""
        return isinstance(self.partition_by, Mapping) or isinstance(self.cluster_by, Mapping)


_PLAIN = (
    *("location", "credentials_path", "impersonate_service_account", "api_endpoint", "load_method", "load_format"),
    *("max_parallel_loads", "hard_delete", "partition_by", "cluster_by", "nested", "labels"),
    *("kms_key", "table_prefix", "bytes_billed_limit"),
)


def _of_stream(given: Any, stream: str) -> Any:
    if not isinstance(given, Mapping):
        return given
    if stream in given:
        return given[stream]
    return next((value for pattern, value in given.items() if fnmatch.fnmatchcase(stream, pattern)), None)


def _dataset(given: Mapping[str, Any]) -> str:
    dataset, schema = given.get("dataset"), given.get("default_target_schema")
    if dataset and schema and dataset != schema:
        msg = f"Settings 'dataset' ({dataset}) and 'default_target_schema' ({schema}) differ; keep one"
        raise ConfigError(msg)
    name = str(dataset or schema or "")
    if not name:
        msg = "Setting 'dataset' is missing; it names the dataset to load into"
        raise ConfigError(msg)
    if not re.fullmatch(r"\w{1,1024}", name, re.ASCII):
        msg = f"Setting 'dataset' is {name!r}; a dataset's name has only letters, digits and underscores"
        raise ConfigError(msg)
    return name


def _credentials(given: Any) -> Mapping[str, Any] | None:
    if given is None or isinstance(given, Mapping):
        return given
    try:
        read = json.loads(given)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        msg = "Setting 'credentials_json' is not JSON of Google credentials; give the text of a key file"
        raise ConfigError(msg)
    return read


def _aws(batch_config: Any) -> AwsOptions:
    """How batch files on S3 are read: the keys that the SDK's `batch_config.storage.params` hands to s3fs."""
    params = ((batch_config or {}).get("storage") or {}).get("params") or {}
    client = params.get("client_kwargs") or {}
    return AwsOptions.from_config(
        {
            "access_key_id": params.get("key"),
            "secret_access_key": params.get("secret"),
            "session_token": params.get("token"),
            "profile": params.get("profile"),
            "anonymous": params.get("anon"),
            "endpoint_url": params.get("endpoint_url") or client.get("endpoint_url"),
            "region": client.get("region_name"),
        }
    )


def _check(settings: Settings) -> None:
    specs = settings.partition_by
    for spec in specs.values() if isinstance(specs, Mapping) else [specs] if specs else []:
        unit = str(spec).partition(":")[2]
        if unit and unit not in PARTITION_UNITS:
            msg = f"Setting 'partition_by' has {spec!r}; the unit must be one of {', '.join(PARTITION_UNITS)}"
            raise ConfigError(msg)
    lists = settings.cluster_by
    for columns in lists.values() if isinstance(lists, Mapping) else [lists] if lists else []:
        if len(columns) > 4:
            msg = f"Setting 'cluster_by' names {len(columns)} columns; BigQuery takes four at most"
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
