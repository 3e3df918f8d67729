"""The settings, declared and checked; the bookmark in STATE."""

from __future__ import annotations

import copy
import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from singer_arrow.batch.message import BatchSettings, batch_setting
from singer_arrow.errors import ConfigError, one_line
from singer_arrow.formats import FORMATS
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.read_options import ReadOptions
from singer_arrow.runtime.threads import default_workers
from singer_arrow.settings import inline, read_settings, setting
from singer_arrow.storage.aws import AwsOptions, aws_setting
from singer_arrow.storage.urls import Url
from tap_s3_files.after_load import AfterLoad
from tap_s3_files.columns import NO_COLUMNS, Columns, ColumnSettings
from tap_s3_files.lake.table import TABLES, TableSettings
from tap_s3_files.paths import (
    Partitions,
    check_date_pattern,
    check_moment,
    check_placeholders,
    group_names,
    has_date,
    moment_in,
    resolve_dates,
    without_names,
)
from tap_s3_files.shards import Shard

# The settings of a stream.

MIB = 1 << 20
TARGET_BYTES = 128 * MIB
"""For segments that are planned without batch files."""
_LEAST_HELD = 8 * MIB
OVERLAP_MINUTES = {"polling": 10, "sqs": 10, "inventory": 2880}
"""How late an object may appear: a listing shows what there is, an inventory may miss its last hours."""
READ = ReadOptions(loose_text=True)
"""How files are read without settings."""


def _urls(given: str | list[str]) -> tuple[Url, ...]:
    return tuple(Url.parse(path) for path in ([given] if isinstance(given, str) else given))


def _bytes(megabytes: float) -> int:
    return int(megabytes * MIB)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """One entry of `streams`.

    `read` has how files are read; `FileStream` adds to it what depends on the catalog and on the run. Numbers are
    accepted in text columns: merging the types of several files may have made the column text.
    """

    name: str = setting("Name of the stream, and of the table it becomes.", required=True)
    urls: tuple[Url, ...] = setting(
        "Which objects: a URL with wildcards (`*`, `**`, `?`, `[abc]`, `{a,b}`), or a list of such URLs. `s3://`, "
        "`gs://`, `az://`, or a local path. A path that ends with `/` means all objects below it. `{date:%Y/%m/%d}` "
        "matches the dates from `start_date` to `end_date`. `{country:*}` is a wildcard with a name: what it matches "
        "becomes a column `country`. `{tenant}` in `path` and `name`: a stream for each folder, and no column.",
        required=True,
        name="path",
        kind=str | tuple[str, ...],
        parse=_urls,
    )
    format: str = setting(
        "Format of the objects; `auto`: from each object's name. `delta`, `iceberg`: a [table](lake-tables.md).",
        default="auto",
        enum=["auto", *FORMATS, *TABLES],
    )
    table: TableSettings = inline(TableSettings())
    key_properties: tuple[str, ...] = setting("Columns that together identify a row.", default=())
    types: Mapping[str, str] = setting(
        "Types of columns, overriding the inferred ones: string, integer, number, boolean, date, time, timestamp, "
        "decimal(p,s), binary, json, or an Arrow type such as int32, uint64, float32; timestamp[ns] and time[ns] keep "
        "nanoseconds.",
        default={},
        name="schema",
    )
    columns: tuple[str, ...] | Columns | None = setting(
        "A list: read these columns only. Or an object from names to what becomes a column of that name: `true` keeps "
        "the files' column, `false` leaves it out, and an object makes it; columns that it does not name stay as they "
        "are ([rename, cast, hash and mask](columns.md)).",
        kind=tuple[str, ...] | Mapping[str, bool | ColumnSettings],
        parse=Columns.parse,
    )
    read: ReadOptions = inline(READ)
    max_bad_rows: int = setting(
        "With on_bad_row: dead_letter, how many rows may be bad per BATCH message (per object, if RECORD messages are "
        "sent); one more ends the run.",
        default=1000,
        minimum=1,
    )
    on_drift: Literal["evolve", "fail", "rescue"] = setting(
        "What to do if a file has columns that the schema lacks, or other types: `evolve` sends a wider SCHEMA before "
        "its rows; `fail` ends the run and names file, column and both types; `rescue` puts what does not fit into the "
        "column `_sdc_rescued`.",
        default="evolve",
    )
    replication_method: Literal["INCREMENTAL", "FULL_TABLE"] | None = setting(
        "What a run sends: `INCREMENTAL`, what is new since its STATE; `FULL_TABLE`, all objects that there are, "
        "without a plan log, in batches with ids of their own. By default what the catalog has, else INCREMENTAL. "
        "`load_method: overwrite` needs FULL_TABLE, or runs without STATE."
    )
    load_method: Literal["append-only", "upsert", "overwrite"] | None = setting(
        "Load method that is sent with the stream; our targets use it where their own settings have none, and others "
        "ignore it."
    )
    archived: Literal["fail", "skip"] = setting(
        "What to do with archived objects (GLACIER, DEEP_ARCHIVE) that were not restored: `fail` ends the run, `skip` "
        "leaves them out for good.",
        default="fail",
    )
    partition_columns: bool = setting(
        "Add a column for each folder such as `year=2024` in the keys: an integer, a date or text, unless `schema` "
        "sets another type.",
        default=False,
    )
    after_load: AfterLoad | None = setting("What becomes of loaded objects on S3 ([sources](clean-up.md#sources)).")
    pattern: str = ""  # of a stream that was found in a folder: the name in the settings, see `folders`
    pattern_urls: tuple[Url, ...] = ()  # and `path` in the settings
    places: tuple[Url, ...] = ()  # and the paths by which its objects are listed, instead of `paths`

    @property
    def is_table(self) -> bool:
        """Whether it is a table of a lake."""
        return self.format in TABLES

    @property
    def paths(self) -> tuple[Url, ...]:
        """Its URLs; groups have lost their names, which `partitions` keeps."""
        return tuple(without_names(url) for url in self.urls)

    @property
    def partitions(self) -> Partitions:
        """Its columns that come from the keys of objects."""
        return Partitions(self.urls if any(map(group_names, self.urls)) else (), hive=self.partition_columns)

    @property
    def chosen(self) -> tuple[str, ...] | None:
        """The only columns to read; None: all."""
        return self.columns if isinstance(self.columns, tuple) else None

    @property
    def mapped(self) -> Columns:
        """What becomes of the columns of files."""
        return self.columns if isinstance(self.columns, Columns) else NO_COLUMNS

    @property
    def rescues(self) -> bool:
        """Whether there is a column for what does not fit."""
        return "rescue" in (self.read.on_bad_row, self.on_drift)

    @property
    def is_dated(self) -> bool:
        """Whether its paths have dates in them, which `start_date` and `end_date` then bound."""
        return has_date(self.urls[0])


def _check_stream(given: Mapping[str, Any], where: str) -> None:
    urls = _urls(given["path"]) if given["name"] and given["path"] and all(given["path"]) else ()
    if not urls:
        raise ConfigError(f"Settings '{where}name' and '{where}path' must not be empty")
    for url in urls:
        if has_date(url) != has_date(urls[0]):
            msg = f"Setting '{where}path': either all paths of a stream have a date in them or none, {url} differs"
            raise ConfigError(msg)
        if has_date(url):
            check_date_pattern(url, f"{where}path")
    check_placeholders(given["name"], urls, where)
    read_settings(TableSettings, given).check(given, urls, where)
    columns = given.get("columns")
    if columns in ([], {}):
        raise ConfigError(f"Setting '{where}columns' is empty; leave it out to read all columns")
    if isinstance(columns, dict):
        Columns.of(columns, f"{where}columns").check_stream(given["name"], given)
    from singer_arrow.casting.spelling import Spelling

    Spelling.of(read_settings(ReadOptions, given))  # raises ConfigError


# The settings of the tap.


@dataclass(frozen=True, slots=True)
class Replication:
    """The setting `replication`."""

    method: Literal["polling", "sqs", "inventory"] = setting(
        "How new objects are found. `polling`: by listing. `sqs`: from the events that S3 sends to a queue. "
        "`inventory`: from the lists that S3 Inventory writes.",
        default="polling",
    )
    overlap_minutes: float | None = setting(
        "For polling and inventory: how many minutes after its time of last change an object may appear in listings "
        "and still be read; by default 10, for inventory 2880. Requires a plan root: `plan_root`.",
        minimum=0,
    )
    keys_ascend: bool = setting(
        "For polling: a promise that keys of later objects sort after those of earlier ones, as with dates in them, "
        "and that none is overwritten. A listing then begins where the last run ended.",
        default=False,
    )
    manifest: Url | None = setting(
        "For inventory: URL of a `manifest.json` of S3 Inventory, or of the folder of an inventory configuration, "
        "ending with `/`: then the newest one below it is used.",
        name="manifest_url",
        kind=str,
        parse=Url.parse,
    )
    queue_url: str = setting("For sqs: URL of the queue.", default="")
    visibility_timeout: int = setting(
        "For sqs: seconds after which a message comes again if this process has died; while it runs, it keeps the "
        "messages it works on invisible.",
        default=300,
        minimum=3,
        maximum=43200,
    )
    max_wait_seconds: float = setting(
        "For sqs: the run ends when the queue has been empty for this many seconds.",
        default=20,
        parse=float,
        minimum=0,
    )
    delete_unmatched: bool = setting(
        "For sqs: what to do with messages that name no object of a stream: `keep` leaves them in the queue for "
        "others; `delete` deletes them, for a queue that has no other reader.",
        default="keep",
        name="unmatched_events",
        kind=Literal["keep", "delete"],
        parse=lambda given: given == "delete",
    )

    @property
    def overlap(self) -> timedelta:
        """How late an object may appear."""
        given = self.overlap_minutes
        return timedelta(minutes=float(OVERLAP_MINUTES[self.method] if given is None else given))


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of the certificates for a scheduler at tls://."""

    ca_file: str = setting(
        "Path of the certificate of the authority that signed those of the cluster, as PEM.", default=""
    )
    cert_file: str = setting("Path of the tap's own certificate, as PEM.", default="")
    key_file: str = setting("Path of the key of that certificate, as PEM.", default="")


@dataclass(frozen=True, slots=True)
class DaskSettings:
    """Which cluster runs tasks, and how it is reached.

    `wait_seconds`: how long a cluster without workers, or a scheduler that does not answer, is waited for; `window`:
    tasks in flight, None: two for each thread of the cluster.
    """

    scheduler: str = setting(
        "For dask: address of the scheduler, such as `tls://dask.example.com:8786`; `tcp://` is for loopback only.",
        default="",
        name="dask_scheduler",
    )
    tls: Tls | None = setting("For dask: certificates for a scheduler at `tls://`.", name="dask_tls")
    wait_seconds: float = setting(
        "For dask: how long a run waits for workers, when there is none, or for an answer of the scheduler, before it "
        "ends with an error.",
        default=600,
        name="dask_wait_seconds",
        parse=float,
        exclusiveMinimum=0,
    )
    shares_files: bool = setting(
        "For dask: `file://` URLs name folders that this machine and all workers share.",
        default=False,
        name="dask_shared_files",
    )
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings."""

    streams: tuple[StreamSettings, ...] = setting(
        "The streams, each with its own objects.",
        required=True,
        examples=[[{"name": "orders", "path": "s3://bucket/orders/**/*.csv"}]],
    )
    defaults: Mapping[str, Any] = setting(
        "Settings of all streams that do not have their own: any of a stream but `name` and `path`.",
        default={},
        kind=dict,
    )
    start: datetime | None = setting(
        "Only objects changed at this time or later. Without a zone: UTC. Also `-7d` (weeks `w` and hours `h` too), "
        "`today`, `yesterday` or a day of the week such as `monday`: the last one. Days begin at midnight UTC. With "
        "STATE these count from the last object read, so that a pause loses nothing.",
        name="start_date",
        kind=str,
        parse=lambda text: moment_in(text, "start_date"),
    )
    end: datetime | None = setting(
        "Only objects changed before this time; in the same words.",
        name="end_date",
        kind=str,
        parse=lambda text: moment_in(text, "end_date"),
    )
    moments: tuple[str, str] = ("", "")
    """Start and end as they are given."""
    replication: Replication = setting("How the tap finds new objects.", default=Replication())
    batch: BatchSettings | None = batch_setting()
    plan_root: Url | None = setting(
        "URL below which the plan log is kept: which objects were read as which batches, decided for ever. Without it, "
        "batches that are loaded could not be recognised, so remove it only with the stream's table and STATE. By "
        "default the root of the batch storage.",
        kind=str,
        parse=Url.parse,
    )
    passthrough: bool = setting(
        "Put objects that already are batch files into manifests as they are, without reading their rows: Parquet with "
        "the columns and types of SCHEMA, or gzip JSON Lines. The target must be able to read them where they are. "
        "Other objects are converted, and the reason is logged; metadata_columns must be false.",
        default=False,
    )
    metadata_columns: bool = setting(
        "Add `_sdc_source_bucket`, `_sdc_source_file`, `_sdc_source_lineno`, `_sdc_source_modified_at` and "
        "`_sdc_source_etag` to each row.",
        default=True,
    )
    shard: Shard | None = setting(
        "`2/4`: this run is number 2, from 0, of 4 that share the plan which `--write-plan` has written. It lists "
        "nothing and sends its tasks of the plan only. It needs `--catalog`, `batch_config`, and a STATE of its own. "
        "The target must be append-only.",
        kind=str,
        parse=Shard.parse,
    )
    aws: AwsOptions = aws_setting()
    workers: int | None = setting(
        "Objects converted at the same time. Default: the number of cores, at least 2. For dask, tasks in flight; "
        "default: two for each thread of the cluster.",
        name="max_workers",
        minimum=1,
    )
    memory_bytes: int = setting(
        "Megabytes of data in memory, for all objects that are being converted: fetched, decoded, or gathered for a "
        "row group. The process takes up to 250 more.",
        default=512,
        name="memory_limit_mb",
        parse=_bytes,
        minimum=64,
    )
    emit_activate_version_messages: bool = setting(
        "Send ACTIVATE_VERSION for streams that the catalog replicates as FULL_TABLE.", default=False
    )
    executor: Literal["threads", "dask"] = setting(
        "Where objects are converted: in `threads` of this process, or on the workers of a `dask` cluster, see "
        "docs/dask.md.",
        default="threads",
    )
    cluster: DaskSettings = inline(DaskSettings())
    range_bytes: int | None = setting(
        "Megabytes of the ranges into which larger objects are divided when they are planned, each a task of its own: "
        "uncompressed CSV and JSON Lines, and Parquet. Default: 256 with executor dask and with `--write-plan`, whose "
        "tasks may run on several machines, otherwise 0: never. Needs `batch_config`.",
        name="object_range_mb",
        kind=float,
        parse=_bytes,
        minimum=0,
    )
    sample_files: int = setting(
        "From how many objects of a stream, newest and oldest, its schema is inferred.",
        default=5,
        name="schema_sample_files",
        minimum=1,
    )
    sample_bytes: int = setting(
        "How many megabytes of each of them are sampled, for formats without a schema of their own.",
        default=1,
        name="schema_sample_mb",
        kind=float,
        parse=_bytes,
        exclusiveMinimum=0,
    )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read a configuration that the JSON Schema has found valid; ConfigError if settings contradict each other."""
        for number, stream in enumerate(config.get("streams", ())):
            _check_stream(stream, f"streams[{number}].")
        moments = config.get("start_date") or "", config.get("end_date") or ""
        settings = replace(read_settings(cls, config), moments=moments)
        if settings.plan_root is None and settings.batch is not None:
            settings = replace(settings, plan_root=settings.batch.root)
        names = [s.name for s in settings.streams]
        if not names:
            raise ConfigError("Setting 'streams' is empty; give it at least one stream, with a name and a path")
        if twice := next((n for n in names if names.count(n) > 1), None):
            raise ConfigError(f"Setting 'streams' has two streams named {twice!r}; give each a name of its own")
        start, end = settings.start, settings.end
        if start and end and start >= end:
            raise ConfigError("Setting 'start_date' must be before 'end_date'")
        for stream in (s for s in settings.streams if s.is_dated):
            if end and not start:
                raise ConfigError(
                    f"Stream {stream.name!r} has dates in its path: set 'start_date' too, the first date that there is"
                )
            for path in stream.paths:
                check_moment(path, start, "start_date")
                check_moment(path, end, "end_date")
        _check_replication(settings)
        _check_executor(settings)
        if settings.aws.sse_customer_key and settings.passthrough:
            msg = "Setting 'passthrough' would send objects that only aws.sse_customer_key decrypts; set one of them"
            raise ConfigError(msg)
        return settings

    @staticmethod
    def complete(config: dict[str, Any]) -> None:
        """Give each stream of a configuration what it has not of `defaults`."""
        defaults, streams = config.get("defaults"), config.get("streams")
        if isinstance(defaults, dict) and isinstance(streams, list):
            config["streams"] = [_merged(defaults, s) if isinstance(s, dict) else s for s in streams]

    def behind(self, passed: datetime | None) -> Settings:
        """Return the settings for a stream that is read up to a time: a relative `start_date` counts from there.

        A stream that was not read for longer than `-7d` would lose objects otherwise.
        """
        if passed is None or not self.moments[0]:
            return self
        passed = min(passed.astimezone(UTC), datetime.now(UTC))
        return replace(self, start=moment_in(self.moments[0], "start_date", passed))

    @property
    def sqs(self) -> Replication | None:
        """The replication by a queue that names new objects, if there is one."""
        return self.replication if self.replication.method == "sqs" else None

    @property
    def dask(self) -> DaskSettings | None:
        """The cluster on which objects are converted; None: in this process."""
        return replace(self.cluster, window=self.workers) if self.executor == "dask" else None

    @property
    def max_workers(self) -> int:
        """Objects that this process converts at the same time."""
        return self.workers or default_workers()

    @property
    def target_bytes(self) -> int:
        """Requested size of batch files, also of those that a later run makes of what this one plans."""
        return self.batch.target_bytes if self.batch is not None else TARGET_BYTES

    @property
    def held_bytes(self) -> int:
        """Bytes of rows that each worker gathers before they are encoded: of all, an eighth of the memory."""
        return max(_LEAST_HELD, min(HELD_BYTES, self.memory_bytes // 8 // self.max_workers))

    def window(self, stream: StreamSettings) -> tuple[datetime | None, datetime | None]:
        """Return the bounds of the objects' last modification; dates in a stream's paths bound them already."""
        return (None, None) if stream.is_dated else (self.start, self.end)

    def paths(self, stream: StreamSettings, *, begin: Url | None = None) -> list[Url]:
        """Return the paths of a stream with the dates of today; see `resolve_dates`."""
        return resolve_dates(stream.places or stream.paths, self.start, self.end, datetime.now(UTC), begin=begin)


def _merged(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return settings with those of the defaults that they have not, also of objects within them."""
    both = {
        name: _merged(value, given[name])
        for name, value in defaults.items()
        if isinstance(value, dict) and isinstance(given.get(name), dict)
    }
    return {**copy.deepcopy(defaults), **given, **both}


def _check_replication(settings: Settings) -> None:
    method, url = settings.replication.method, settings.replication.queue_url
    elsewhere = next((p for s in settings.streams for p in s.paths if p.scheme != "s3"), None)
    if method != "sqs" and url:
        msg = "Setting 'replication.queue_url' is for the method sqs; set replication.method to sqs, or leave it out"
        raise ConfigError(msg)
    if method == "sqs" and not re.match(r"https?://[^/]+/.", url):
        given = f"is {url!r}, it must be the queue's URL" if url else "is missing: the URL of the queue"
        msg = f"Setting 'replication.queue_url' {given}, like https://sqs.eu-west-1.amazonaws.com/123456789012/events"
        raise ConfigError(msg)
    if method == "sqs" and settings.plan_root is None:
        raise ConfigError(
            "Setting 'replication.method' is sqs: it needs 'plan_root', a place that outlives the run, where what the "
            "queue named is stored before its messages are deleted"
        )
    if method == "sqs" and elsewhere:
        msg = f"Setting 'replication.method' is sqs, which names objects on S3 only; {elsewhere} needs polling"
        raise ConfigError(msg)
    if (method == "inventory") != (settings.replication.manifest is not None):
        raise ConfigError(
            "Setting 'replication.manifest_url' is missing: the URL of a manifest.json of S3 Inventory"
            if method == "inventory"
            else "Setting 'replication.manifest_url' is for the method inventory; set replication.method to inventory"
        )
    if method == "inventory" and elsewhere:
        msg = f"Setting 'replication.method' is inventory, which lists objects on S3 only; {elsewhere} needs polling"
        raise ConfigError(msg)


def _check_executor(settings: Settings) -> None:
    """Refuse shards and clusters that would load rows twice, get secrets, or need files that they cannot read."""
    batch, dask, tls = settings.batch, settings.dask, settings.cluster.tls
    if settings.shard and batch is None:
        raise ConfigError("Setting 'shard' needs 'batch_config': rows that are sent as records twice are loaded twice")
    if settings.shard and settings.sqs:
        msg = "Setting 'shard' is not for replication.method sqs, where no run lists; use polling or inventory"
        raise ConfigError(msg)
    if dask is None:
        if given := "dask_scheduler" if settings.cluster.scheduler else "dask_tls" if tls else None:
            raise ConfigError(f"Setting '{given}' is for executor dask; set executor to dask, or leave it out")
        return
    # The scheduler, which a client can let run any code
    address, tls = dask.scheduler, tls or Tls()
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
            raise ConfigError(
                f"Setting 'dask_scheduler' is {address}: a client that reaches a port without TLS can run code on the "
                "workers; use tls:// and set dask_tls"
            )
        if tls != Tls():
            raise ConfigError("Setting 'dask_tls' is for a scheduler at tls://; change dask_scheduler, or leave it out")
    elif missing := next((f.name for f in fields(tls) if not getattr(tls, f.name)), None):
        msg = f"Setting 'dask_tls.{missing}' is missing: a scheduler at tls:// needs ca_file, cert_file and key_file"
        raise ConfigError(msg)
    # What workers need
    if name := next((s.name for s in settings.streams if s.mapped.has_hash or s.read.decryption), None):
        msg = f"Stream {name!r} has decryption, or a hash in columns, whose secrets workers of a cluster do not have"
        raise ConfigError(f"{msg}; set executor to threads")
    if batch is None:
        msg = "Setting 'executor' is dask, which needs 'batch_config': workers write batch files, and no records"
        raise ConfigError(msg)
    if secret := next((f.name for f in fields(AwsOptions) if not f.repr and getattr(settings.aws, f.name)), None):
        raise ConfigError(
            f"Setting 'executor' is dask: aws.{secret} would be sent to its scheduler and workers; leave it out, "
            "and let workers use a role of their machine, aws.role_arn or aws.profile"
        )
    for url in (*(url for s in settings.streams for url in s.paths), batch.root, settings.plan_root or batch.root):
        if one_line(str(url)) != str(url):
            msg = f"Setting 'executor' is dask: the password in {url} would be sent to its scheduler and workers"
            raise ConfigError(msg)
        if url.scheme == "file" and not dask.shares_files:
            raise ConfigError(
                f"Setting 'executor' is dask: {url} is on a disk of one machine; use an object store, or set "
                "dask_shared_files to true if all workers have the same folder there"
            )


def rows_identity(stream: StreamSettings, deselected: Iterable[str], *, metadata_columns: bool) -> str:
    """Identify the settings that decide which rows a stream's files give, and with which values.

    The catalog leaves out the `deselected` columns.
    """
    read, apart = stream.read, {"compression", "on_bad_row", "decryption"}
    columns = stream.mapped.identity() if stream.mapped.entries else stream.columns
    options = ((f.name, getattr(read, f.name), getattr(READ, f.name)) for f in fields(read) if f.name not in apart)
    as_by_default = {("header", True)}  # says what it is by default
    changed = sorted(
        (n, value) for n, value, default in options if value != default and (n, value) not in as_by_default
    )
    some = (stream.format, read.compression, sorted(stream.types.items()), columns, read.on_bad_row)
    more = (stream.on_drift, changed, stream.partitions, sorted(deselected), metadata_columns)
    return hashlib.sha256(repr((some, more)).encode()).hexdigest()[:16]


# What the STATE of a stream holds, and how it moves. Pure.
#
#     {"last_modified": "2024-05-01T10:00:00+00:00", "key": "s3://bucket/a.csv", "segment": 17, "done": 42,
#      "ahead": [45, 47], "rows": 1310720, "log": "5f0c...", "batch": "3f9c...", "left_out": ["81d4..."], "shard": ""}
#
# Every key is always there, and no value is null or an object. Meltano merges a STATE into the former one key by key,
# so a key that is left out would keep its former value. At the start of a stream all values are empty.
#
# `log` is the id of the plan log that the numbers are of; without a log, only the watermark counts: `last_modified` and
# `key`. It is where the objects of segments before this one end; of this segment, the tasks below `done` and those in
# `ahead` are sent, and of the task number `done`, if it reads one large object, the first `rows` rows. `batch` was sent
# last, and planned objects of none of the paths of the digest in `left_out` were passed over. Its size does not depend
# on them. Earlier versions wrote the watermark as an object, and left out what was empty.

_OF_THE_SDK = {"partitions", "progress_markers", "replication_key_signpost", "starting_replication_value"}
"""Keys that the SDK may leave in an entry; they are no part of a bookmark."""
_PARTS = ("segment", "done", "ahead", "rows", "log", "batch", "left_out")
"""Keys of a bookmark besides its watermark."""
_YEARS = (1, 9999)  # of datetime


@dataclass(frozen=True, slots=True, order=True)
class Watermark:
    """A place in the order of objects: by time of last change, then by URL."""

    last_modified: datetime
    key: str

    def to_json(self) -> dict[str, str]:
        """Encode for STATE and segments."""
        return {"last_modified": self.last_modified.astimezone(UTC).isoformat(), "key": self.key}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Watermark:
        """Read what `to_json` wrote; KeyError, TypeError or ValueError: it is something else."""
        moment = datetime.fromisoformat(value["last_modified"])
        if not _YEARS[0] < moment.year < _YEARS[1]:  # the overlap and other zones need room
            raise ValueError
        if not isinstance(value["key"], str):
            raise TypeError
        return cls(moment if moment.tzinfo else moment.replace(tzinfo=UTC), value["key"])


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Position of a stream in its plan; `batch` is the last one before it that has rows."""

    watermark: Watermark | None = None
    segment: int = 0
    done: int = 0
    ahead: tuple[int, ...] = ()
    rows: int = 0
    log: str = ""
    batch: str = field(default="", compare=False)
    left_out: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_begun(self) -> bool:
        """Whether something of its segment is sent."""
        return bool(self.done or self.ahead or self.rows)

    def is_sent(self, task: int) -> bool:
        """Return whether a task of the bookmark's segment is sent."""
        return task < self.done or task in self.ahead

    def sent(self, task: int) -> Bookmark:
        """Return the bookmark after a task of its segment was sent, in any order."""
        ahead = {task, *self.ahead}
        done = self.done
        while done in ahead:
            done += 1
        rows = self.rows if done == self.done else 0
        return replace(self, done=done, ahead=tuple(sorted(t for t in ahead if t > done)), rows=rows)

    def to_state(self) -> dict[str, Any]:
        """Return the stream's entry in STATE: flat, and with every key."""
        mark = self.watermark.to_json() if self.watermark else {"last_modified": "", "key": ""}
        parts = {name: getattr(self, name) for name in _PARTS}
        return mark | {name: list(part) if isinstance(part, tuple) else part for name, part in parts.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], stream: str) -> Bookmark | None:
        """Read the stream's entry in STATE; None if it has no bookmark, or that of a stream at its start."""
        if not state.keys() - _OF_THE_SDK and not state.get("partitions"):  # these are of another tap
            return None
        try:
            parts = {name: state[name] for name in ("last_modified", "key", *_PARTS)} if "key" in state else None
            if parts is None:  # of an earlier version
                if state.keys().isdisjoint(("watermark", "segment", "done", "ahead")):
                    raise KeyError
                mark, left_out = state.get("watermark"), state.get("left_out")
                parts = {"last_modified": "", "key": "", "segment": 0, "done": 0, "ahead": (), "rows": 0}
                parts |= {"log": "", "batch": "", **state, "left_out": [left_out] if left_out else ()}
                parts |= {"last_modified": mark["last_modified"], "key": mark["key"]} if mark is not None else {}
            segment, done, ahead, rows, log, batch, left_out = (parts[name] for name in _PARTS)
            ahead, left_out = tuple(ahead), tuple(left_out)
            numbers, texts = (segment, done, rows, *ahead), (log, batch, *left_out)
            if not (all(isinstance(n, int) and n >= 0 for n in numbers) and all(isinstance(t, str) for t in texts)):
                raise TypeError
            is_marked = parts["last_modified"] != "" or parts["key"] != ""
            watermark = Watermark.from_json(parts) if is_marked else None
            found = cls(watermark, segment, done, ahead, rows, log, batch, left_out)
            return found if found != cls() or batch or left_out else None
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ConfigError(
                f"The STATE of stream {stream!r} is not one that this tap wrote; "
                "restore an earlier one, or run without the stream's state to read all objects again"
            ) from None


def latest(a: Watermark | None, b: Watermark | None) -> Watermark | None:
    """Return the later of two places; None is before all."""
    return max((w for w in (a, b) if w is not None), default=None)
