"""One stream, while its SCHEMA stays the same: its table, and what is done with its messages."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singer_arrow.batch.message import Batch
from singer_arrow.errors import SchemaError
from singer_arrow.schema import from_json_schema
from singer_arrow.singer.declare import APPEND, UPSERT
from singer_arrow.singer.sdk_sink import DELETED_COLUMN, VERSION_COLUMN, LoadSink
from singer_arrow.urls import Url
from target_bigquery import migrate, sql
from target_bigquery.config import Settings
from target_bigquery.convert import Conversion
from target_bigquery.load import METHODS, AppendOnly, Overwrite, Upsert
from target_bigquery.load.files import Item
from target_bigquery.load.lane import Lane, Way, upload_formats

if TYPE_CHECKING:
    from target_bigquery.target import TargetBigQuery

ALONE_BYTES = 64 << 20
"""A Parquet file of that size is a load of its own: as it is, it costs nothing to make."""


class BigQuerySink(LoadSink):
    """See the module."""

    target: TargetBigQuery
    lane: Lane

    def __init__(self, target: TargetBigQuery, stream_name: str, schema: dict[str, Any], key_properties: Any) -> None:
        super().__init__(target, stream_name, schema, key_properties)
        self._places = itertools.count()

    @property
    def settings(self) -> Settings:
        """The target's."""
        return self.target.settings

    def open_lane(self) -> Lane:
        """See `LoadSink.open_lane`.

        Raises:
            SchemaError: The table or the stream's SCHEMA cannot be used.
        """
        self.given = from_json_schema(self.schema)
        self.destination = migrate.prepare_table(self.target.client, self.stream_name, self.given)
        way = Way(
            stream=self.stream_name,
            client=self.target.client,
            files=self.target.files,
            destination=self.destination,
            tally=self.tally,
            formats=upload_formats(self.settings.load_format, self.destination.columns),
            ledger=self.target.ledger(self.stream_name, self.destination.table),
            replacement=self.target.replacement(self.destination.name),
            replay_loads=self.settings.replay_loads,
            keys=self._keys(),
        )
        return METHODS[self._load_method()](way)

    def take_batch(self, batch: Batch) -> None:
        """See `LoadSink.take_batch`."""
        token = self.target.checkpoints.open()
        self.tally.add(batches=1)
        if batch.batch_id and isinstance(self.lane, AppendOnly) and not self.settings.replay_loads:
            if (self.stream_name, batch.batch_id) in self.target.claimed:
                self.logger.info("Batch %s came twice in this run and is loaded once", batch.batch_id)
                self.tally.add(skipped=1)
                self.target.checkpoints.close([token])
                return
            self.target.claimed.add((self.stream_name, batch.batch_id))
        item = Item(
            urls=batch.manifest,
            file_format=batch.format,
            conversion=self._conversion(self.metadata(batch.version)),
            batch_id=batch.batch_id,
        )
        is_large = batch.format == "parquet" and (batch.byte_count or 0) >= ALONE_BYTES and len(batch.manifest) == 1
        kind = self.lane.upload_format(item)
        self.target.loads.add(self.lane, item, token=token, kind=kind, alone=is_large)

    def take_records(self, path: Path, rows: int, token: int) -> None:  # noqa: ARG002 - the base's signature
        """See `LoadSink.take_records`."""
        url = str(Url.parse(str(path)))
        item = Item(urls=(url,), file_format="jsonl", conversion=self._conversion({}), is_temporary=True)
        self.target.loads.add(self.lane, item, token=token, kind=self.lane.upload_format(item))

    def activate_version(self, new_version: int) -> None:
        """Take the rows of older versions out of the table, once all that came before is in it."""
        self.target.drain_stream(self.stream_name)
        if isinstance(self.lane, Overwrite):
            self.lane.will_replace()
            return
        columns = {c.source: c.name for c in self.destination.columns}
        if not self.tracks_versions:
            self.logger.warning(
                "ACTIVATE_VERSION of stream %r has no effect: rows carry no version; "
                "set add_record_metadata or hard_delete",
                self.stream_name,
            )
            return
        client, table = self.target.client, self.destination.name
        quoted, version = client.quoted(table), columns[VERSION_COLUMN]
        hard = self.settings.hard_delete
        text = (
            sql.delete_versions(quoted, version)
            if hard
            else sql.mark_versions_deleted(quoted, version, columns[DELETED_COLUMN])
        )
        what = f"Removing old versions from table {client.path(table)}"
        gone = client.query(text, {"version": new_version}, what=what).affected
        verb = "deleted" if hard else "marked as deleted"
        self.logger.info("Stream %r: version %d is active, %d older rows %s", self.stream_name, new_version, gone, verb)

    def _load_method(self) -> str:
        if self.settings.load_method == UPSERT and not self.key_properties:
            self.logger.warning("It has no key_properties, so rows are appended, not merged")
            return APPEND
        return self.settings.load_method

    def _conversion(self, constants: dict[str, Any]) -> Conversion:
        is_upsert = isinstance(self.lane, Upsert)
        return Conversion(
            columns=self.destination.columns,
            given=self.given,
            constants=constants,
            keys=tuple(self.key_properties) if is_upsert else (),
            place=next(self._places) if is_upsert else None,
        )

    def _keys(self) -> tuple[str, ...]:
        columns = {c.source: c.name for c in self.destination.columns}
        if missing := [k for k in self.key_properties if k not in columns]:
            msg = (
                f"Key property {missing[0]!r} of stream {self.stream_name!r} is not among the properties of its SCHEMA"
            )
            raise SchemaError(msg)
        return tuple(columns[k] for k in self.key_properties)
