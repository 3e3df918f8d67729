"""What all tasks of a stream have in common, and what they are run with in a process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pyarrow as pa

from singer_arrow.batch.message import BatchSettings
from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS, detect_format
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.paths import NO_PARTITIONS, Partitions
from tap_s3_files.progress import Progress


@dataclass(frozen=True, slots=True)
class StreamJob:
    """What all tasks of a stream have in common, also where another process runs them.

    `schema` is that of SCHEMA, in Arrow; `batch` is None where rows are sent as records; `version` is that of
    ACTIVATE_VERSION, if there is one; `passthrough` is the format of objects that go into manifests as they are, if
    some do; `settings` identifies the settings of rows; `run` identifies the run, if its batches are to have ids of
    their own; a batch has at most `max_bad_rows` bad rows, whose text may be shown unless the stream sends its files
    only in part or changed; a task gathers `held_bytes` of rows before it encodes them.
    """

    stream: str
    schema: pa.Schema
    metadata_columns: bool
    format: str
    options: ReadOptions
    batch: BatchSettings | None = None
    version: int | None = None
    partitions: Partitions = NO_PARTITIONS
    passthrough: str = ""
    archived: str = "fail"
    settings: str = ""
    run: str = ""
    max_bad_rows: int = 1000
    shows_rows: bool = True
    held_bytes: int = HELD_BYTES


@dataclass(frozen=True, slots=True)
class Worker:
    """What the tasks of a stream are run with in a process: storage, memory, what to count, and when to stop."""

    job: StreamJob
    storage: Storage
    budget: Budget
    progress: Progress
    stop: threading.Event = field(default_factory=threading.Event)


def format_of(setting: str, url: Url) -> str:
    """Return the format of an object; with `auto`, the one that its name implies."""
    found = setting if setting != "auto" else detect_format(url.name)
    if found is None:
        hint = f"Set the stream's 'format' to {', '.join(FORMATS)}"
        reason = "its name does not imply a format"
        raise DataError(reason, url=url, hint=hint)
    return found
