"""What the load methods of one stream use."""

from __future__ import annotations

from dataclasses import dataclass

from singer_arrow.load.load_method import LoadContext
from target_redshift.connection.client import Redshift
from target_redshift.ledger import StreamLedger
from target_redshift.load.dead_letter_table import DeadLetterTable
from target_redshift.load.overwrite_staging import OverwriteStaging
from target_redshift.load.s3_staging import S3StagingFolder
from target_redshift.load.uploads import Files
from target_redshift.tables.migrate import Destination


@dataclass(frozen=True, slots=True, kw_only=True)
class RedshiftContext(LoadContext):
    """What the load methods of one stream use, besides what `LoadContext` holds."""

    client: Redshift
    files: Files
    staging_folder: S3StagingFolder
    upload_format: str
    destination: Destination
    ledger: StreamLedger
    overwrite_staging: OverwriteStaging
    dead_letter_table: DeadLetterTable
