"""upsert: each group is loaded into a staging table of its own, then merged into the table in the order of messages.

Of the rows of a key the one of the greatest rank is in the table, whatever comes last.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from singer_arrow.errors import SchemaError, SingerArrowError
from singer_arrow.load.conversion import ORDER
from singer_arrow.load.key_ranges import together
from singer_arrow.naming import staging_name
from target_bigquery import sql
from target_bigquery.connection.jobs import Fields
from target_bigquery.connection.resources import RefusedDataError
from target_bigquery.load import load_job
from target_bigquery.load.base import BigQueryLoadMethod
from target_bigquery.load.context import BigQueryContext
from target_bigquery.load.uploads import Item, PreparedItem, Upload
from target_bigquery.merge_pruning import bounds
from target_bigquery.sql import ColumnRanges
from target_bigquery.tables import migrate

_UNFIT = ("RECORD", "JSON")


@dataclass(frozen=True, slots=True)
class Staged:
    """A staging table that holds a group, and where its rows are looked for in the table."""

    table: str
    upload: Upload
    bounds: tuple[ColumnRanges, ...] = ()


class Upsert(BigQueryLoadMethod):
    """The load method `upsert`; a key column of a type that has no equality is an error.

    Staging runs in parallel. Merging the same group twice changes nothing, so a replay needs no ledger.
    """

    ordered = True
    merges = True

    def __init__(self, context: BigQueryContext) -> None:
        super().__init__(context)
        for column in context.destination.columns:
            if column.name in context.keys and (column.repeated or column.kind in _UNFIT):
                msg = (
                    f"Key property {column.source!r} of stream {context.stream!r} is {column}, which cannot be compared"
                )
                raise SchemaError(msg)
        self._is_estimated = False
        migrate.remove_leftovers(context.client, context.destination.name)

    def stage(self, parts: Sequence[PreparedItem]) -> Staged | None:
        """Load a group into a staging table."""
        fields = [*migrate.nullable(self.context.destination.load_fields), {"name": ORDER, "type": "INTEGER"}]
        return self.load_without_refused(parts, lambda some: self._stage(some, fields), fields)

    def _stage(self, parts: Sequence[PreparedItem], fields: Fields) -> Staged | None:
        live = [p for p in parts if p.rows or p.rejects]
        if not live:
            return None
        bigquery, table = self.context.client, self.context.destination
        upload = self.join(live)
        try:
            self.write_dead_letters(live)
            if not upload.rows:
                return None
            name = staging_name(table.name, uuid.uuid4().hex)
            migrate.create_staging_table(bigquery, name, fields)
            load_job.run_until_done(bigquery, upload, name, fields)
        except RefusedDataError:
            bigquery.delete_table(name)
            raise
        finally:
            self.context.files.discard(upload)
        return Staged(name, upload, self.bounds([p.item for p in live], upload.rows))

    def bounds(self, items: Sequence[Item], rows: int) -> tuple[ColumnRanges, ...]:
        """Return bounds of the rows of the table that have the keys of the staged rows of some items."""
        extents = together([item.conversion.extents for item in items], rows)
        return bounds(extents, self.context.destination.columns, self.context.keys)

    def publish(self, staged: Staged | None) -> None:
        """Merge a staging table into the table, and remove it."""
        if staged is None:
            return
        bigquery, table = self.context.client, self.context.destination
        what = f"Merging into table {bigquery.path(table.name)}"
        into, staging = bigquery.quoted(table.name), bigquery.quoted(staged.table)
        text = sql.merge(
            *(into, staging, table.columns, self.context.keys),
            rank=self.context.rank_column,
            emptied=table.siblings,
            bounds=staged.bounds,
            deleted=self.context.deleted_column,
            filtered_by=table.table.filtered_by,
        )
        if not self._is_estimated:
            self._is_estimated = True
            self._log_estimate(text, what, staged.bounds)
        bigquery.query(text, what=what)
        bigquery.delete_table(staged.table)
        self.count(staged.upload)

    def _log_estimate(self, text: str, what: str, bounds: Sequence[ColumnRanges]) -> None:
        """Log the estimated bytes of the first MERGE of a run, if BigQuery provides them."""
        try:
            size = self.context.client.estimate(text, what=what)
        except SingerArrowError as error:
            self.context.logger.debug("A MERGE could not be estimated: %s", error)
            return
        limit = self.context.client.settings.bytes_billed_limit
        self.context.logger.info(
            "Stream %r: a MERGE processes about %.1f MB%s%s",
            self.context.stream,
            size / 1e6,
            f", and reads of the table what the values of {' and '.join(b.column for b in bounds)} ask for"
            if bounds
            else "",
            f", of {limit / 1e6:.1f} MB that bytes_billed_limit allows"
            if limit
            else "; bytes_billed_limit would bound it",
        )
