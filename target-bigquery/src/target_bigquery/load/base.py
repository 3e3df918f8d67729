"""Base class of the load methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from singer_arrow.errors import DataError
from singer_arrow.load.dead_letters import BatchRejects, Rejects, TooManyRejectedError
from singer_arrow.load.load_method import LoadMethod
from singer_arrow.storage.urls import Url
from target_bigquery.connection.jobs import Fields
from target_bigquery.connection.resources import RefusedDataError
from target_bigquery.load import rejected_rows as refused
from target_bigquery.load.context import BigQueryContext
from target_bigquery.load.uploads import Item, PreparedItem, Upload
from target_bigquery.tables.types import Column, has_kind

T = TypeVar("T")


class Rejecting(Protocol):
    """A prepared item of either load path, with its rejected rows, if the settings allow some."""

    @property
    def item(self) -> Item: ...

    @property
    def rejects(self) -> Rejects | None: ...


class BigQueryLoadMethod(LoadMethod[BigQueryContext, PreparedItem]):
    """Base of the load methods: prepares items and joins a group into one file."""

    def make_ready(self, item: Item) -> PreparedItem:
        return self.context.files.prepare(item, self.context.upload_format, self.rejects(item))

    def rows_found(self, part: Any) -> int:
        return int(part.rows + len(part.rejects or ()))

    def nothing(self, item: Item) -> PreparedItem:
        return PreparedItem(item)

    def kind(self, item: Item) -> str:  # noqa: ARG002 - all items of a stream become files of one format
        return self.context.upload_format

    def load_each(self, parts: Sequence[PreparedItem], load: Callable[[Sequence[PreparedItem]], None]) -> None:
        """Load a group into a table with the columns of the destination, by as many jobs as needed."""
        try:
            for some in self.context.files.per_job(self.fresh([p for p in parts if p.rows or p.rejects])):
                self.load_without_refused(some, load, self.context.destination.load_fields)
        finally:
            self.context.files.discard(*parts)

    def load_without_refused(
        self, parts: Sequence[PreparedItem], load: Callable[[Sequence[PreparedItem]], T], fields: Fields
    ) -> T:
        """Load a group, without the rows for which BigQuery refuses it, where there may be such rows.

        `fields` are the columns of the table that it goes into first.
        """
        made = list(parts)
        try:
            while True:
                try:
                    return load(made)
                except RefusedDataError as error:
                    if self.context.most_rejected is None:
                        msg = f"{error}; or set on_bad_row: dead_letter, which puts such rows aside"
                        raise RefusedDataError(msg) from None
                    made = refused.drop_rejected(self.context, made, fields, error)
        finally:
            self.context.files.discard(*made)

    def write_dead_letters(self, parts: Sequence[Rejecting]) -> None:
        """Write the rejected rows to `_sdc_rejected`."""
        if pending := pending_of(parts):
            self.context.dead_letter_table.write(self.context.stream, pending)
            self.dead_letters_written(parts, pending)

    def dead_letters_written(self, parts: Sequence[Rejecting], pending: Sequence[BatchRejects]) -> None:
        """Mark the rejected rows as written."""
        for part in parts:
            if part.rejects is not None:
                part.rejects.mark_written(part.rejects.pending())
        self.log_rejected([row for batch in pending for row in batch.rows])

    def join(self, parts: Sequence[PreparedItem]) -> Upload:
        """Join a group into one upload."""
        try:
            return self.context.files.join(parts, self.context.upload_format)
        except TooManyRejectedError:
            raise
        except DataError as error:
            raise self.hinted(error) from None

    def count(self, upload: Upload) -> None:
        """Count a finished load."""
        self.context.tally.add(load_jobs=len(upload.jobs) or 1, rows=upload.rows, bytes=upload.bytes)

    def removable_files(self, parts: Sequence[PreparedItem], staged: Any) -> list[Url]:
        """Return the files to remove after a load, including those put into `gcs_stage`."""
        return [*super().removable_files(parts, staged), *(url for part in parts for url in part.staged)]


def pending_of(parts: Sequence[Rejecting]) -> list[BatchRejects]:
    """Return the rejected rows of some parts that were not written yet."""
    found = ((p.item.batch_id, p.rejects.pending()) for p in parts if p.rejects)
    return [BatchRejects(batch_id, rows) for batch_id, rows in found if rows]


def upload_format(load_format: str, columns: Sequence[Column]) -> str:
    """Return the format that items are uploaded as. Parquet cannot hold JSON columns; Avro can. Pure."""
    chosen = "parquet" if load_format == "auto" else load_format
    return "avro" if chosen == "parquet" and has_kind(columns, "JSON") else chosen
