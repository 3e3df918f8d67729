"""What the load methods of one stream use."""

from __future__ import annotations

from dataclasses import dataclass

from singer_arrow.load.load_method import LoadContext
from target_redshift.connection.client import Redshift
from target_redshift.ledger import StreamLedger
from target_redshift.load.dead_letter_table import Rejections
from target_redshift.load.overwrite_staging import Replacement
from target_redshift.load.s3_staging import Stage
from target_redshift.load.uploads import Files
from target_redshift.tables.migrate import Destination


@dataclass(frozen=True, slots=True, kw_only=True)
class RedshiftContext(LoadContext):
    """What the load methods of one stream use, besides what `LoadContext` holds.

    Args:
        client: Client of the schema.
        files: Prepares batch files for COPY.
        place: This run's folder in `s3_stage`.
        upload_format: `parquet`, `jsonl` or `csv`.
        destination: The stream's table.
        ledger: The batches that the table holds.
        replacement: The staging table of `overwrite`.
        rejections: The table of rejected rows.
    """

    client: Redshift
    files: Files
    place: Stage
    upload_format: str
    destination: Destination
    ledger: StreamLedger
    replacement: Replacement
    rejections: Rejections
