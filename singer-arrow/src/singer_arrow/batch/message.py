"""BATCH messages, and the settings of batch files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Literal, NamedTuple

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.read_options import Skipped
from singer_arrow.settings import read_settings, setting
from singer_arrow.storage.urls import CONTROL, Url, shown

# The BATCH message: the SDK's keys, and additional top-level keys, which other targets ignore.
#
# {"type": "BATCH", "stream": "flights", "encoding": {"format": "parquet", "compression": "zstd"},
#  "manifest": ["s3://stage/flights/3f9c-0.parquet"],
#  "batch_id": "3f9c...", "row_count": 842, "byte_count": 31245, "version": 1763640000,
#  "ranks": [[[500, "object 2024-05-01 10:00:00.000000 in/a.csv  5f0c2a91 00000.000000000000"],
#             [342, "object 2024-05-01 10:00:00.000000 in/b.csv  5f0c2a91 00000.000000000000"]]]}
#
# A batch may bring rows that the tap could not read, for the table of rejected rows: `"rejected": [{"file": ...,
# "position": 3, "column_name": "n", "reason": ..., "record": ...}]`. They are not in its files, nor in `row_count`, and
# it may have no files. Where a tap sends RECORD messages, a STATE message with the current value has such a BATCH
# message as its top-level key `rejected_batch`. Other targets ignore both keys.
#
# A run that follows a plan log adds `"plan_log": {"log": "5f0c...", "source": "a81e...", "has_state": false}`: the id
# of the log, what identifies the objects that it is about, and whether the run has a STATE. Where a table has rows of
# another log of the same source, a run without STATE would load them twice. A run with one adds `"follows": "3f9c..."`:
# the last batch before its STATE. A table that has earlier ones, but not that one, lacks rows that went elsewhere.
#
# `"objects": {"roots": ["s3://shop/in/"], "kind": "date", "begin": "2024-05-01T00:00:00", "end": ""}` says where these
# objects are: below these places, with a `date` in their path, or a `time` of their last change, from `begin` on and
# before `end`. So a table that has rows of another log may still have none of the same objects.
#
# `"place": "0000000017.0000000003.0000000000000000000"` is where the batch is in its log: segment, task, first row. Of
# two batches of one log the later one has the greater text. A log that was begun on purpose at a STATE adds
# `"continues": {"log": "77aa...", "batch": "3f9c...", "place": "0000000018.0000000000.0000000000000000000"}`: the log
# of that STATE, the last batch before the STATE, and the place in that log from which on the new one sends again. A
# table must have that batch, and none of the former log from that place on, or rows are missing, or come twice.
#
# A rank is a word, a blank, and a text. Of two rows of a key, an upsert keeps the one of the greater rank if both ranks
# begin with the same word, else the one that comes last. A row has the same rank whenever its batch is sent.
#
# Ranks of a tap that cuts an object into batches end as `PLACE`: in the id of a reading of the object, and a place in
# it. Places of two readings have no order, as they may cut it elsewhere: there too the row that comes last is kept.

FORMATS = ("parquet", "jsonl", "arrow")
_READ = ("s3", "gs", "az", "file", "http", "https", "ftp", "ftps", "sftp", "scp", "ssh", "hdfs", "viewfs", "webhdfs")
_BUCKETS = ("s3", "gs", "az")
_BUCKET = re.compile(r"[\w.@-]{1,255}", re.ASCII)
_LONGEST_ID = 1024
LONGEST_RANK = 1280
"""Bytes of a rank: of the longest names of a bucket and a key, and of what is around them."""
PLACE = "(  [0-9a-f]{8})? [0-9]{5}[.][0-9]{12}$"
"""Matches, in SQL too, the id of the reading and the place in it, with which a rank may end."""
READING = (27, 8)
"""How many characters before the end of a rank the id of its reading begins, and how many it has."""
_LARGEST = (1 << 63) - 1
_REJECTED = ("position", "column_name", "reason", "record", "file")
REJECTED_BATCH = "rejected_batch"
"""The top-level key of STATE messages."""
Ranks = tuple[tuple[tuple[int | None, str], ...], ...]
"""For each file its rows by rank, in their order: how many (None: all that are left), and the rank."""


class ContinuedLog(NamedTuple):
    """The plan log that another one continues, its last batch that was sent, and the place behind what was sent."""

    log: str
    batch: str
    place: str


class LogObjects(NamedTuple):
    """The places of a plan log's objects, and their range of dates or times; an empty bound means unbounded."""

    roots: tuple[str, ...]
    kind: str = ""  # what is bounded: `date` of the path, `time` of the last change; empty: nothing
    begin: str = ""  # as ISO 8601 has it, in UTC, without an offset
    end: str = ""  # before this

    def overlaps(self, other: LogObjects) -> bool:
        """Return whether an object may be one of both."""
        if self.kind and self.kind == other.kind:
            for first, second in ((self, other), (other, self)):
                if first.end and second.begin and first.end <= second.begin:
                    return False
        pairs = ((a, b) for a in self.roots for b in other.roots)
        return not (self.roots and other.roots) or any(a.startswith(b) or b.startswith(a) for a, b in pairs)


class PlanLogId(NamedTuple):
    """Ids of the plan log that a run follows, and of its source; whether the run has a STATE, and the batch before.

    `place` is that of a batch in the log: see `place_in_log`. `continues` is the log before it, if it was begun on
    purpose at a STATE.
    """

    log: str
    source: str
    has_state: bool = False
    follows: str = ""
    place: str = ""
    continues: ContinuedLog | None = None
    objects: LogObjects | None = None

    def to_json(self) -> dict[str, Any]:
        """Encode for a message, without what is empty."""
        found = {name: value for name, value in self._asdict().items() if value not in ("", None)}
        parts = {"continues": self.continues, "objects": self.objects}
        return found | {name: part._asdict() for name, part in parts.items() if part is not None}


def place_in_log(segment: int, task: int = 0, row: int = 0) -> str:
    """Return the place of a batch in a plan log, as a text that sorts."""
    return f"{segment:010d}.{task:010d}.{row:019d}"


@dataclass(frozen=True, slots=True)
class Batch:
    """A BATCH message.

    Attributes:
        stream: Name of the stream.
        format: `parquet`, `jsonl` or `arrow`.
        manifest: URLs of the files.
        compression: Codec of the files.
        batch_id: Id of the input, the same on every run; None from other taps.
        row_count: Number of rows, if known.
        byte_count: Bytes of the files, if known.
        version: Version of the table, as in ACTIVATE_VERSION.
        passthrough: Whether the files are the tap's source objects, which targets must not remove.
        ranks: Ranks of the rows; empty from taps whose rows have none.
        plan_log: The plan log that the run follows; None: it follows none.
        rejected: Rows that the tap could not read; they are not in the files.
    """

    stream: str
    format: str
    manifest: tuple[str, ...]
    compression: str | None = None
    batch_id: str | None = None
    row_count: int | None = None
    byte_count: int | None = None
    version: int | None = None
    passthrough: bool = False
    ranks: Ranks = ()
    plan_log: PlanLogId | None = None
    rejected: tuple[Skipped, ...] = ()

    def to_message(self) -> dict[str, Any]:
        """Return the message for JSON, without keys that are None."""
        encoding = {"format": self.format, **({"compression": self.compression} if self.compression else {})}
        extra = {
            "batch_id": self.batch_id,
            "row_count": self.row_count,
            "byte_count": self.byte_count,
            "version": self.version,
            "passthrough": self.passthrough or None,
            "ranks": self.ranks or None,
            "plan_log": self.plan_log.to_json() if self.plan_log else None,
            "rejected": [dict(zip(_REJECTED, astuple(row), strict=True)) for row in self.rejected] or None,
        }
        return {
            "type": "BATCH",
            "stream": self.stream,
            "encoding": encoding,
            "manifest": list(self.manifest),
            **{k: v for k, v in extra.items() if v is not None},
        }

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Batch:
        """Parse a message of any tap.

        Raises:
            DataError: The message is malformed, or its format is not supported.
        """
        stream, encoding, manifest = message.get("stream"), message.get("encoding"), message.get("manifest")
        if not isinstance(stream, str) or not stream:
            raise DataError("A BATCH message names no stream; the tap must set 'stream'")
        where = f"BATCH message of stream {stream!r}"
        if not isinstance(encoding, Mapping) or not isinstance(encoding.get("format"), str):
            raise DataError(f"{where} has no 'encoding' with a 'format'")
        if encoding["format"] not in FORMATS:
            supported = " or ".join(FORMATS)
            msg = f"{where} is in the format {encoding['format'][:40]!r}; set the tap's encoding.format to {supported}"
            raise DataError(msg)
        if not isinstance(manifest, list | tuple) or not all(isinstance(u, str) and u for u in manifest):
            raise DataError(f"{where}: 'manifest' must be a list of URLs")
        for url in manifest:
            if reason := _unreadable(url):
                raise DataError(f"{where}: {shown(url)!r} in its manifest {reason}; this is an error of the tap")
        return cls(
            stream=stream,
            format=encoding["format"],
            compression=_optional(encoding, "compression", str, where),
            manifest=tuple(manifest),
            batch_id=_optional(message, "batch_id", str, where),
            row_count=_optional(message, "row_count", int, where),
            byte_count=_optional(message, "byte_count", int, where),
            version=_optional(message, "version", int, where),
            passthrough=message.get("passthrough") not in (None, False),
            ranks=_ranks(message.get("ranks"), len(manifest), where),
            plan_log=_plan_log(message.get("plan_log"), where),
            rejected=_rejected(message.get("rejected"), where),
        )


def _optional(message: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = message.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise DataError(f"{where}: {key!r} must be {'text' if kind is str else 'an integer'}, it is {repr(value)[:80]}")
    if isinstance(value, int) and not (_LEAST[key] <= value <= _LARGEST):
        msg = f"{where}: {key!r} must be an integer from {_LEAST[key]} to {_LARGEST}, it is {repr(value)[:80]}"
        raise DataError(msg)
    if isinstance(value, str) and not _is_fit(value):
        msg = f"{where}: {key!r} must be text without NUL, of at most {_LONGEST_ID} bytes, it is {value[:80]!r}"
        raise DataError(msg)
    return value


def _ranks(value: Any, files: int, where: str) -> Ranks:
    try:
        found = tuple(tuple((count, rank) for count, rank in runs) for runs in value or ())
        runs = [run for runs in found for run in runs]
        if not all(
            (n is None or (type(n) is int and n >= 0)) and " " in rank and _is_fit(rank, LONGEST_RANK)
            for n, rank in runs
        ):
            raise ValueError
        if found and len(found) != files:
            raise ValueError
    except (TypeError, ValueError, AttributeError):
        raise DataError(
            f"{where}: 'ranks' must hold for each file a list of [rows or null, 'word text'], it is {repr(value)[:80]}"
        ) from None
    return found


def _plan_log(value: Any, where: str) -> PlanLogId | None:
    if value is None:
        return None
    log, source = [str(value.get(key)) for key in ("log", "source")] if isinstance(value, Mapping) else ("", "")
    if not all(re.fullmatch(r"\w{1,64}", text, re.ASCII) for text in (log, source)):
        raise DataError(f"{where}: 'plan_log' must hold two ids, 'log' and 'source', it is {repr(value)[:80]}")
    follows, place = (_optional(value, key, str, where) or "" for key in ("follows", "place"))
    continues = value.get("continues")
    if continues is not None:
        found: list[Any] = (
            [continues.get(key) for key in ContinuedLog._fields] if isinstance(continues, Mapping) else []
        )
        if not (found and all(isinstance(text, str) and _is_fit(text) for text in found) and found[0]):
            names = ", ".join(ContinuedLog._fields)
            msg = f"{where}: 'continues' of 'plan_log' must hold the texts {names}, it is {repr(continues)[:80]}"
            raise DataError(msg)
        continues = ContinuedLog(*found)
    objects = _objects(value.get("objects"), where)
    return PlanLogId(log, source, bool(value.get("has_state")), follows, place, continues, objects)


def _objects(value: Any, where: str) -> LogObjects | None:
    if value is None:
        return None
    try:
        found = LogObjects(**value)
        texts = [*found.roots, *found[1:]]
        if isinstance(found.roots, str) or not all(isinstance(text, str) and _is_fit(text) for text in texts):
            raise ValueError
    except (TypeError, ValueError):
        names = ", ".join(LogObjects._fields)
        msg = f"{where}: 'objects' of 'plan_log' must hold the texts {names}, it is {repr(value)[:80]}"
        raise DataError(msg) from None
    return found._replace(roots=tuple(found.roots))


def _rejected(value: Any, where: str) -> tuple[Skipped, ...]:
    try:
        found = tuple(Skipped(*(row[key] for key in _REJECTED)) for row in value or ())
        for row in found:
            texts = (row.reason, row.record, *(t for t in (row.column, row.file) if t is not None))
            if not (type(row.position) is int and 0 <= row.position <= _LARGEST):
                raise ValueError
            if not all(_is_fit(text, _LARGEST) for text in texts):
                raise ValueError
    except (TypeError, ValueError, KeyError, AttributeError):
        msg = f"{where}: 'rejected' must hold objects with {', '.join(_REJECTED)}; this is an error of the tap"
        raise DataError(msg) from None
    return found


def _is_fit(text: str, most_bytes: int = _LONGEST_ID) -> bool:
    """Return whether tables of both warehouses can hold the text."""
    try:
        return "\0" not in text and len(text.encode()) <= most_bytes
    except UnicodeEncodeError:  # a lone surrogate
        return False


_LEAST = {"row_count": 0, "byte_count": 0, "version": -_LARGEST - 1}


def _unreadable(text: str) -> str | None:
    """Return why a URL cannot name a file; None if it can."""
    try:
        text.encode()
        url = Url.parse(text)
    except UnicodeEncodeError:
        return "is not Unicode"
    except (ConfigError, RuntimeError):  # the latter: ~ of a user who does not exist
        return "is not the URL of a file"
    if url.scheme not in _READ:
        return f"has the scheme {url.scheme[:40]!r}, and files are read from {', '.join(_READ)}"
    if url.scheme in _BUCKETS and not _BUCKET.fullmatch(url.bucket):
        return "has a bucket that cannot exist"
    if url.scheme not in (*_BUCKETS, "file") and CONTROL.search(text):
        return "has control characters, which programs read differently"
    if not url.key or (url.scheme == "file" and "\0" in url.key):
        return "is not the URL of a file"
    return None


# The setting `batch_config` of taps.

COMPRESSIONS = {
    "parquet": ("zstd", "snappy", "gzip", "none"),
    "jsonl": ("gzip", "none"),
    "arrow": ("zstd", "lz4", "none"),
}
"""Compressions of batch files by format; the first is the default, except for Arrow files on local disk."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The setting `batch_config`."""

    format: Literal["parquet", "jsonl", "arrow"] = setting(
        "Format of batch files. `arrow` is Arrow IPC: cheap to write and large, for other targets on the same machine.",
        required=True,
        name="encoding.format",
        of_object="Format of batch files.",
    )
    root: Url = setting(
        "URL below which batch files are written: `s3://`, `gs://`, `az://`, `file://`.",
        required=True,
        name="storage.root",
        of_object="Where batch files are written.",
        kind=str,
        parse=Url.parse,
    )
    compression: str = setting(
        "Compression of batch files: `zstd` (default), `snappy`, `gzip` or `none` for parquet, `gzip` (default) or "
        "`none` for jsonl, `zstd`, `lz4` or `none` for arrow (default: `none` on local disk, else `zstd`).",
        default="",
        name="encoding.compression",
        kind=Literal["zstd", "snappy", "gzip", "lz4", "none"],
    )
    prefix: str = setting("Prefix of the names of batch files.", default="", name="storage.prefix")
    target_bytes: int = setting(
        "About how many megabytes a batch file holds.",
        default=128,
        name="target_file_mb",
        kind=float,
        parse=lambda megabytes: max(1, int(megabytes * (1 << 20))),
        exclusiveMinimum=0,
    )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> BatchSettings:
        """Read a value that the JSON Schema allows; ConfigError if files of the format have no such compression."""
        settings = read_settings(cls, config)
        allowed = COMPRESSIONS[settings.format]
        default = "none" if settings.format == "arrow" and settings.root.scheme == "file" else allowed[0]
        compression = settings.compression or default
        if compression not in allowed:
            raise ConfigError(
                f"Setting 'batch_config.encoding.compression' is {compression!r}, "
                f"{settings.format} batch files have {' or '.join(allowed)}"
            )
        return replace(settings, compression=compression)

    @property
    def can_pass(self) -> bool:
        """Whether objects of this format may be batch files as they are: Parquet and compressed JSON Lines."""
        return self.format == "parquet" or (self.format, self.compression) == ("jsonl", "gzip")

    @property
    def suffix(self) -> str:
        """Suffix of the names of batch files, without a dot."""
        return "jsonl.gz" if (self.format, self.compression) == ("jsonl", "gzip") else self.format

    @property
    def message_compression(self) -> str | None:
        """The compression as BATCH messages name it."""
        return None if self.compression == "none" else self.compression


def batch_setting() -> Any:
    """Declare the setting `batch_config` of a tap."""
    words = "Send BATCH messages: format and place of the batch files. Without it, RECORD messages are sent."
    return setting(words, name="batch_config", parse=BatchSettings.from_config)
