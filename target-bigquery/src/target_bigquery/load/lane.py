"""What the lanes of all load methods share."""

from __future__ import annotations

import abc
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from singer_arrow.singer.tally import Tally
from target_bigquery.client import BigQuery
from target_bigquery.ledger import StreamLedger
from target_bigquery.load.files import Files, Item, Part, Upload
from target_bigquery.load.replacement import Replacement
from target_bigquery.migrate import Destination
from target_bigquery.types import Column, has_kind

logger = logging.getLogger("target-bigquery")


@dataclass(frozen=True, slots=True)
class Way:
    """From one stream into its table, while its SCHEMA stays the same.

    Args:
        stream: Name of the stream.
        client: The dataset.
        files: Makes the uploads.
        destination: The table.
        tally: The stream's counts.
        formats: What Parquet and JSON Lines items are uploaded as.
        ledger: Which batches the table has.
        replacement: What will replace the table, with overwrite.
        replay_loads: Batches that were loaded before are loaded again.
        keys: Key columns.
    """

    stream: str
    client: BigQuery
    files: Files
    destination: Destination
    tally: Tally
    formats: Mapping[str, str]
    ledger: StreamLedger
    replacement: Replacement
    replay_loads: bool = False
    keys: tuple[str, ...] = ()


class Lane(abc.ABC):
    """The base of the lanes: items are made ready, groups become one file."""

    ordered = False
    deferred = False

    def __init__(self, way: Way) -> None:
        self.way = way

    def prepare(self, item: Item) -> Part:
        """Make an item ready for its load."""
        part = self.way.files.prepare(item, self.upload_format(item))
        if not item.is_temporary:
            self.way.tally.add(files=len(item.urls))
        return part

    @abc.abstractmethod
    def stage(self, parts: Sequence[Part]) -> Any:
        """Load a group."""

    def publish(self, staged: Any) -> None:  # noqa: B027 - only upsert has something to do
        """Nothing is left to do, if staging was all."""

    def finish(self) -> None:  # noqa: B027 - only overwrite has something to do
        """Nothing is left to do at the end, if the lane is not deferred."""

    def upload_format(self, item: Item) -> str:
        """What an item is uploaded as."""
        return self.way.formats[item.file_format]

    def join(self, parts: Sequence[Part]) -> Upload:
        """One file for a load."""
        return self.way.files.join(parts, self.upload_format(parts[0].item))

    def count(self, upload: Upload) -> None:
        """Count a load that is done."""
        self.way.tally.add(load_jobs=1, rows=upload.rows, bytes=upload.bytes)


def upload_formats(load_format: str, columns: Sequence[Column]) -> dict[str, str]:
    """What Parquet and JSON Lines items are uploaded as. Parquet cannot carry JSON columns; Avro does. Pure."""
    if load_format == "auto":
        chosen = {"parquet": "parquet", "jsonl": "avro"}
    else:
        chosen = dict.fromkeys(("parquet", "jsonl"), load_format)
    if has_kind(columns, "JSON"):
        chosen = {given: "avro" if wanted == "parquet" else wanted for given, wanted in chosen.items()}
    return chosen
