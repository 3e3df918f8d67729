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
    """What one message brings, or a file of records: files of one format, to be converted alike.

    Args:
        urls: The files.
        file_format: `parquet`, `jsonl` or `arrow`.
        conversion: What is done with their rows.
        batch_id: The tap's, if it gives one.
        rows: Number of rows in all files, if the tap sends it.
        bytes: Size of the files in bytes, if the tap sends it.
        is_temporary: The files are the target's own, to be removed once they are loaded.
        is_source: The files are not the tap's own but what it reads, so they are never removed.
        stream: The name of the stream.
        plan_log: Ids by which the ledger knows that it has batches of a source, and of this plan log of it; see
            `LoadMethod.entries_of_logs`.
        has_state: The run of the tap has a STATE.
        properties: What is required of the files; None for those of records, which were checked.
        rejected: Rows that the tap could not read, which are put with the others into the table for them.
        origins: Of records, those that were refused before, and where the others came from; None if it is not needed.
    """

    urls: tuple[str, ...]
    file_format: str
    conversion: ConversionT
    batch_id: str | None = None
    rows: int | None = None
    bytes: int | None = None
    is_temporary: bool = False
    is_source: bool = False
    stream: str = ""
    plan_log: tuple[str, ...] = ()
    has_state: bool = False
    properties: FileProperties | None = None
    rejected: tuple[Rejected, ...] = ()
    origins: RecordOrigins | None = None

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
