"""What all tasks of a stream have in common. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS, detect_format
from singer_arrow.read_options import ReadOptions
from singer_arrow.storage.urls import Url
from tap_s3_files.paths.partition_columns import NO_PARTITIONS, Partitions


@dataclass(frozen=True, slots=True)
class StreamJob:
    """What all tasks of a stream have in common.

    `schema` is that of SCHEMA, in Arrow; `version` is that of ACTIVATE_VERSION, if there is one; `passthrough` is
    the format of objects that go into manifests as they are, if some do; `settings` identifies the settings of rows;
    `run` identifies the run, if its batches are to have ids of their own.
    """

    stream: str
    schema: pa.Schema
    metadata_columns: bool
    format: str
    options: ReadOptions
    version: int | None = None
    partitions: Partitions = NO_PARTITIONS
    passthrough: str = ""
    archived: str = "fail"
    settings: str = ""
    run: str = ""


def format_of(setting: str, url: Url) -> str:
    """Return the format of an object; with `auto`, the one that its name implies.

    Raises:
        DataError: Its name implies none.
    """
    found = setting if setting != "auto" else detect_format(url.name)
    if found is None:
        hint = f"Set the stream's 'format' to {', '.join(FORMATS)}"
        reason = "its name does not imply a format"
        raise DataError(reason, url=url, hint=hint)
    return found
