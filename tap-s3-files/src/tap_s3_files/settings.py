"""The settings of the tap, read and checked; declared in `config_schema`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from singer_arrow.batch.settings import BatchSettings
from singer_arrow.errors import ConfigError
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.read_options import FixedColumn, ReadOptions
from singer_arrow.runtime.threads import default_workers
from singer_arrow.storage.aws_options import AwsOptions
from singer_arrow.storage.urls import Url
from tap_s3_files.dask.settings import DaskSettings
from tap_s3_files.paths.date_paths import check_date_pattern, check_moment, has_date, resolve_dates
from tap_s3_files.paths.partition_columns import NO_PARTITIONS, Partitions, check_groups, group_names, without_names
from tap_s3_files.shard import Shard

MIB = 1 << 20
TARGET_BYTES = 128 * MIB
"""For segments that are planned without batch files."""
_LEAST_HELD = 8 * MIB
OVERLAP_MINUTES = {"polling": 10, "sqs": 10, "inventory": 2880}
"""How late an object may appear: a listing shows what there is, an inventory may miss its last hours."""
READ = ReadOptions(loose_text=True)
"""How files are read without settings."""
_SPELLING = (
    "date_formats",
    "timestamp_formats",
    "decimal_point",
    "thousands_separator",
    "true_values",
    "false_values",
    "type_tolerance",
)
"""Settings of a stream that `ReadOptions` has under the same names."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """One entry of `streams`. Groups of `paths` have lost their names, which `partitions` keeps.

    `read` has how files are read; `FileStream` adds to it what depends on the catalog and on the run. Numbers are
    accepted in text columns: merging the types of several files may have made the column text.
    """

    name: str
    paths: tuple[Url, ...]
    format: str = "auto"
    key_properties: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    read: ReadOptions = READ
    partitions: Partitions = NO_PARTITIONS
    on_drift: str = "evolve"
    max_bad_rows: int = 1000
    archived: str = "fail"
    replication_method: str | None = None

    @property
    def rescues(self) -> bool:
        """Whether there is a column for what does not fit."""
        return "rescue" in (self.read.on_bad_row, self.on_drift)

    @property
    def is_dated(self) -> bool:
        """Whether its paths have dates in them, which `start_date` and `end_date` then bound."""
        return has_date(self.paths[0])


@dataclass(frozen=True, slots=True)
class SqsSettings:
    """Settings of the replication method sqs."""

    queue_url: str
    visibility_timeout: int = 300
    max_wait_seconds: float = 20
    delete_unmatched: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, read and checked."""

    streams: tuple[StreamSettings, ...]
    start: datetime | None
    end: datetime | None
    batch: BatchSettings | None
    plan_root: Url | None
    overlap: timedelta
    keys_ascend: bool
    manifest: Url | None
    sqs: SqsSettings | None
    metadata_columns: bool
    passthrough: bool
    aws: AwsOptions
    max_workers: int
    memory_bytes: int
    sample_files: int
    sample_bytes: int
    shard: Shard | None = None
    dask: DaskSettings | None = None
    range_bytes: int | None = None

    @property
    def target_bytes(self) -> int:
        """Requested size of batch files, also of those that a later run makes of what this one plans."""
        return self.batch.target_bytes if self.batch is not None else TARGET_BYTES

    @property
    def held_bytes(self) -> int:
        """Bytes of rows that each worker gathers before they are encoded: of all, an eighth of the memory.

        It makes row groups of 32 MiB at the defaults on two cores, and of at least 8 MiB.
        """
        return max(_LEAST_HELD, min(HELD_BYTES, self.memory_bytes // 8 // self.max_workers))

    def window(self, stream: StreamSettings) -> tuple[datetime | None, datetime | None]:
        """Return the bounds of the objects' last modification; dates in a stream's paths bound them already."""
        return (None, None) if stream.is_dated else (self.start, self.end)

    def paths(self, stream: StreamSettings, *, begin: Url | None = None) -> list[Url]:
        """Return the paths of a stream with the dates of today; see `resolve_dates`."""
        return resolve_dates(stream.paths, self.start, self.end, datetime.now(UTC), begin=begin)

    def is_backfill(self, stream: StreamSettings) -> bool:
        """Return whether only places of some dates are listed, so that an empty one is no error."""
        return stream.is_dated and self.start is not None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read a configuration that the JSON Schema has found valid."""
        config = _given(config)
        streams = tuple(_stream(s, number) for number, s in enumerate(config.get("streams", ())))
        names = [s.name for s in streams]
        if not names:
            msg = "Setting 'streams' is empty; give it at least one stream, with a name and a path"
            raise ConfigError(msg)
        if twice := next((n for n in names if names.count(n) > 1), None):
            msg = f"Setting 'streams' has two streams named {twice!r}; give each a name of its own"
            raise ConfigError(msg)
        start, end = _moment(config, "start_date"), _moment(config, "end_date")
        if start and end and start >= end:
            msg = "Setting 'start_date' must be before 'end_date'"
            raise ConfigError(msg)
        for stream in (s for s in streams if s.is_dated):
            if end and not start:
                msg = (
                    f"Stream {stream.name!r} has dates in its path: set 'start_date' too, the first date that there is"
                )
                raise ConfigError(msg)
            for path in stream.paths:
                check_moment(path, start, "start_date")
                check_moment(path, end, "end_date")
        batch = BatchSettings.from_config(config.get("batch_config"))
        root = Url.parse(config["plan_root"]) if "plan_root" in config else batch.root if batch else None
        replication = _given(config.get("replication", {}))
        method = replication.get("method", "polling")
        sqs = _sqs(replication, streams, root)
        aws = AwsOptions.from_config(config.get("aws"))
        if aws.sse_customer_key and config.get("passthrough"):
            msg = "Setting 'passthrough' would send objects that only aws.sse_customer_key decrypts; set one of them"
            raise ConfigError(msg)
        places = [url for s in streams for url in s.paths] + [url for url in (batch and batch.root, root) if url]
        return cls(
            streams=streams,
            start=start,
            end=end,
            batch=batch,
            plan_root=root,
            overlap=timedelta(minutes=float(replication.get("overlap_minutes", OVERLAP_MINUTES[method]))),
            keys_ascend=replication.get("keys_ascend", False),
            manifest=_manifest(replication, streams),
            sqs=sqs,
            metadata_columns=config.get("metadata_columns", True),
            passthrough=config.get("passthrough", False),
            aws=aws,
            max_workers=config.get("max_workers", default_workers()),
            memory_bytes=config.get("memory_limit_mb", 512) * MIB,
            sample_files=config.get("schema_sample_files", 5),
            sample_bytes=int(config.get("schema_sample_mb", 1) * MIB),
            shard=_shard(config, batch, sqs),
            dask=DaskSettings.from_config(config, batch=batch, urls=places, aws=aws),
            range_bytes=int(config["object_range_mb"] * MIB) if "object_range_mb" in config else None,
        )


def rows_identity(stream: StreamSettings, deselected: Iterable[str], *, metadata_columns: bool) -> str:
    """Identify the settings that decide which rows a stream's files give, and with which values.

    The catalog leaves out the `deselected` columns.
    """
    read, apart = stream.read, {"compression", "on_bad_row"}
    options = ((f.name, getattr(read, f.name), getattr(READ, f.name)) for f in fields(read) if f.name not in apart)
    changed = sorted((name, value) for name, value, default in options if value != default)
    some = (stream.format, read.compression, sorted(stream.types.items()), stream.columns, read.on_bad_row)
    more = (stream.on_drift, changed, stream.partitions, sorted(deselected), metadata_columns)
    return hashlib.sha256(repr((some, more)).encode()).hexdigest()[:16]


def _given(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not null."""
    return {k: v for k, v in config.items() if v is not None}


def _stream(config: Mapping[str, Any], number: int) -> StreamSettings:
    config = _given(config)
    where = f"streams[{number}]."
    paths = [config["path"]] if isinstance(config["path"], str) else config["path"]
    if not config["name"] or not paths or not all(paths):
        msg = f"Settings '{where}name' and '{where}path' must not be empty"
        raise ConfigError(msg)
    urls = tuple(Url.parse(p) for p in paths)
    for url in urls:
        if has_date(url) != has_date(urls[0]):
            msg = f"Setting '{where}path': either all paths of a stream have a date in them or none, {url} differs"
            raise ConfigError(msg)
        if has_date(url):
            check_date_pattern(url, f"{where}path")
    check_groups(urls, f"{where}path")
    columns = config.get("columns")
    if columns is not None and not columns:
        msg = f"Setting '{where}columns' is empty; leave it out to read all columns"
        raise ConfigError(msg)
    return StreamSettings(
        name=config["name"],
        paths=tuple(without_names(url) for url in urls),
        format=config.get("format", "auto"),
        key_properties=tuple(config.get("key_properties", ())),
        types=config.get("schema", {}),
        columns=tuple(columns) if columns else None,
        read=_read_options(config),
        partitions=Partitions(urls if group_names(urls[0]) else (), hive=config.get("partition_columns", False)),
        on_drift=config.get("on_drift", "evolve"),
        max_bad_rows=config.get("max_bad_rows", 1000),
        archived=config.get("archived", "fail"),
        replication_method=config.get("replication_method"),
    )


def _read_options(config: Mapping[str, Any]) -> ReadOptions:
    """Return how a stream's files are read."""
    options = {name: config[name] for name in ("compression", "on_bad_row") if name in config}
    options |= _given(config.get("csv", {}))
    if "null_values" in options:
        options["null_values"] = tuple(options["null_values"])
    spelling = {name: config[name] for name in _SPELLING if config.get(name) is not None}
    options |= {name: tuple(value) if isinstance(value, list) else value for name, value in spelling.items()}
    options |= _given(config.get("excel", {}))
    if columns := config.get("fixed_width"):
        options["fixed_width"] = tuple(FixedColumn(**c) for c in columns)
    read = replace(READ, **options)
    if spelling:
        from singer_arrow.casting.spelling import Spelling

        Spelling.of(read)
    return read


def _manifest(config: Mapping[str, Any], streams: Sequence[StreamSettings]) -> Url | None:
    is_inventory = config.get("method", "polling") == "inventory"
    if is_inventory != ("manifest_url" in config):
        msg = (
            "Setting 'replication.manifest_url' is missing: the URL of a manifest.json of S3 Inventory"
            if is_inventory
            else "Setting 'replication.manifest_url' is for the method inventory; set replication.method to inventory"
        )
        raise ConfigError(msg)
    if is_inventory and (elsewhere := next((p for s in streams for p in s.paths if p.scheme != "s3"), None)):
        msg = f"Setting 'replication.method' is inventory, which lists objects on S3 only; {elsewhere} needs polling"
        raise ConfigError(msg)
    return Url.parse(config["manifest_url"]) if is_inventory else None


def _shard(config: Mapping[str, Any], batch: BatchSettings | None, sqs: SqsSettings | None) -> Shard | None:
    if "shard" not in config:
        return None
    if batch is None:
        msg = "Setting 'shard' needs 'batch_config': rows that are sent as records twice are loaded twice"
        raise ConfigError(msg)
    if sqs is not None:
        msg = "Setting 'shard' is not for replication.method sqs, where no run lists; use polling or inventory"
        raise ConfigError(msg)
    return Shard.parse(config["shard"])


def _sqs(config: Mapping[str, Any], streams: Sequence[StreamSettings], root: Url | None) -> SqsSettings | None:
    if config.get("method", "polling") != "sqs":
        if "queue_url" in config:
            msg = (
                "Setting 'replication.queue_url' is for the method sqs; set replication.method to sqs, or leave it out"
            )
            raise ConfigError(msg)
        return None
    url = config.get("queue_url", "")
    if not re.match(r"https?://[^/]+/.", url):
        given = f"is {url!r}, it must be the queue's URL" if url else "is missing: the URL of the queue"
        msg = f"Setting 'replication.queue_url' {given}, like https://sqs.eu-west-1.amazonaws.com/123456789012/events"
        raise ConfigError(msg)
    if root is None:
        msg = (
            "Setting 'replication.method' is sqs: it needs 'plan_root', a place that outlives the run, where what the "
            "queue named is stored before its messages are deleted"
        )
        raise ConfigError(msg)
    if elsewhere := next((p for s in streams for p in s.paths if p.scheme != "s3"), None):
        msg = f"Setting 'replication.method' is sqs, which names objects on S3 only; {elsewhere} needs polling"
        raise ConfigError(msg)
    return SqsSettings(
        queue_url=url,
        visibility_timeout=config.get("visibility_timeout", 300),
        max_wait_seconds=float(config.get("max_wait_seconds", 20)),
        delete_unmatched=config.get("unmatched_events") == "delete",
    )


def _moment(config: Mapping[str, Any], name: str) -> datetime | None:
    if name not in config:
        return None
    try:
        moment = datetime.fromisoformat(config[name])
    except ValueError:
        msg = f"Setting {name!r} is {config[name]!r}, it must be a date or a time like 2024-05-01T00:00:00Z"
        raise ConfigError(msg) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
