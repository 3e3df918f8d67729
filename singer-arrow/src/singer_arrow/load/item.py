"""What the messages of a stream bring to its load method."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from singer_arrow.batch.file_properties import FileProperties
from singer_arrow.load.dead_letters import RecordOrigins, Rejected
from singer_arrow.storage.urls import Url

ConversionT = TypeVar("ConversionT")


@dataclass(frozen=True)  # no slots: Python 3.11 fails to make one by `Item[...](...)` of a frozen class with slots
class Item(Generic[ConversionT]):
    """What one message brings, or a file of records: files of one format, to be converted alike."""

    urls: tuple[str, ...]
    file_format: str  # `parquet`, `jsonl` or `arrow`
    conversion: ConversionT
    batch_id: str | None = None  # the tap's, if it gives one
    rows: int | None = None  # in all files, if the tap sends it
    bytes: int | None = None  # of the files, if the tap sends it
    is_temporary: bool = False  # the target's own files, removed once they are loaded
    is_source: bool = False  # not the tap's own files but what it reads, so never removed
    stream: str = ""
    plan_log: tuple[str, ...] = ()  # of its source and itself, in the ledger; see `LoadMethod.entries_of_logs`
    has_state: bool = False  # the run of the tap has a STATE
    properties: FileProperties | None = None  # required of the files; None: of records, which were checked
    rejected: tuple[Rejected, ...] = ()  # that the tap could not read, put with the others into the table for them
    origins: RecordOrigins | None = None  # of records; None: not needed

    def remove_files(self) -> None:
        """Remove the files, which are temporary ones."""
        for url in self.urls:
            Url.parse(url).local_path().unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on local disk; `url` is where it came from, for messages."""

    path: Path
    url: str
    is_temporary: bool
