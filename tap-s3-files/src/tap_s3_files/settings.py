"""The settings: read, defaulted and checked; shards; the bookmark in STATE."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from singer_arrow.batch.message import BatchSettings
from singer_arrow.errors import ConfigError
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.read_options import FixedColumn, ReadOptions
from singer_arrow.runtime.threads import default_workers
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.urls import Url
from tap_s3_files.config_schema import DaskSettings
from tap_s3_files.paths import (
    NO_PARTITIONS,
    Partitions,
    check_date_pattern,
    check_groups,
    check_moment,
    group_names,
    has_date,
    resolve_dates,
    without_names,
)

# Which tasks of a plan log one of several independent runs takes, and what it refuses. Pure.


def shard_of(segment: int, task: int, count: int) -> int:
    """Return which of `count` shards sends a task of a segment, both by their numbers.

    Each segment begins with another shard than the one before it: otherwise the first shards would always have one task
    more, and segments of one task would all be the first shard's.
    """
    return (segment + task) % count


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` runs that share the tasks of a plan log; `index` is its number from 0."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard that the setting `shard` names."""
        found = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
        if found is None or int(found[1]) >= int(found[2]):
            msg = f"Setting 'shard' is {text!r}, it must be like 0/4: the number of this run, from 0, and of how many"
            raise ConfigError(msg)
        return cls(int(found[1]), int(found[2]))

    def takes(self, segment: int, task: int) -> bool:
        """Return whether this run sends a task of a segment."""
        return shard_of(segment, task, self.count) == self.index


def check_state(given: Mapping[str, Any], stream: str, shard: Shard | None) -> None:
    """Check that a run may begin at the STATE of a stream: its own, or that of a run without shards.

    That of another shard has passed tasks that were never sent.
    """
    theirs = given.get("shard")
    if theirs is not None and theirs != (str(shard) if shard else None):
        ours = f"of shard {shard}" if shard else "without setting 'shard'"
        msg = (
            f"The STATE of stream {stream!r} is of shard {theirs} and this run is {ours}: give it a STATE of its own "
            "(Meltano: --state-id-suffix); without STATE it follows the whole plan, and a target skips what is loaded"
        )
        raise ConfigError(msg)


# The settings of the tap, read and checked; declared in `config_schema`.

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


# What the STATE of a stream holds, and how it moves. Pure.
#
#     {"watermark": {"last_modified": "2024-05-01T10:00:00+00:00", "key": "s3://bucket/a.csv"} | null,
#      "segment": 17, "done": 42, "ahead": [45, 47], "rows": 1310720, "log": "5f0c..."}
#
# `log` is the id of the plan log that the numbers are of; without a log, only the watermark counts. The watermark is
# where the objects of segments before this one end; of this segment, the tasks below `done` and those in `ahead` are
# sent, and of the task number `done`, if it reads one large object, the first `rows` rows. Its size does not depend on
# the number of objects.

_OF_THE_SDK = {"partitions", "progress_markers", "replication_key_signpost", "starting_replication_value"}
"""Keys that the SDK may leave in an entry; they are no part of a bookmark."""
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
    """Position of a stream in its plan."""

    watermark: Watermark | None = None
    segment: int = 0
    done: int = 0
    ahead: tuple[int, ...] = ()
    rows: int = 0
    log: str = ""

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

    def segment_sent(self, end: Watermark | None) -> Bookmark:
        """Return the bookmark after all tasks of its segment were sent; the segment ends at `end`."""
        return Bookmark(latest(self.watermark, end), self.segment + 1, log=self.log)

    def to_state(self) -> dict[str, Any]:
        """Return the stream's entry in STATE."""
        return {
            "watermark": self.watermark.to_json() if self.watermark else None,
            "segment": self.segment,
            "done": self.done,
            "ahead": list(self.ahead),
            **({"rows": self.rows} if self.rows else {}),
            **({"log": self.log} if self.log else {}),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], stream: str) -> Bookmark | None:
        """Read the stream's entry in STATE; None if it has no bookmark."""
        if not state.keys() - _OF_THE_SDK and not state.get("partitions"):  # these are of another tap
            return None
        try:
            if state.keys().isdisjoint(("watermark", "segment", "done", "ahead")):
                raise KeyError
            mark = state.get("watermark")
            segment, done, ahead = state.get("segment", 0), state.get("done", 0), tuple(state.get("ahead", ()))
            rows, log = state.get("rows", 0), state.get("log", "")
            if not all(isinstance(n, int) and n >= 0 for n in (segment, done, rows, *ahead)) or not isinstance(
                log, str
            ):
                raise TypeError
            return cls(Watermark.from_json(mark) if mark is not None else None, segment, done, ahead, rows, log)
        except (AttributeError, KeyError, TypeError, ValueError):
            msg = (
                f"The STATE of stream {stream!r} is not one that this tap wrote; "
                "restore an earlier one, or run without the stream's state to read all objects again"
            )
            raise ConfigError(msg) from None


def latest(a: Watermark | None, b: Watermark | None) -> Watermark | None:
    """Return the later of two places; None is before all."""
    return max((w for w in (a, b) if w is not None), default=None)
