"""The sink of a target that loads in the background: BATCH messages and records become items to load.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singer_sdk.sinks import BatchSink

from singer_arrow.batch.message import Batch
from singer_arrow.batch.spool import SUFFIX
from singer_arrow.casting.from_json import BadRowError
from singer_arrow.errors import DataError
from singer_arrow.load.dead_letters import RecordOrigins, Rejected
from singer_arrow.load.scheduler import AnyLoadSteps
from singer_arrow.records.buffer import ArrowFile, LinesFile
from singer_arrow.records.errors import LACKS_KEY, MissingKeyError
from singer_arrow.records.parser import Parsed, RecordParser
from singer_arrow.records.rejected import RefusedRecords, first_runs
from singer_arrow.records.schema_checks import rules_for, rules_unchecked
from singer_arrow.records.validation import check_dates, check_record, date_format, validator

if TYPE_CHECKING:
    import pyarrow as pa

    from singer_arrow.records.block import Block
    from singer_arrow.sdk.target import LoadTarget

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
_RECORD_FILE_BYTES = 32 << 20


class LoadSink(BatchSink):
    """The sink of one stream while its SCHEMA stays the same: what it is given becomes the items of its load method."""

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
        if self.takes_deletions:
            self.schema["properties"][DELETED_COLUMN] = {"type": ["null", "string"], "format": "date-time"}
        self.tally = target.tally(stream_name)
        self.method: AnyLoadSteps
        self._file: ArrowFile | LinesFile | None = None
        self._refused = RefusedRecords()
        self._refusal: DataError | None = None
        self._token = 0
        self.records_since = 0.0
        """When the first of the records that wait, or of those that are handed over, was read; by time.monotonic."""
        properties = self.schema["properties"]
        self._dates = {name: kind for name, prop in properties.items() if (kind := date_format(prop))}
        self._against = validator(self.schema)

    @abc.abstractmethod
    def open_load_method(self) -> AnyLoadSteps:
        """Make the table ready for this SCHEMA, and say what is done with the stream's items."""

    @abc.abstractmethod
    def take_batch(self, batch: Batch) -> None:
        """Add a BATCH message to the load method."""

    @abc.abstractmethod
    def take_records(self, path: Path | None, rows: int, token: int, origins: RecordOrigins | None = None) -> None:
        """Add a file of records to the load method; the file is the load method's to remove.

        Args:
            path: JSON Lines; or a spool of `record_schema` (see `batch.spool`), by its suffix. None: all were refused.
            rows: How many there are.
            token: Their token at the checkpoints.
            origins: Where they came from, and those that were refused; only where the target's `most_rejected` allows
                some.
        """

    @property
    def record_schema(self) -> pa.Schema | None:
        """What records are read as; None if they are to come as JSON Lines."""
        return None

    @property
    def is_streamed(self) -> bool:
        """Whether each file of records is a load of its own, soon after they were read."""
        return False

    @property
    def tracks_versions(self) -> bool:
        """Whether rows carry the version that their message carries."""
        return self.process_activate_version_messages and (
            self.include_sdc_metadata_properties or bool(self.config.get("hard_delete"))
        )

    @cached_property
    def says_deletions(self) -> bool:
        """Whether the tap says by a column of its own which rows are deleted."""
        return DELETED_COLUMN in self.original_schema["properties"]

    @property
    def takes_deletions(self) -> bool:
        """Whether that column is kept although no metadata is added; the SDK takes it away."""
        return self.says_deletions and bool(self.config.get("hard_delete"))

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
        self.method = self.open_load_method()
        if self.method.deferred:
            self.target.finishing.defer(self.stream_name, self.method)
        self.target.scheduler.check()  # from here on something ticks, also where a tap is slow

    def is_old(self, seconds: float) -> bool:
        """Whether records wait for longer than that."""
        waits = self._file is not None or bool(self._refused)
        return waits and time.monotonic() - self.records_since >= seconds

    @property
    def holds_rows(self) -> bool:
        """Whether rows of Arrow wait, to which no single records can be added."""
        return isinstance(self._file, ArrowFile)

    @property
    def is_full(self) -> bool:
        """Whether the records that wait make a file."""
        size = (self._file.size if self._file else 0) + self._refused.size
        most = self.batch_size_rows
        return size >= _RECORD_FILE_BYTES or (most is not None and self.current_size >= most)

    @cached_property
    def parser(self) -> RecordParser:
        """What parses the RECORD lines of the stream; only where there is a `record_schema`."""
        import pyarrow as pa

        assert self.record_schema is not None
        own = pa.schema([f for f in self.record_schema if f.name not in self._added])
        make = rules_for if self.validate_schema else rules_unchecked
        with_times = "_sdc_extracted_at" in self._added
        return RecordParser(
            own,
            around=("time_extracted", "version") if with_times else ("version",) if self._added else (),
            rules=make(self.schema, own, self._key_properties),
            check=self.check_message,
            checks_types=self.validate_schema,
            goes_on=self._sets_aside,
            stream=self.stream_name,
        )

    @cached_property
    def _added(self) -> tuple[str, ...]:
        """The columns that records get from their message, or from the target."""
        if self.include_sdc_metadata_properties:
            return tuple(c for c in METADATA_COLUMNS if c != DELETED_COLUMN)
        return (VERSION_COLUMN,) if VERSION_COLUMN in self.constants else ()

    @property
    def _sets_aside(self) -> bool:
        return self.target.most_rejected is not None

    def take_parsed(self, parsed: Parsed, lines: int, block: Block) -> None:
        """Take what the first so many lines of a block of RECORD messages hold."""
        start, rows = 0, parsed.rows_of(lines)
        refused = [fault for fault in parsed.refused if fault.index < lines]
        runs = list(block.runs_of(lines, [fault.index for fault in refused])) if self._sets_aside else []
        for fault in refused:
            self._get_context({})
            self._refused.refuse_line(block.number(fault.index), fault)
            self.tally_record_read()
        if isinstance(self._file, LinesFile):
            self.target.drain_one(self)
        while start < rows:
            context = self._get_context({})
            most = rows if self.batch_size_rows is None else max(1, self.batch_size_rows - self.current_size)
            count = min(rows - start, most)
            if self._file is None:
                assert self.record_schema is not None
                self._file = ArrowFile(self.target.temporary(SUFFIX), self.record_schema)
            assert isinstance(self._file, ArrowFile)
            self._file.write(self._completed(parsed, start, count, context["batch_start_time"]))
            self._refused.came(first_runs(runs, start, count))
            self.tally_record_read(count)
            self.record_counter_metric.increment(count)
            start += count
            if self.is_full:
                self.target.drain_one(self)
        if refused and self.is_full:
            self.target.drain_one(self)

    def put_aside(self, rejected: Rejected) -> None:
        """A row of a batch that goes row by row cannot be read."""
        self._get_context({})
        self._refused.add(rejected)
        self.tally_record_read()

    def _completed(self, parsed: Parsed, start: int, count: int, batched_at: datetime) -> pa.RecordBatch:
        """Rows of a block, with the columns that the target adds."""
        import pyarrow as pa

        assert self.record_schema is not None
        rows = parsed.rows.slice(start, count)
        if not self._added:
            return rows
        around = {name: array.slice(start, count) for name, array in parsed.around.items()}
        values: dict[str, Any] = {
            "_sdc_received_at": datetime.now(UTC),
            "_sdc_batched_at": batched_at,
            "_sdc_sequence": round(time.time() * 1000),
            "_sdc_sync_started_at": self.sync_started_at,
        }
        columns = []
        for field in self.record_schema:
            if field.name not in self._added:
                columns.append(rows.column(field.name))
            elif field.name == VERSION_COLUMN:
                columns.append(around["version"].cast(field.type))
            elif field.name == "_sdc_extracted_at":
                moments = [None if t is None else _in_utc(t) for t in around["time_extracted"].to_pylist()]
                columns.append(pa.array(moments, field.type))
            else:
                columns.append(pa.repeat(pa.scalar(values[field.name], field.type), count))
        return pa.RecordBatch.from_arrays(columns, schema=self.record_schema)

    def start_batch(self, context: dict[str, Any]) -> None:  # noqa: ARG002 - the SDK's signature
        """Open a token for the records to come."""
        self._token = self.target.checkpoints.open()
        self.records_since = time.monotonic()

    def process_record(self, record: dict[str, Any], context: dict[str, Any]) -> None:  # noqa: ARG002
        """Write a record to the file."""
        if self._refusal is not None:
            error, self._refusal = self._refusal, None
            self._refused.refuse(self.target.line, record, error.reason, error.column)
            return
        if VERSION_COLUMN in self.constants and not self.include_sdc_metadata_properties:
            record[VERSION_COLUMN] = self.target.message_version
        if self._file is None:
            self._file = LinesFile(self.target.temporary(".jsonl"))
        assert isinstance(self._file, LinesFile)
        try:
            self._file.write(record)
        except UnicodeEncodeError as error:
            reason = f"it holds text that is no Unicode: {error.reason}"
            if not self._sets_aside:
                raise DataError(reason) from None
            self._refused.refuse(self.target.line, record, reason, None)
        else:
            if self._sets_aside:
                self._refused.came([(self.target.line, 1)])

    def process_batch(self, context: dict[str, Any]) -> None:  # noqa: ARG002
        """Hand the file over."""
        if self._file is None and not self._refused:
            return
        file, self._file, token, self._token = self._file, None, self._token, 0
        if file is not None:
            file.close()  # where this fails, the token stays open for good, and no STATE passes these records
        self.tally.add(records=self.current_size)
        refused, self._refused = self._refused, RefusedRecords()
        origins = [refused.origins()] if self._sets_aside else []
        self.take_records(file.path if file else None, self.current_size - len(refused), token, *origins)

    def clean_up(self) -> None:
        """Let the SDK's metric count the rows of batches too."""
        counts = self.tally.counts()
        self.record_counter_metric.increment(max(0, counts["rows"] - counts["records"]))
        super().clean_up()

    def get_validator(self) -> None:
        """None: records are checked by `check_message` and `_validate_and_parse`, and the SCHEMA is a valid one."""

    def check_message(self, message: Mapping[str, Any]) -> None:
        """Check a RECORD message, the exact way.

        Raises:
            BadRowError: Its record is not as the SCHEMA says.
        """
        record = dict(message["record"])
        if self.include_sdc_metadata_properties:
            self._add_sdc_metadata_to_record(record, dict(message), {})
        else:
            self._remove_sdc_metadata_from_record(record)
        self._check(record)
        for key in self._key_properties:
            if key not in record:
                raise BadRowError(LACKS_KEY, key)

    def warn_of_unknown(self, names: Iterable[str]) -> None:
        """Say once of each property that the SCHEMA does not have that it is left out."""
        if self.schema.get("additionalProperties", False):
            return
        known = self.schema["properties"]
        for name in names:
            if name not in known and name not in self._warned_missing_fields and name not in METADATA_COLUMNS:
                self.logger.warning("No schema for record field '%s'", name)
                self._warned_missing_fields.add(name)

    def _check(self, record: Mapping[str, Any]) -> None:
        if self.validate_schema:
            check_record(record, self._against)
        check_dates(record, self._dates)

    def _validate_and_parse(self, record: dict[str, Any]) -> dict[str, Any]:
        """Check as the SDK does, but keep the text of dates: a record and its BATCH twin make the same row.

        Raises:
            DataError: The record is not as the SCHEMA says.
        """
        try:
            self._check(record)
        except BadRowError as error:
            self._refuse(DataError(str(error), column=error.column))
        self.warn_of_unknown(name for name, value in record.items() if value is not None)
        return record

    def _remove_sdc_metadata_from_record(self, record: dict[str, Any]) -> None:
        """Take the metadata of a record away as the SDK does, but for the deletions that are gone by."""
        kept = {DELETED_COLUMN: record[DELETED_COLUMN]} if self.takes_deletions and DELETED_COLUMN in record else {}
        super()._remove_sdc_metadata_from_record(record)
        record.update(kept)

    def _singer_validate_message(self, record: dict[str, Any]) -> None:
        for key in self._key_properties:
            if key not in record:
                self._refuse(MissingKeyError(LACKS_KEY, column=key))

    def _refuse(self, error: DataError) -> None:
        """A record is bad; `process_record`, which is next, puts it aside, unless that is not wanted."""
        if not self._sets_aside:
            raise error from None
        self._refusal = self._refusal or error


def _in_utc(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
