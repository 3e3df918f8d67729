"""What the load methods of one stream use."""

from __future__ import annotations

from dataclasses import dataclass

from singer_arrow.load.load_method import LoadContext
from target_bigquery.connection.client import BigQuery
from target_bigquery.ledger import StreamLedger
from target_bigquery.load.dead_letter_table import DeadLetterTable
from target_bigquery.load.overwrite_staging import OverwriteStaging
from target_bigquery.load.uploads import Files
from target_bigquery.tables.migrate import Destination


@dataclass(frozen=True, slots=True, kw_only=True)
class BigQueryContext(LoadContext):
    """What the load methods of one stream use, besides what `LoadContext` holds."""

    client: BigQuery
    files: Files
    destination: Destination
    upload_format: str
    ledger: StreamLedger
    overwrite_staging: OverwriteStaging
    dead_letter_table: DeadLetterTable
