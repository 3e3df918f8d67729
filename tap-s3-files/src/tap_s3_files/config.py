"""The settings of the tap: declared, defaulted and read in this one place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from singer_sdk import typing as th

from singer_arrow.aws import AwsOptions
from singer_arrow.compression import CODECS
from singer_arrow.errors import ConfigError
from singer_arrow.executors import default_workers
from singer_arrow.formats import FORMATS, FixedColumn
from singer_arrow.singer.declare import AWS
from singer_arrow.urls import Url
from tap_s3_files.dates import check, check_moment, dated, has_date

COMPRESSIONS = ("auto", *CODECS)
BATCH_COMPRESSIONS = {"parquet": ("zstd", "snappy", "gzip", "none"), "jsonl": ("gzip", "none")}
"""What batch files may be compressed with; the first is the default."""
METHODS = ("polling", "sqs", "inventory")
MIB = 1 << 20

_LATER = {
    "passthrough": False,
    "executor": "threads",
    "on_bad_row": "fail",
    "on_drift": "evolve",
}
"""Settings of which one value is available yet."""


def _text(name: str, description: str, **more: Any) -> th.Property[str]:
    return th.Property(name, th.StringType, description=description, **more)


_CSV = th.ObjectType(
    _text("delimiter", "What parts the values of a line; by default a tab in `.tsv`, `|` in `.psv`, else a comma."),
    _text("quote", "What quotes a value. Empty: nothing does.", default='"'),
    _text("escape", "What escapes a quote inside a quoted value; by default quotes are doubled."),
    _text("encoding", "Encoding of the text, by Python's names.", default="utf-8"),
    th.Property("header", th.BooleanType, default=True, description="Whether the first line names the columns."),
    th.Property("skip_rows", th.IntegerType(minimum=0), default=0, description="Lines to skip before the header."),
    th.Property(
        "null_values",
        th.ArrayType(th.StringType),
        default=[""],
        description="Texts that mean null when they are not quoted.",
    ),
    _text("comment", "Lines that begin with this are skipped."),
)

_STREAM = th.ObjectType(
    _text("name", "Name of the stream, and of the table it becomes.", required=True),
    th.Property(
        "path",
        th.CustomType({"type": ["string", "array"], "items": {"type": "string"}}),
        required=True,
        description=(
            "Which objects: a URL with wildcards (`*`, `**`, `?`, `[abc]`, `{a,b}`), or a list of such. "
            "`s3://`, `gs://`, `az://`, or a local path. A path that ends with `/` means all objects below it. "
            "`{date:%Y/%m/%d}` stands for the dates from `start_date` to `end_date`."
        ),
    ),
    _text(
        "format",
        "Format of the objects; `auto`: told by each object's name.",
        allowed_values=["auto", *FORMATS],
        default="auto",
    ),
    _text(
        "compression",
        "Compression of the objects; `auto`: told by their first bytes and their names.",
        allowed_values=[*COMPRESSIONS],
        default="auto",
    ),
    th.Property("key_properties", th.ArrayType(th.StringType), description="Columns that together identify a row."),
    th.Property(
        "schema",
        th.ObjectType(additional_properties=th.StringType),
        description=(
            "Types of columns, where the inferred ones are not wanted: string, integer, number, boolean, date, time, "
            "timestamp, decimal(p,s), binary, json, or an Arrow type such as int32, uint64, float32."
        ),
    ),
    th.Property("columns", th.ArrayType(th.StringType), description="Read these columns only."),
    th.Property("csv", _CSV, description="How CSV files are written."),
    th.Property(
        "fixed_width",
        th.ArrayType(
            th.ObjectType(
                _text("name", "Name of the column.", required=True),
                th.Property("start", th.IntegerType(minimum=1), required=True, description="Its first character."),
                th.Property("width", th.IntegerType(minimum=1), required=True, description="How many it has."),
            )
        ),
        description="Where the columns of files of fixed width stand on each line, in characters; the first is 1.",
    ),
    _text("on_bad_row", "What happens to a row that cannot be read. Only `fail` is available yet.", default="fail"),
    _text(
        "on_drift",
        "What happens when files differ in their columns or types. `evolve`: the types of the sampled files are "
        "merged; a file that does not fit them is an error. No other value is available yet.",
        default="evolve",
    ),
    th.Property(
        "partition_columns",
        th.BooleanType,
        default=False,
        description=(
            "Add a column for each folder such as `year=2024` in the keys: an integer, a date or text, if `schema` "
            "does not say another type."
        ),
    ),
)

_BATCH = th.ObjectType(
    th.Property(
        "encoding",
        th.ObjectType(
            _text("format", "Format of batch files.", allowed_values=[*BATCH_COMPRESSIONS], required=True),
            _text(
                "compression",
                "Of batch files: `zstd` (default), `snappy`, `gzip` or `none` for parquet, `gzip` or `none` for jsonl.",
                allowed_values=["zstd", "snappy", "gzip", "none"],
            ),
        ),
        required=True,
        description="What batch files are.",
    ),
    th.Property(
        "storage",
        th.ObjectType(
            _text("root", "URL below which batch files are: `s3://`, `gs://`, `az://`, `file://`.", required=True),
            _text("prefix", "Text that the names of batch files begin with."),
        ),
        required=True,
        description="Where batch files are.",
    ),
    th.Property(
        "target_file_mb",
        th.NumberType(exclusive_minimum=0),
        description="About how many megabytes a batch file holds.",
        default=128,
    ),
)

CONFIG_JSONSCHEMA: dict[str, Any] = th.PropertiesList(
    th.Property("streams", th.ArrayType(_STREAM), required=True, description="The streams, each from its own objects."),
    th.Property(
        "start_date", th.DateTimeType, description="Only objects changed at this time or later. No zone means UTC."
    ),
    th.Property("end_date", th.DateTimeType, description="Only objects changed before this time."),
    th.Property(
        "replication",
        th.ObjectType(
            _text(
                "method",
                "How new objects are found. `polling`: by listing. `sqs`: by the events that S3 sends to a queue. "
                "`inventory`: in the lists that S3 Inventory writes.",
                allowed_values=[*METHODS],
                default="polling",
            ),
            th.Property(
                "overlap_minutes",
                th.NumberType(minimum=0),
                default=10,
                description=(
                    "For polling and inventory: how many minutes after its time of last change an object may appear in "
                    "listings and still be read. Needs a plan root (see `plan_root`)."
                ),
            ),
            th.Property(
                "keys_ascend",
                th.BooleanType,
                default=False,
                description=(
                    "For polling: keys of later objects come after those of earlier ones, as with dates in them, "
                    "and none is overwritten. A listing then begins where the last run ended."
                ),
            ),
            _text(
                "manifest_url",
                "For inventory: URL of a `manifest.json` of S3 Inventory, or of the folder of an inventory's "
                "configuration, which ends with `/`: then the newest one below it counts.",
            ),
            _text("queue_url", "For sqs: URL of the queue."),
            th.Property(
                "visibility_timeout",
                th.IntegerType(minimum=3, maximum=43200),
                default=300,
                description=(
                    "For sqs: seconds after which a message comes again if this process has died; while it lives, it "
                    "keeps the messages that it works on invisible."
                ),
            ),
            th.Property(
                "max_wait_seconds",
                th.NumberType(minimum=0),
                default=20,
                description="For sqs: the run ends when the queue was dry for so many seconds.",
            ),
            _text(
                "unmatched_events",
                "For sqs: what happens to messages that name no object of a stream: `keep` leaves them in the queue, "
                "others may need them; `delete` deletes them, for a queue that nobody else reads.",
                allowed_values=["keep", "delete"],
                default="keep",
            ),
        ),
        description="How the tap learns of new objects.",
    ),
    th.Property(
        "batch_config",
        _BATCH,
        description="BATCH messages: format and place of the batch files. Without it RECORD messages are sent.",
    ),
    _text("plan_root", "URL below which the plans of unfinished runs are kept; by default the batch storage's root."),
    th.Property(
        "passthrough", th.BooleanType, default=False, description="Send objects as they are: not available yet."
    ),
    th.Property(
        "metadata_columns",
        th.BooleanType,
        default=True,
        description=(
            "Add `_sdc_source_bucket`, `_sdc_source_file`, `_sdc_source_lineno`, `_sdc_source_modified_at` and "
            "`_sdc_source_etag` to each row."
        ),
    ),
    th.Property("aws", th.CustomType(AWS), description=AWS["description"]),
    th.Property(
        "max_workers",
        th.IntegerType(minimum=1),
        description="Objects converted at once. Default: as many as there are cores, at least 2.",
    ),
    th.Property(
        "memory_limit_mb",
        th.IntegerType(minimum=64),
        default=512,
        description="Megabytes of data in flight, of all objects that are being read.",
    ),
    th.Property(
        "emit_activate_version_messages",
        th.BooleanType,
        default=False,
        description="Send ACTIVATE_VERSION for streams that the catalog replicates as FULL_TABLE.",
    ),
    _text("executor", "Where objects are converted. Only `threads` is available yet.", default="threads"),
    th.Property(
        "schema_sample_files",
        th.IntegerType(minimum=1),
        default=5,
        description="How many objects of a stream, newest and oldest, its schema is inferred from.",
    ),
    th.Property(
        "schema_sample_mb",
        th.NumberType(exclusive_minimum=0),
        default=1,
        description="Megabytes of each of them that are looked at, where the format has no schema of its own.",
    ),
).to_dict()


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """One entry of `streams`."""

    name: str
    paths: tuple[Url, ...]
    format: str = "auto"
    compression: str = "auto"
    key_properties: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    csv: Mapping[str, Any] = field(default_factory=dict)

    partition_columns: bool = False

    @property
    def is_dated(self) -> bool:
        """Whether its paths have dates in them, which `start_date` and `end_date` then bound."""
        return has_date(self.paths[0])


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The setting `batch_config`."""

    root: Url
    prefix: str
    format: str
    compression: str
    target_bytes: int


@dataclass(frozen=True, slots=True)
class SqsSettings:
    """What `replication` says of the method sqs."""

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
    aws: AwsOptions
    max_workers: int
    memory_bytes: int
    sample_files: int
    sample_bytes: int

    def window(self, stream: StreamSettings) -> tuple[datetime | None, datetime | None]:
        """When objects of a stream must have been changed; dates in its paths bound them already."""
        return (None, None) if stream.is_dated else (self.start, self.end)

    def paths(self, stream: StreamSettings, *, begin: Url | None = None) -> list[Url]:
        """Where the objects of a stream are, as of now; see `dated`."""
        return dated(stream.paths, self.start, self.end, datetime.now(UTC), begin=begin)

    def is_backfill(self, stream: StreamSettings) -> bool:
        """Whether only places of some dates are listed: that there is none is no mistake then."""
        return stream.is_dated and self.start is not None

    def identity(self, stream: StreamSettings) -> list[str]:
        """What a plan of a stream was made for: its paths, and the dates in them."""
        dates = [str(self.start), str(self.end)] if stream.is_dated else []
        return [*(str(p) for p in stream.paths), *dates]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read a configuration that the JSON Schema has found valid.

        Raises:
            ConfigError: Something in it makes no sense, or is not available yet.
        """
        config = _given(config)
        _refuse_later(config, "")
        streams = tuple(_stream(s, number) for number, s in enumerate(config.get("streams", ())))
        names = [s.name for s in streams]
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
        batch = _batch(_given(config["batch_config"])) if "batch_config" in config else None
        root = Url.parse(config["plan_root"]) if "plan_root" in config else batch.root if batch else None
        replication = _given(config.get("replication", {}))
        sqs = _sqs(replication, streams, root)
        return cls(
            streams=streams,
            start=start,
            end=end,
            batch=batch,
            plan_root=root,
            overlap=timedelta(minutes=float(replication.get("overlap_minutes", 10))),
            keys_ascend=replication.get("keys_ascend", False),
            manifest=_manifest(replication, streams),
            sqs=sqs,
            metadata_columns=config.get("metadata_columns", True),
            aws=AwsOptions.from_config(config.get("aws")),
            max_workers=config.get("max_workers", default_workers()),
            memory_bytes=config.get("memory_limit_mb", 512) * MIB,
            sample_files=config.get("schema_sample_files", 5),
            sample_bytes=int(config.get("schema_sample_mb", 1) * MIB),
        )


def _given(config: Mapping[str, Any]) -> dict[str, Any]:
    """What is set: null stands for not set."""
    return {k: v for k, v in config.items() if v is not None}


def _refuse_later(config: Mapping[str, Any], where: str) -> None:
    for name, available in _LATER.items():
        if config.get(name, available) != available:
            only = str(available).lower()
            msg = f"Setting '{where}{name}': {config[name]!r} is not available yet; use {only}"
            raise ConfigError(msg)


def _stream(config: Mapping[str, Any], number: int) -> StreamSettings:
    config = _given(config)
    where = f"streams[{number}]."
    _refuse_later(config, where)
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
            check(url, f"{where}path")
    columns = config.get("columns")
    if columns is not None and not columns:
        msg = f"Setting '{where}columns' is empty; leave it out to read all columns"
        raise ConfigError(msg)
    return StreamSettings(
        name=config["name"],
        paths=urls,
        format=config.get("format", "auto"),
        compression=config.get("compression", "auto"),
        key_properties=tuple(config.get("key_properties", ())),
        types=config.get("schema", {}),
        columns=tuple(columns) if columns else None,
        csv=_given(config.get("csv", {})) | _fixed_width(config),
        partition_columns=config.get("partition_columns", False),
    )


def _fixed_width(config: Mapping[str, Any]) -> dict[str, Any]:
    columns = config.get("fixed_width")
    return {"fixed_width": tuple(FixedColumn(**c) for c in columns)} if columns else {}


def _batch(config: Mapping[str, Any]) -> BatchSettings:
    encoding, storage = _given(config["encoding"]), _given(config["storage"])
    allowed = BATCH_COMPRESSIONS[encoding["format"]]
    compression = encoding.get("compression", allowed[0])
    if compression not in allowed:
        msg = (
            f"Setting 'batch_config.encoding.compression' is {compression!r}, "
            f"{encoding['format']} batch files have {' or '.join(allowed)}"
        )
        raise ConfigError(msg)
    return BatchSettings(
        root=Url.parse(storage["root"]),
        prefix=storage.get("prefix", ""),
        format=encoding["format"],
        compression=compression,
        target_bytes=max(1, int(config.get("target_file_mb", 128) * MIB)),
    )


def _manifest(config: Mapping[str, Any], streams: Sequence[StreamSettings]) -> Url | None:
    wanted = config.get("method", "polling") == "inventory"
    if wanted != ("manifest_url" in config):
        msg = (
            "Setting 'replication.manifest_url' is missing: the URL of a manifest.json of S3 Inventory"
            if wanted
            else "Setting 'replication.manifest_url' is for the method inventory; set replication.method to inventory"
        )
        raise ConfigError(msg)
    if wanted and (elsewhere := next((p for s in streams for p in s.paths if p.scheme != "s3"), None)):
        msg = (
            f"Setting 'replication.method' is inventory, which tells of objects on S3 alone; {elsewhere} needs polling"
        )
        raise ConfigError(msg)
    return Url.parse(config["manifest_url"]) if wanted else None


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
            "queue told of is written down before its messages are deleted"
        )
        raise ConfigError(msg)
    if elsewhere := next((p for s in streams for p in s.paths if p.scheme != "s3"), None):
        msg = f"Setting 'replication.method' is sqs, which tells of objects on S3 alone; {elsewhere} needs polling"
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
