"""The `_sdc_` columns of a stream: which of them it has, and their values for batches and for records."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from singer_arrow.records.parser import ParsedLines

VERSION_COLUMN = "_sdc_table_version"
DELETED_COLUMN = "_sdc_deleted_at"
METADATA_COLUMNS = (
    "_sdc_extracted_at",
    "_sdc_received_at",
    "_sdc_batched_at",
    DELETED_COLUMN,
    "_sdc_sequence",
    VERSION_COLUMN,
    "_sdc_sync_started_at",
)
"""What `add_record_metadata` adds, as the SDK names it."""


class MetadataColumns:
    """The metadata columns of one stream while its SCHEMA stays the same.

    `given` are the properties of the tap's SCHEMA; to `properties`, those of the stream, are added the columns that are
    kept without `add_record_metadata`. `sync_started_at` is in milliseconds.
    """

    def __init__(
        self,
        given: Collection[str],
        properties: dict[str, Any],
        *,
        are_added: bool,
        tracks_versions: bool,
        hard_delete: bool,
        sync_started_at: int,
    ) -> None:
        self.are_added = are_added
        self.tracks_versions = tracks_versions
        self.marks_deletions = DELETED_COLUMN in given
        """Whether a column of the tap marks the rows that are deleted."""
        self.keeps_deletions = self.marks_deletions and hard_delete
        """Whether that column is kept although no metadata is added; the SDK removes it."""
        self._sync_started_at = sync_started_at
        if tracks_versions:
            properties.setdefault(VERSION_COLUMN, {"type": ["null", "integer"]})
        if self.keeps_deletions:
            properties[DELETED_COLUMN] = {"type": ["null", "string"], "format": "date-time"}
        self.constants = tuple(c for c in METADATA_COLUMNS if c in properties and c not in given)
        """The columns that batch files do not hold."""
        self.of_records: tuple[str, ...] = (VERSION_COLUMN,) if VERSION_COLUMN in self.constants else ()
        """The columns that records get from their message, or from the target."""
        if are_added:
            self.of_records = tuple(c for c in METADATA_COLUMNS if c != DELETED_COLUMN)

    @property
    def of_messages(self) -> tuple[str, ...]:
        """The keys of RECORD messages, beside the record, that fill a column."""
        if "_sdc_extracted_at" in self.of_records:
            return ("time_extracted", "version")
        return ("version",) if self.of_records else ()

    def values(self, version: int | None) -> dict[str, Any]:
        """Return the values of `constants` for a BATCH message that was received now."""
        now = datetime.now(UTC)
        values = {**self._now(now), "_sdc_extracted_at": now, "_sdc_batched_at": now, VERSION_COLUMN: version}
        return {name: values.get(name) for name in self.constants}

    def completed(
        self, parsed: ParsedLines, start: int, count: int, schema: pa.Schema, batched_at: datetime
    ) -> pa.RecordBatch:
        """Return rows of parsed RECORD messages with the columns of `of_records`."""
        import pyarrow as pa

        rows = parsed.rows.slice(start, count)
        if not self.of_records:
            return rows
        around = {name: array.slice(start, count) for name, array in parsed.around.items()}
        values = {**self._now(datetime.now(UTC)), "_sdc_batched_at": batched_at}
        columns = []
        for field in schema:
            if field.name not in self.of_records:
                columns.append(rows.column(field.name))
            elif field.name == VERSION_COLUMN:
                columns.append(around["version"].cast(field.type))
            elif field.name == "_sdc_extracted_at":
                moments = [None if t is None else _in_utc(t) for t in around["time_extracted"].to_pylist()]
                columns.append(pa.array(moments, field.type))
            else:
                columns.append(pa.repeat(pa.scalar(values[field.name], field.type), count))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _now(self, now: datetime) -> dict[str, Any]:
        return {
            "_sdc_received_at": now,
            "_sdc_sequence": round(time.time() * 1000),
            "_sdc_sync_started_at": self._sync_started_at,
        }


def _in_utc(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
