"""What the lanes of all load methods share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from singer_arrow.singer import lane
from singer_arrow.urls import Url
from target_bigquery.client import BigQuery
from target_bigquery.ledger import StreamLedger
from target_bigquery.load.files import Files, Item, Part, Upload
from target_bigquery.load.replacement import Replacement
from target_bigquery.migrate import Destination
from target_bigquery.types import Column, has_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Way(lane.Way):
    """See the base.

    Args:
        client: The dataset.
        files: Makes the uploads.
        destination: The table.
        upload_format: What items are uploaded as.
        ledger: Which batches the table has.
        replacement: What will replace the table, with overwrite.
    """

    client: BigQuery
    files: Files
    destination: Destination
    upload_format: str
    ledger: StreamLedger
    replacement: Replacement


class Lane(lane.Lane[Way, Part]):
    """The base of the lanes: items are made ready, groups become one file."""

    def make_ready(self, item: Item) -> Part:
        """See the base."""
        return self.way.files.prepare(item, self.way.upload_format)

    def nothing(self, item: Item) -> Part:
        """See the base."""
        return Part(item)

    def kind(self, item: Item) -> str:  # noqa: ARG002 - all items of a stream become files of one format
        """See the base."""
        return self.way.upload_format

    def join(self, parts: Sequence[Part]) -> Upload:
        """One file for a load."""
        return self.way.files.join(parts, self.way.upload_format)

    def count(self, upload: Upload) -> None:
        """Count a load that is done."""
        self.way.tally.add(load_jobs=len(upload.jobs) or 1, rows=upload.rows, bytes=upload.bytes)

    def left(self, parts: Sequence[Part], staged: Any) -> list[Url]:
        """See the base: also what was put into `gcs_stage`."""
        return [*super().left(parts, staged), *(url for part in parts for url in part.staged)]


def upload_format(load_format: str, columns: Sequence[Column]) -> str:
    """What items are uploaded as. Parquet cannot carry JSON columns; Avro does. Pure."""
    chosen = "parquet" if load_format == "auto" else load_format
    return "avro" if chosen == "parquet" and has_kind(columns, "JSON") else chosen
