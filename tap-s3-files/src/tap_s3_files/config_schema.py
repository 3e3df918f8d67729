"""The settings: declared; those of Dask."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from singer_sdk import typing as th

from singer_arrow.batch.message import BATCH_CONFIG, BatchSettings
from singer_arrow.compression import CODECS
from singer_arrow.errors import ConfigError, one_line
from singer_arrow.formats import FORMATS
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse.settings import AWS

# The settings of the tap, declared: their names, types, defaults and what they mean.


def _setting(name: str, kind: Any, description: str, **more: Any) -> th.Property[Any]:
    return th.Property(name, kind, description=description, **more)


def _text(name: str, description: str, **more: Any) -> th.Property[str]:
    return _setting(name, th.StringType, description, **more)


def _texts(name: str, description: str, **more: Any) -> th.Property[list[str]]:
    return _setting(name, th.ArrayType(th.StringType), description, **more)


CSV = th.ObjectType(
    _text(
        "delimiter",
        "What separates the values of a line; by default a tab in `.tsv` and `.tab`, `|` in `.psv`, otherwise "
        "detected at the beginning of each file: a comma, a semicolon, a tab or `|`.",
    ),
    _text("quote", "Character that quotes a value. Empty: none.", default='"'),
    _text("escape", "Character that escapes a quote inside a quoted value; by default quotes are doubled."),
    _text(
        "encoding",
        "Encoding of the text, by its Python name. A byte order mark of UTF-16 or UTF-32 takes precedence, and "
        "UTF-16 without a mark is recognised if the first two characters are ASCII.",
        default="utf-8",
    ),
    _setting(
        "header",
        th.CustomType({"type": ["boolean", "string"], "enum": [True, False, "auto"]}),
        "Whether the first line names the columns. `auto`: it does unless one of its values is a number, a date or "
        "a boolean.",
        default=True,
    ),
    _setting("skip_rows", th.IntegerType(minimum=0), "Lines to skip before the header.", default=0),
    _texts("null_values", "Texts that mean null when they are not quoted.", default=[""]),
    _text("comment", "Lines that begin with this are skipped."),
)


SPELLING = (
    _texts(
        "date_formats",
        "How CSV and fixed-width files write dates, beside `YYYY-MM-DD`: a list such as `%d/%m/%Y`, of which the "
        "first that fits a value counts. Without it, `31/12/2025` is text.",
    ),
    _texts("timestamp_formats", "How they write dates with a time, such as `%d/%m/%Y %H:%M:%S`."),
    _text("decimal_point", "Character before the fraction of their numbers.", default="."),
    _text("thousands_separator", "Character between groups of three digits of their numbers; by default none."),
    _texts("true_values", "What they write for true, in any case, beside `true`. `1` is then a number only."),
    _texts("false_values", "What they write for false, in any case, beside `false`."),
    _setting(
        "type_tolerance",
        th.NumberType(minimum=0, maximum=1),
        "Up to which share of the sampled values of a column may be of another type without changing the column's "
        "type, for CSV and fixed-width files: with 0.01, one value in a hundred. `on_bad_row` then decides about "
        "these values. By default one value makes the column text.",
        default=0,
    ),
)
_STREAM = th.ObjectType(
    _text("name", "Name of the stream, and of the table it becomes.", required=True),
    _setting(
        "path",
        th.CustomType({"type": ["string", "array"], "items": {"type": "string"}}),
        "Which objects: a URL with wildcards (`*`, `**`, `?`, `[abc]`, `{a,b}`), or a list of such URLs. "
        "`s3://`, `gs://`, `az://`, or a local path. A path that ends with `/` means all objects below it. "
        "`{date:%Y/%m/%d}` matches the dates from `start_date` to `end_date`. `{country:*}` is a wildcard "
        "with a name: what it matches becomes a column `country`.",
        required=True,
    ),
    _text(
        "format",
        "Format of the objects; `auto`: from each object's name.",
        allowed_values=["auto", *FORMATS],
        default="auto",
    ),
    _text(
        "compression",
        "Compression of the objects; `auto`: from their first bytes and names.",
        allowed_values=["auto", *CODECS],
        default="auto",
    ),
    _texts("key_properties", "Columns that together identify a row."),
    _setting(
        "schema",
        th.ObjectType(additional_properties=th.StringType),
        "Types of columns, overriding the inferred ones: string, integer, number, boolean, date, time, "
        "timestamp, decimal(p,s), binary, json, or an Arrow type such as int32, uint64, float32; "
        "timestamp[ns] and time[ns] keep nanoseconds.",
    ),
    _texts("columns", "Read these columns only."),
    _setting(
        "csv",
        CSV,
        "How CSV files are written. Options that make sense for lines, fixed-width files and workbooks apply to "
        "them too.",
    ),
    *SPELLING,
    _setting(
        "fixed_width",
        th.ArrayType(
            th.ObjectType(
                _text("name", "Name of the column.", required=True),
                _setting("start", th.IntegerType(minimum=1), "Its first character, counted from 1.", required=True),
                _setting("width", th.IntegerType(minimum=1), "Its number of characters.", required=True),
            )
        ),
        "Positions of the columns on each line of fixed-width files, in characters.",
    ),
    _setting(
        "excel",
        th.ObjectType(
            _setting(
                "sheet",
                th.CustomType({"type": ["string", "integer"], "minimum": 1}),
                "Which sheet: its name, or its number from 1; by default the first.",
            )
        ),
        "How workbooks are read.",
    ),
    _text(
        "on_bad_row",
        "What to do with a row that cannot be read, or with a value that does not fit its column: `fail` ends the "
        "run and names file, line and column; `skip` leaves the row out and counts it; `rescue` keeps it, with what "
        "does not fit in the column `_sdc_rescued`; `dead_letter` leaves it out, and our targets put it with the "
        "reason into the table `_sdc_rejected`.",
        allowed_values=["fail", "skip", "rescue", "dead_letter"],
        default="fail",
    ),
    _setting(
        "max_bad_rows",
        th.IntegerType(minimum=1),
        "With on_bad_row: dead_letter, how many rows may be bad per BATCH message (per object, if RECORD messages "
        "are sent); one more ends the run.",
        default=1000,
    ),
    _text(
        "on_drift",
        "What to do if a file has columns that the schema lacks, or other types: `evolve` sends a wider SCHEMA "
        "before its rows; `fail` ends the run and names file, column and both types; `rescue` puts what does not fit "
        "into the column `_sdc_rescued`.",
        allowed_values=["evolve", "fail", "rescue"],
        default="evolve",
    ),
    _text(
        "replication_method",
        "What a run sends: `INCREMENTAL`, what is new since its STATE; `FULL_TABLE`, all objects that there are, "
        "without a plan log, in batches with ids of their own. By default what the catalog has, else INCREMENTAL. "
        "`load_method: overwrite` needs FULL_TABLE, or runs without STATE.",
        allowed_values=["INCREMENTAL", "FULL_TABLE"],
    ),
    _text(
        "archived",
        "What to do with archived objects (GLACIER, DEEP_ARCHIVE) that were not restored: `fail` ends the run, "
        "`skip` leaves them out for good.",
        allowed_values=["fail", "skip"],
        default="fail",
    ),
    _setting(
        "partition_columns",
        th.BooleanType,
        "Add a column for each folder such as `year=2024` in the keys: an integer, a date or text, unless "
        "`schema` sets another type.",
        default=False,
    ),
)

CONFIG_JSONSCHEMA: dict[str, Any] = th.PropertiesList(
    _setting(
        "streams",
        th.ArrayType(_STREAM),
        "The streams, each with its own objects.",
        required=True,
        examples=[[{"name": "orders", "path": "s3://bucket/orders/**/*.csv"}]],
    ),
    _setting("start_date", th.DateTimeType, "Only objects changed at this time or later. Without a zone: UTC."),
    _setting("end_date", th.DateTimeType, "Only objects changed before this time."),
    _setting(
        "replication",
        th.ObjectType(
            _text(
                "method",
                "How new objects are found. `polling`: by listing. `sqs`: from the events that S3 sends to a queue. "
                "`inventory`: from the lists that S3 Inventory writes.",
                allowed_values=["polling", "sqs", "inventory"],
                default="polling",
            ),
            _setting(
                "overlap_minutes",
                th.NumberType(minimum=0),
                "For polling and inventory: how many minutes after its time of last change an object may appear "
                "in listings and still be read; by default 10, for inventory 2880. Requires a plan root: "
                "`plan_root`.",
            ),
            _setting(
                "keys_ascend",
                th.BooleanType,
                "For polling: a promise that keys of later objects sort after those of earlier ones, as with "
                "dates in them, and that none is overwritten. A listing then begins where the last run ended.",
                default=False,
            ),
            _text(
                "manifest_url",
                "For inventory: URL of a `manifest.json` of S3 Inventory, or of the folder of an inventory "
                "configuration, ending with `/`: then the newest one below it is used.",
            ),
            _text("queue_url", "For sqs: URL of the queue."),
            _setting(
                "visibility_timeout",
                th.IntegerType(minimum=3, maximum=43200),
                "For sqs: seconds after which a message comes again if this process has died; while it runs, it "
                "keeps the messages it works on invisible.",
                default=300,
            ),
            _setting(
                "max_wait_seconds",
                th.NumberType(minimum=0),
                "For sqs: the run ends when the queue has been empty for this many seconds.",
                default=20,
            ),
            _text(
                "unmatched_events",
                "For sqs: what to do with messages that name no object of a stream: `keep` leaves them in the queue "
                "for others; `delete` deletes them, for a queue that has no other reader.",
                allowed_values=["keep", "delete"],
                default="keep",
            ),
        ),
        "How the tap finds new objects.",
    ),
    _setting("batch_config", th.CustomType(BATCH_CONFIG), BATCH_CONFIG["description"]),
    _text(
        "plan_root",
        "URL below which the plan log is kept: which objects were read as which batches, decided for ever. Without it, "
        "batches that are loaded could not be recognised, so remove it only with the stream's table and STATE. By "
        "default the root of the batch storage.",
    ),
    _setting(
        "passthrough",
        th.BooleanType,
        "Put objects that already are batch files into manifests as they are, without reading their rows: "
        "Parquet with the columns and types of SCHEMA, or gzip JSON Lines. The target must be able to read them "
        "where they are. Other objects are converted, and the reason is logged; metadata_columns must be false.",
        default=False,
    ),
    _setting(
        "metadata_columns",
        th.BooleanType,
        "Add `_sdc_source_bucket`, `_sdc_source_file`, `_sdc_source_lineno`, `_sdc_source_modified_at` and "
        "`_sdc_source_etag` to each row.",
        default=True,
    ),
    _text(
        "shard",
        "`2/4`: this run is number 2, from 0, of 4 that share the plan which `--write-plan` has written. It lists "
        "nothing and sends its tasks of the plan only. It needs `--catalog`, `batch_config`, and a STATE of its "
        "own. The target must be append-only.",
    ),
    _setting("aws", th.CustomType(AWS), AWS["description"]),
    _setting(
        "max_workers",
        th.IntegerType(minimum=1),
        "Objects converted at the same time. Default: the number of cores, at least 2. For dask, tasks in flight; "
        "default: two for each thread of the cluster.",
    ),
    _setting(
        "memory_limit_mb",
        th.IntegerType(minimum=64),
        "Megabytes of data in memory, for all objects that are being converted: fetched, decoded, or gathered "
        "for a row group. The process takes up to 250 more.",
        default=512,
    ),
    _setting(
        "emit_activate_version_messages",
        th.BooleanType,
        "Send ACTIVATE_VERSION for streams that the catalog replicates as FULL_TABLE.",
        default=False,
    ),
    _text(
        "executor",
        "Where objects are converted: in `threads` of this process, or on the workers of a `dask` cluster, see "
        "docs/dask.md.",
        allowed_values=["threads", "dask"],
        default="threads",
    ),
    _text(
        "dask_scheduler",
        "For dask: address of the scheduler, such as `tls://dask.example.com:8786`; `tcp://` is for loopback only.",
    ),
    _setting(
        "dask_tls",
        th.ObjectType(
            _text("ca_file", "Path of the certificate of the authority that signed those of the cluster, as PEM."),
            _text("cert_file", "Path of the tap's own certificate, as PEM."),
            _text("key_file", "Path of the key of that certificate, as PEM."),
        ),
        "For dask: certificates for a scheduler at `tls://`.",
    ),
    _setting(
        "dask_wait_seconds",
        th.NumberType(exclusive_minimum=0),
        "For dask: how long a run waits for workers, when there is none, or for an answer of the "
        "scheduler, before it ends with an error.",
        default=600,
    ),
    _setting(
        "dask_shared_files",
        th.BooleanType,
        "For dask: `file://` URLs name folders that this machine and all workers share.",
        default=False,
    ),
    _setting(
        "object_range_mb",
        th.NumberType(minimum=0),
        "Megabytes of the ranges into which larger objects are divided when they are planned, each a task of its "
        "own: uncompressed CSV and JSON Lines, and Parquet. Default: 256 with executor dask and with "
        "`--write-plan`, whose tasks may run on several machines, otherwise 0: never. "
        "Needs `batch_config`.",
    ),
    _setting(
        "schema_sample_files",
        th.IntegerType(minimum=1),
        "From how many objects of a stream, newest and oldest, its schema is inferred.",
        default=5,
    ),
    _setting(
        "schema_sample_mb",
        th.NumberType(exclusive_minimum=0),
        "How many megabytes of each of them are sampled, for formats without a schema of their own.",
        default=1,
    ),
).to_dict()


# The settings of Dask: read, and what must not be sent to a cluster refused. Pure.

_SECRETS = ("access_key_id", "secret_access_key", "session_token", "sse_customer_key")
_NAMES = ("dask_scheduler", "dask_tls")


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of the certificates for a scheduler at tls://."""

    ca_file: str
    cert_file: str
    key_file: str


@dataclass(frozen=True, slots=True)
class DaskSettings:
    """Which cluster runs tasks, and how it is reached.

    `wait_seconds`: how long a cluster without workers, or a scheduler that does not answer, is waited for; `window`:
    tasks in flight, None: two for each thread of the cluster.
    """

    scheduler: str
    tls: Tls | None
    wait_seconds: float
    window: int | None

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, batch: BatchSettings | None, urls: Iterable[Url], aws: AwsOptions
    ) -> DaskSettings | None:
        """Return the settings of Dask; None for the executor threads.

        `urls` are all places that tasks read or write: none may be a local file, nor `aws` or a URL have a secret.
        """
        if config.get("executor", "threads") != "dask":
            if given := next((name for name in _NAMES if name in config), None):
                msg = f"Setting '{given}' is for executor dask; set executor to dask, or leave it out"
                raise ConfigError(msg)
            return None
        scheduler, tls = config.get("dask_scheduler", ""), dict(config.get("dask_tls", {}))
        _check_scheduler(scheduler, tls)
        if batch is None:
            msg = "Setting 'executor' is dask, which needs 'batch_config': workers write batch files, and no records"
            raise ConfigError(msg)
        if secret := next((name for name in _SECRETS if getattr(aws, name)), None):
            msg = (
                f"Setting 'executor' is dask: aws.{secret} would be sent to its scheduler and workers; leave it out, "
                "and let workers use a role of their machine, aws.role_arn or aws.profile"
            )
            raise ConfigError(msg)
        for url in urls:
            if one_line(str(url)) != str(url):
                msg = f"Setting 'executor' is dask: the password in {url} would be sent to its scheduler and workers"
                raise ConfigError(msg)
            if url.scheme == "file" and not config.get("dask_shared_files", False):
                msg = (
                    f"Setting 'executor' is dask: {url} is on a disk of one machine; use an object store, or set "
                    "dask_shared_files to true if all workers have the same folder there"
                )
                raise ConfigError(msg)
        wait = float(config.get("dask_wait_seconds", 600))
        certificates = Tls(**tls) if tls else None
        return cls(scheduler=scheduler, tls=certificates, wait_seconds=wait, window=config.get("max_workers"))


def _check_scheduler(address: str, tls: Mapping[str, str]) -> None:
    if not re.fullmatch(r"(tls|tcp)://(\[[^\]\s]+\]|[^\s/:@]+):\d+", address):
        given = f"is {address!r}" if address else "is missing"
        msg = f"Setting 'dask_scheduler' {given}; it must be the scheduler's address, like tls://dask.example.com:8786"
        raise ConfigError(msg)
    if address.startswith("tcp:"):
        host = urlsplit(address).hostname or ""
        try:
            is_loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            is_loopback = host == "localhost"
        if not is_loopback:
            msg = (
                f"Setting 'dask_scheduler' is {address}: a client that reaches a port without TLS can run code on the "
                "workers; use tls:// and set dask_tls"
            )
            raise ConfigError(msg)
        if tls:
            msg = "Setting 'dask_tls' is for a scheduler at tls://; change dask_scheduler, or leave it out"
            raise ConfigError(msg)
    elif missing := next((name for name in ("ca_file", "cert_file", "key_file") if not tls.get(name)), None):
        msg = f"Setting 'dask_tls.{missing}' is missing: a scheduler at tls:// needs ca_file, cert_file and key_file"
        raise ConfigError(msg)
