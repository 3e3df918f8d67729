"""The sink of a stream: BATCH messages and records become items that the load method of its table loads.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from singer_sdk.sinks import BatchSink

from singer_arrow.batch.message import Batch
from singer_arrow.casting.from_json import BadRowError
from singer_arrow.errors import DataError
from singer_arrow.load.checkpoint import Checkpoints
from singer_arrow.load.dead_letters import RecordOrigins, Rejected
from singer_arrow.load.finishing import Finishing
from singer_arrow.load.metrics import Tally
from singer_arrow.load.scheduler import AnyLoadSteps, LoadScheduler
from singer_arrow.read_progress import Skipped
from singer_arrow.records.buffer import RecordBuffer
from singer_arrow.records.errors import LACKS_KEY, MissingKeyError
from singer_arrow.records.metadata_columns import DELETED_COLUMN, METADATA_COLUMNS, VERSION_COLUMN, MetadataColumns
from singer_arrow.records.parser import ParsedLines, RecordParser
from singer_arrow.records.rejected import first_runs
from singer_arrow.records.schema_checks import rules_for, rules_unchecked
from singer_arrow.records.validation import check_dates, check_record, date_format, validator

if TYPE_CHECKING:
    import pyarrow as pa

    from singer_arrow.records.block import Block

_RECORD_FILE_BYTES = 32 << 20


class StreamTable(Protocol):
    """The table of one stream while its SCHEMA stays the same."""

    @property
    def method(self) -> AnyLoadSteps:
        """Load method of the table."""

    @property
    def record_schema(self) -> pa.Schema | None:
        """Arrow schema that records are parsed to; None: they are passed on as JSON Lines."""

    @property
    def is_streamed(self) -> bool:
        """Whether each file of records is a load of its own, soon after they were read."""

    def take_batch(self, batch: Batch) -> None:
        """Add a BATCH message to the load method."""

    def take_records(
        self, path: Path | None, rows: int, *, token: int, since: float, origins: RecordOrigins | None
    ) -> None:
        """Add a file of records to the load method, which removes the file.

        Args:
            path: JSON Lines; or a spool of `record_schema` (see `batch.spool`), by its suffix. None: all were refused.
            rows: Number of records in the file.
            token: Token of the records at the checkpoints.
            since: Time at which the first was read, by time.monotonic.
            origins: Lines of the input of the records, and those that were refused; None: the first one ends the run.
        """

    def activate_version(self, version: int) -> None:
        """Remove the rows of older versions, once all that was read before is in the table."""


class SinkTarget(Protocol):
    """What a sink uses of its target."""

    message_version: int | None
    """Version of the RECORD message that is being processed."""

    @property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints of the run."""

    @property
    def finishing(self) -> Finishing:
        """Deferred load methods of the run."""

    @property
    def scheduler(self) -> LoadScheduler:
        """Scheduler of the run."""

    @property
    def most_rejected(self) -> int | None:
        """Number of bad rows of a message that may be dead letters; None: the first one ends the run."""

    @property
    def line(self) -> int:
        """Number of the line that is being read, from 1."""

    def open_table(self, sink: LoadSink) -> StreamTable:
        """Create or alter the table of a sink."""

    def tally(self, stream: str) -> Tally:
        """Return the counts of a stream."""

    def temporary(self, suffix: str) -> Path:
        """Return a name for a new temporary file."""

    def drain_one(self, sink: Any) -> None:
        """Hand over the records that wait."""

    def drain_stream(self, stream: str) -> None:
        """Load all that was read of a stream, and wait for it."""


class LoadSink(BatchSink):
    """The sink of one stream while its SCHEMA stays the same: its table, and the records that wait for it."""

    table: StreamTable
    """The table, once `setup` was called."""

    def __init__(
        self, target: Any, stream_name: str, schema: dict[str, Any], key_properties: Sequence[str] | None
    ) -> None:
        self.target: SinkTarget = target
        super().__init__(target, stream_name, schema, key_properties)
        are_added, hard_delete = self.include_sdc_metadata_properties, bool(self.config.get("hard_delete"))
        self.metadata = MetadataColumns(
            self.original_schema["properties"],
            self.schema["properties"],
            are_added=are_added,
            tracks_versions=self.process_activate_version_messages and (are_added or hard_delete),
            hard_delete=hard_delete,
            sync_started_at=self.sync_started_at,
        )
        self.tally = self.target.tally(stream_name)
        self.waiting = RecordBuffer(self.target.temporary)
        self.rejects_rows = self.target.most_rejected is not None
        """Whether bad records are written to the table of dead letters, instead of ending the run."""
        self._refusal: DataError | None = None
        properties = self.schema["properties"]
        self._dates = {name: kind for name, prop in properties.items() if (kind := date_format(prop))}
        self._against = validator(self.schema)

    def setup(self) -> None:
        """Load all that was read before, then create or alter the table."""
        self.target.drain_stream(self.stream_name)
        super().setup()
        self.table = self.target.open_table(self)
        if self.table.method.deferred:
            self.target.finishing.defer(self.stream_name, self.table.method)
        self.target.scheduler.check()  # starts the ticker, also where a tap is slow

    @property
    def is_full(self) -> bool:
        """Whether the records that wait make a file."""
        most = self.batch_size_rows
        return self.waiting.size >= _RECORD_FILE_BYTES or (most is not None and self.current_size >= most)

    @cached_property
    def parser(self) -> RecordParser:
        """The parser of the stream's RECORD lines; only where the table has a `record_schema`."""
        import pyarrow as pa

        assert self.table.record_schema is not None
        own = pa.schema([f for f in self.table.record_schema if f.name not in self.metadata.of_records])
        make = rules_for if self.validate_schema else rules_unchecked
        return RecordParser(
            own,
            around=self.metadata.of_messages,
            rules=make(self.schema, own, self._key_properties),
            check=self.check_message,
            checks_types=self.validate_schema,
            skips_bad_records=self.rejects_rows,
            stream=self.stream_name,
        )

    def take_parsed(self, parsed: ParsedLines, lines: int, block: Block) -> None:
        """Add the rows, and the refused records, of the first so many lines of a block."""
        start, rows = 0, parsed.rows_of(lines)
        refused = [fault for fault in parsed.refused if fault.index < lines]
        runs = list(block.runs_of(lines, [fault.index for fault in refused])) if self.rejects_rows else []
        for fault in refused:
            self._get_context({})
            self.waiting.refused.refuse_line(block.number(fault.index), fault)
            self.tally_record_read()
        if self.waiting.holds_records:
            self.target.drain_one(self)
        while start < rows:
            context = self._get_context({})
            most = rows if self.batch_size_rows is None else max(1, self.batch_size_rows - self.current_size)
            count = min(rows - start, most)
            assert self.table.record_schema is not None
            schema, batched_at = self.table.record_schema, context["batch_start_time"]
            self.waiting.add_rows(self.metadata.completed(parsed, start, count, schema, batched_at))
            self.waiting.refused.came(first_runs(runs, start, count))
            self.tally_record_read(count)
            self.record_counter_metric.increment(count)
            start += count
            if self.is_full:
                self.target.drain_one(self)
        if refused and self.is_full:
            self.target.drain_one(self)

    def reject(self, url: str, skipped: Skipped) -> None:
        """Add a row that cannot be read, of a batch that is read row by row."""
        rejected = Rejected(url, skipped.position, skipped.column, skipped.reason, skipped.record)
        self._get_context({})
        self.waiting.refused.add(rejected)
        self.tally_record_read()

    def check_message(self, message: Mapping[str, Any]) -> None:
        """Check a RECORD message, the exact way.

        Raises:
            BadRowError: Its record does not fit the SCHEMA.
        """
        record = dict(message["record"])
        if self.metadata.are_added:
            self._add_sdc_metadata_to_record(record, dict(message), {})
        else:
            self._remove_sdc_metadata_from_record(record)
        self._check(record)
        for key in self._key_properties:
            if key not in record:
                raise BadRowError(LACKS_KEY, key)

    def warn_of_unknown(self, names: Iterable[str]) -> None:
        """Warn, once for each name, of properties that the SCHEMA does not have; they are left out."""
        if self.schema.get("additionalProperties", False):
            return
        known = self.schema["properties"]
        for name in names:
            if name not in known and name not in self._warned_missing_fields and name not in METADATA_COLUMNS:
                self.logger.warning("No schema for record field '%s'", name)
                self._warned_missing_fields.add(name)

    # What the SDK calls

    def start_batch(self, context: dict[str, Any]) -> None:  # noqa: ARG002 - the SDK's signature
        """Open a token for the records to come."""
        self.waiting.begin(self.target.checkpoints.open())

    def process_record(self, record: dict[str, Any], context: dict[str, Any]) -> None:  # noqa: ARG002
        """Write a record to the file."""
        if self._refusal is not None:
            error, self._refusal = self._refusal, None
            self.waiting.refused.refuse(self.target.line, record, error.reason, error.column)
            return
        if VERSION_COLUMN in self.metadata.constants and not self.metadata.are_added:
            record[VERSION_COLUMN] = self.target.message_version
        try:
            self.waiting.add_record(record)
        except UnicodeEncodeError as error:
            reason = f"it holds text that is no Unicode: {error.reason}"
            if not self.rejects_rows:
                raise DataError(reason) from None
            self.waiting.refused.refuse(self.target.line, record, reason, None)
        else:
            if self.rejects_rows:
                self.waiting.refused.came([(self.target.line, 1)])

    def process_batch(self, context: dict[str, Any]) -> None:  # noqa: ARG002
        """Add the file of the records that wait to the load method."""
        if not self.waiting:
            return
        path, refused, token = self.waiting.take()
        self.tally.add(records=self.current_size)
        origins, rows = refused.origins() if self.rejects_rows else None, self.current_size - len(refused)
        self.table.take_records(path, rows, token=token, since=self.waiting.since, origins=origins)

    def activate_version(self, new_version: int) -> None:
        """Remove the rows of older versions."""
        self.table.activate_version(new_version)

    def clean_up(self) -> None:
        """Let the SDK's metric count the rows of batches too."""
        counts = self.tally.counts()
        self.record_counter_metric.increment(max(0, counts["rows"] - counts["records"]))
        super().clean_up()

    def get_validator(self) -> None:
        """Return None: `_validate_and_parse` and `check_message` check records."""

    def _validate_and_parse(self, record: dict[str, Any]) -> dict[str, Any]:
        """Check as the SDK does, but keep the text of dates: a record and its BATCH twin make the same row.

        Raises:
            DataError: The record does not fit the SCHEMA.
        """
        try:
            self._check(record)
        except BadRowError as error:
            self._refuse(DataError(str(error), column=error.column))
        self.warn_of_unknown(name for name, value in record.items() if value is not None)
        return record

    def _remove_sdc_metadata_from_record(self, record: dict[str, Any]) -> None:
        """Remove the metadata of a record as the SDK does, except deletions that `hard_delete` uses."""
        kept = DELETED_COLUMN in record and self.metadata.keeps_deletions
        deletions = {DELETED_COLUMN: record[DELETED_COLUMN]} if kept else {}
        super()._remove_sdc_metadata_from_record(record)
        record.update(deletions)

    def _singer_validate_message(self, record: dict[str, Any]) -> None:
        for key in self._key_properties:
            if key not in record:
                self._refuse(MissingKeyError(LACKS_KEY, column=key))

    def _check(self, record: Mapping[str, Any]) -> None:
        if self.validate_schema:
            check_record(record, self._against)
        check_dates(record, self._dates)

    def _refuse(self, error: DataError) -> None:
        """Note that the record which `process_record` gets next is bad, or raise the error."""
        if not self.rejects_rows:
            raise error from None
        self._refusal = self._refusal or error
