"""What the lanes of all load methods share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from singer_arrow.batch import spool
from singer_arrow.singer import lane
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
        formats: What Parquet and JSON Lines items are uploaded as.
        ledger: Which batches the table has.
        replacement: What will replace the table, with overwrite.
    """

    client: BigQuery
    files: Files
    destination: Destination
    formats: Mapping[str, str]
    ledger: StreamLedger
    replacement: Replacement


class Lane(lane.Lane[Way, Part]):
    """The base of the lanes: items are made ready, groups become one file."""

    def make_ready(self, item: Item) -> Part:
        """See the base."""
        return self.way.files.prepare(item, self.kind(item))

    def nothing(self, item: Item) -> Part:
        """See the base."""
        return Part(item)

    def kind(self, item: Item) -> str:
        """What an item is uploaded as; records as JSON Lines are."""
        return self.way.formats["jsonl" if item.file_format == spool.FORMAT else item.file_format]

    def join(self, parts: Sequence[Part]) -> Upload:
        """One file for a load."""
        return self.way.files.join(parts, self.kind(parts[0].item))

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
