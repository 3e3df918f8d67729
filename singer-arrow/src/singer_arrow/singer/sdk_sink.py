"""The sink of a target that loads in the background: BATCH messages and records become items of the stream's lane.

The privates used here are listed in `tests/unit/singer_arrow/test_sdk_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
from singer_sdk.exceptions import InvalidRecord
from singer_sdk.sinks import BatchSink

from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError
from singer_arrow.singer.loads import AnyLane

if TYPE_CHECKING:
    from singer_arrow.singer.sdk_target import LoadTarget

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
_RECORD_FILE_BYTES = 64 << 20


class LoadSink(BatchSink):
    """The sink of one stream while its SCHEMA stays the same: what it is given becomes the items of its lane."""

    def __init__(
        self,
        target: LoadTarget,
        stream_name: str,
        schema: dict[str, Any],
        key_properties: Sequence[str] | None,
    ) -> None:
        self.target = target
        super().__init__(target, stream_name, schema, key_properties)
        if self.tracks_versions:
            self.schema["properties"].setdefault(VERSION_COLUMN, {"type": ["null", "integer"]})
        self.tally = target.tally(stream_name)
        self.lane: AnyLane
        self._records: BinaryIO | None = None
        self._path: Path | None = None
        self._token = 0
        self._since = 0.0

    @abc.abstractmethod
    def open_lane(self) -> AnyLane:
        """Make the table ready for this SCHEMA, and say what is done with the stream's items."""

    @abc.abstractmethod
    def take_batch(self, batch: Batch) -> None:
        """Add a BATCH message to the lane."""

    @abc.abstractmethod
    def take_records(self, path: Path, rows: int, token: int) -> None:
        """Add a JSON Lines file of records to the lane; the file is the lane's to remove."""

    @property
    def tracks_versions(self) -> bool:
        """Whether rows carry the version that their message carries."""
        return self.process_activate_version_messages and (
            self.include_sdc_metadata_properties or bool(self.config.get("hard_delete"))
        )

    @cached_property
    def constants(self) -> tuple[str, ...]:
        """The metadata columns of this stream that batch files do not hold."""
        given = self.original_schema["properties"]
        return tuple(c for c in METADATA_COLUMNS if c in self.schema["properties"] and c not in given)

    def metadata(self, version: int | None) -> dict[str, Any]:
        """The values of `constants` for a BATCH message that was received now."""
        now = datetime.now(UTC)
        values = {
            "_sdc_received_at": now,
            "_sdc_batched_at": now,
            "_sdc_sequence": round(time.time() * 1000),
            VERSION_COLUMN: version,
            "_sdc_sync_started_at": self.sync_started_at,
        }
        return {name: values.get(name) for name in self.constants}

    def setup(self) -> None:
        """Load what came before, then make the table ready."""
        self.target.drain_stream(self.stream_name)
        super().setup()
        self.lane = self.open_lane()
        if self.lane.deferred:
            self.target.deferred.append(self.lane)

    def is_old(self, seconds: float) -> bool:
        """Whether records wait for longer than that."""
        return self._records is not None and time.monotonic() - self._since >= seconds

    @property
    def is_full(self) -> bool:
        """Whether the records that wait make a file."""
        size = self._records.tell() if self._records else 0
        return self.current_size >= self.max_size or size >= _RECORD_FILE_BYTES

    def start_batch(self, context: dict[str, Any]) -> None:  # noqa: ARG002 - the SDK's signature
        """Open a file for the records to come."""
        self._token = self.target.checkpoints.open()
        self._since = time.monotonic()
        self._path = self.target.temporary(".jsonl")
        self._records = self._path.open("wb")

    def process_record(self, record: dict[str, Any], context: dict[str, Any]) -> None:  # noqa: ARG002
        """Write a record to the file."""
        if VERSION_COLUMN in self.constants and not self.include_sdc_metadata_properties:
            record[VERSION_COLUMN] = self.target.message_version
        assert self._records is not None
        try:
            self._records.write(_encode(record) + b"\n")
        except UnicodeEncodeError as error:
            msg = f"A RECORD of stream {self.stream_name!r} holds text that is no Unicode: {error.reason}"
            raise DataError(msg) from None

    def process_batch(self, context: dict[str, Any]) -> None:  # noqa: ARG002
        """Hand the file over."""
        if self._records is None or self._path is None:
            return
        self._records.close()
        self._records = None
        self.tally.add(records=self.current_size)
        self.take_records(self._path, self.current_size, self._token)

    def clean_up(self) -> None:
        """Let the SDK's metric count the rows of batches too."""
        counts = self.tally.counts()
        self.record_counter_metric.increment(max(0, counts["rows"] - counts["records"]))
        super().clean_up()

    def _validate_and_parse(self, record: dict[str, Any]) -> dict[str, Any]:
        """Check as the SDK does, but keep the text of dates: a record and its BATCH twin make the same row.

        Raises:
            InvalidRecord: The record is not as the SCHEMA says; names the stream, as the SDK does not.
        """
        try:
            if self._validator is not None:
                self._validator.validate(record)
            self._parse_timestamps_in_record(record.copy(), self.schema, self.datetime_error_treatment)
        except InvalidRecord as error:
            raise self._invalid(error.error_message, record) from None
        except (ValueError, TypeError) as error:  # a date that is none
            raise self._invalid(str(error), record) from None
        return record

    def _invalid(self, reason: str, record: dict[str, Any]) -> InvalidRecord:
        return InvalidRecord(f"stream {self.stream_name!r}: {reason}", record)


_encode = msgspec.json.Encoder(decimal_format="number").encode
