"""The sinks of a stream: its table, its RECORD lines in blocks, and the records that wait for it."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from singer_sdk import Target
from singer_sdk.sinks import BatchSink

from singer_arrow.casting.from_json import BadRowError
from singer_arrow.errors import DataError
from singer_arrow.formats.json_keys import KnownKeys
from singer_arrow.load.dead_letters import Rejected
from singer_arrow.load.method import AnyLoadMethod
from singer_arrow.records.parse import (
    DELETED_COLUMN,
    LACKS_KEY,
    METADATA_COLUMNS,
    VERSION_COLUMN,
    MetadataColumns,
    MissingKeyError,
    ParsedLines,
    RecordParser,
    record_text,
    shown_record,
)
from singer_arrow.records.queue import Block, RecordBuffer, first_runs
from singer_arrow.records.schema import rules_for, rules_unchecked
from singer_arrow.records.validation import RecordCheck
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.sdk.message_reader import LineReader
from singer_arrow.sdk.stream_maps import is_plain
from singer_arrow.warehouse.run import WarehouseRun
from singer_arrow.warehouse.settings import LoadSettings
from singer_arrow.warehouse.table import TableStream, WarehouseTable

if TYPE_CHECKING:
    from singer_sdk import Sink
    from singer_sdk.mapper import StreamMap


# The sink of a stream: its table, and the records that wait to become an item. BATCH messages pass it by, to
# `table.take_batch`.
#
# The privates used here are listed in `tests/unit/singer_arrow/sdk/test_target.py`, which fails when an SDK changes
# them.

_RECORD_FILE_BYTES = 32 << 20


class SinkTarget(Protocol):
    """What a sink uses of its target."""

    table_class: ClassVar[type[WarehouseTable]]
    run: WarehouseRun[LoadSettings]
    message_reader: LineReader
    message_version: int | None
    """Version of the RECORD message that is being processed."""

    def drain_one(self, sink: Any) -> None: ...


class LoadSink(BatchSink):
    """The sink of one stream while its SCHEMA stays the same: its table, and the records that wait for it."""

    table: WarehouseTable
    """The table, once `setup` was called."""
    method: AnyLoadMethod
    """The load method of the table."""

    def __init__(
        self, target: Any, stream_name: str, schema: dict[str, Any], key_properties: Sequence[str] | None
    ) -> None:
        self.target: SinkTarget = target
        super().__init__(target, stream_name, schema, key_properties)
        run = self.target.run
        settings, are_added = run.settings_of(stream_name), self.include_sdc_metadata_properties
        self.metadata = MetadataColumns(
            self.original_schema["properties"],
            self.schema["properties"],
            are_added=are_added,
            tracks_versions=self.process_activate_version_messages and (are_added or settings.hard_delete),
            hard_delete=settings.hard_delete,
            sync_started_at=self.sync_started_at,
        )
        self.tally = run.tallies.of(stream_name)
        self.waiting = RecordBuffer(run.temporary)
        self.rejects_rows = settings.most_rejected is not None
        """Whether bad records are written to the table of dead letters, instead of ending the run."""
        self._refusal: DataError | None = None
        self.check = RecordCheck(self.schema, checks_values=self.validate_schema)
        self.left_out = frozenset(self.original_schema["properties"]) - frozenset(self.schema["properties"])
        """Properties of the tap's SCHEMA that no column gets: the metadata of the tap, without add_record_metadata."""

    def setup(self) -> None:
        """Load all that was read before, then create or alter the table."""
        run, keys = self.target.run, tuple(self.key_properties)
        run.drain_stream(self.stream_name)
        super().setup()
        if names := self.left_out - {DELETED_COLUMN}:  # the table warns of that one
            self.logger.info(
                "Stream %r: columns of the tap are left out, as add_record_metadata is not set: %s",
                self.stream_name,
                ", ".join(sorted(names)),
            )
        stream = TableStream(
            name=self.stream_name,
            schema=self.schema,
            key_properties=keys,
            metadata=self.metadata,
            required=frozenset(self.schema.get("required") or ()) if self.validate_schema else frozenset(),
            left_out=self.left_out,
        )
        self.table = self.target.table_class(run, stream)
        self.method = self.table.method
        if self.method.deferred:
            run.finishing.methods.setdefault(self.stream_name, []).append(self.method)
        run.scheduler.check()

    @property
    def is_full(self) -> bool:
        """Whether the records that wait make a file."""
        most = self.batch_size_rows
        return self.waiting.size >= _RECORD_FILE_BYTES or (most is not None and self.current_size >= most)

    def drain(self) -> None:
        self.target.drain_one(self)

    def reject(self, rejected: Rejected) -> None:
        """Add a bad row: of RECORD lines, or of a batch that is read row by row."""
        self._get_context({})  # the SDK calls `start_batch`, which opens a token
        self.waiting.origins.refuse(rejected)
        self.tally_record_read()
        self.tally.add(records=1)

    @cached_property
    def _known_members(self) -> KnownKeys:
        schema = self.table.record_schema or from_json_schema(self.schema)
        return KnownKeys(schema, self.left_out.union(METADATA_COLUMNS), frozenset())

    # RECORD lines in blocks, as `RecordQueue` parses and adds them, where the table has a `record_schema`

    @cached_property
    def parser(self) -> RecordParser:
        import pyarrow as pa

        schema = self.table.record_schema
        assert schema is not None
        own = pa.schema([f for f in schema if f.name not in self.metadata.of_records])
        make = rules_for if self.validate_schema else rules_unchecked
        return RecordParser(
            own,
            around=self.metadata.of_messages,
            rules=make(self.schema, own, self._key_properties),
            check=self._check_message,
            checks_types=self.validate_schema,
            skips_bad_records=self.rejects_rows,
            known=self.left_out.union(METADATA_COLUMNS, self.metadata.of_records),
            exact=self._key_properties if self.method.merges else (),
            stream=self.stream_name,
        )

    def take_parsed(self, parsed: ParsedLines, lines: int, block: Block) -> None:
        """Add the rows, and the refused records, of the first `lines` lines of a block."""
        start, rows, schema = 0, parsed.rows_of(lines), self.table.record_schema
        assert schema is not None
        self.tally.left_out.of_records(parsed.unknown)
        refused = [bad_line for bad_line in parsed.refused if bad_line.index < lines]
        runs = list(block.runs_of(lines, [bad_line.index for bad_line in refused])) if self.rejects_rows else []
        for bad_line in refused:
            assert bad_line.line is not None
            number, record = block.number(bad_line.index), record_text(bad_line.line)
            self.reject(Rejected(None, number, bad_line.column, bad_line.reason, record))
        if self.waiting.lines is not None:
            self.drain()
        while start < rows:
            context = self._get_context({})
            most = rows if self.batch_size_rows is None else max(1, self.batch_size_rows - self.current_size)
            count = min(rows - start, most)
            self.waiting.add_rows(self.metadata.completed(parsed, start, count, schema, context["batch_start_time"]))
            for run in first_runs(runs, start, count):
                self.waiting.origins.add(*run)
            self.tally_record_read(count)
            self.tally.add(records=count)
            self.record_counter_metric.increment(count)
            start += count
            if self.is_full:
                self.drain()
        if refused and self.is_full:
            self.drain()

    def _check_message(self, message: Mapping[str, Any]) -> None:
        """Check a single RECORD message exactly, or raise BadRowError."""
        record = dict(message["record"])
        if self.metadata.are_added:
            self._add_sdc_metadata_to_record(record, dict(message), {})
        else:
            self._remove_sdc_metadata_from_record(record)
        self.check(record)
        for key in self._key_properties:
            if key not in record:
                raise BadRowError(LACKS_KEY, key)

    # What the SDK calls; its batches are the records that wait, never BATCH messages

    def start_batch(self, context: dict[str, Any]) -> None:  # noqa: ARG002 - the SDK's signature
        run = self.target.run
        self.waiting.token, self.waiting.since = run.checkpoints.open(), time.monotonic()
        if self.stream_name in run.sent_whole:
            run.sent_whole.remove(self.stream_name)
            self.table.warn_of_rows()

    def process_record(self, record: dict[str, Any], context: dict[str, Any]) -> None:  # noqa: ARG002
        line = self.target.message_reader.number
        self.tally.add(records=1)  # now, not with its batch: progress shows what is read
        if self._refusal is not None:
            error, self._refusal = self._refusal, None
            rejected = Rejected(None, line, error.column, error.reason, shown_record(record))
            self.waiting.origins.refuse(rejected)
            return
        if VERSION_COLUMN in self.metadata.constants and not self.metadata.are_added:
            record[VERSION_COLUMN] = self.target.message_version
        try:
            self.waiting.add_record(record)
        except UnicodeEncodeError as error:
            reason = f"it holds text that is no Unicode: {error.reason}"
            if not self.rejects_rows:
                raise DataError(reason) from None
            self.waiting.origins.refuse(Rejected(None, line, None, reason, shown_record(record)))
        else:
            if self.rejects_rows:
                self.waiting.origins.add(line, 1)

    def process_batch(self, context: dict[str, Any]) -> None:  # noqa: ARG002
        if not self.waiting:
            return
        path, origins, token = self.waiting.take()
        rows, given = self.current_size - len(origins.refused), origins if self.rejects_rows else None
        self.table.take_records(path, rows, token=token, since=self.waiting.since, origins=given)

    def activate_version(self, new_version: int) -> None:
        self.table.activate_version(new_version)

    def clean_up(self) -> None:
        """Let the SDK's metric count the rows of batches too."""
        counts = self.tally.counts()
        self.record_counter_metric.increment(max(0, counts["rows"] - counts["records"]))
        super().clean_up()

    def get_validator(self) -> None:
        """Return None: `check` checks records."""

    def _validate_and_parse(self, record: dict[str, Any]) -> dict[str, Any]:
        """Check as the SDK does, but keep the text of dates: a record and its BATCH twin make the same row."""
        try:
            self.check(record)
        except BadRowError as error:
            self._refuse(DataError(str(error), column=error.column))
        self.tally.left_out.of_records(self._known_members.count_of(record))
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

    def _refuse(self, error: DataError) -> None:
        """Note that the record which `process_record` gets next is bad, or raise the error."""
        if not self.rejects_rows:
            raise error from None
        self._refusal = self._refusal or error


# The sinks that the streams of the input go to, by the stream maps between them.


class StreamSinks:
    """The sinks of a target; `changes` counts how often a stream may have got another sink."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._sinks: dict[StreamMap, Sink] = {}
        self.changes = 0

    def every(self, name: str | None = None) -> list[LoadSink]:
        """Return the sinks, all or of a name: those that were replaced, which are empty, and those at present."""
        active = self._target._sinks_active
        found = active.values() if name is None else [active[name]] if name in active else []
        replaced = (sink for sink in self._target._sinks_to_clear if name in (None, sink.stream_name))
        return [sink for sink in (*replaced, *found) if isinstance(sink, LoadSink)]

    def active(self, alias: str) -> LoadSink | None:
        """Return the sink of a name at present, or None."""
        sink = self._target._sinks_active.get(alias)
        return sink if isinstance(sink, LoadSink) else None

    def own(self, stream_map: StreamMap) -> LoadSink:
        """Return the sink of a stream map, for its own SCHEMA also where another stream has the same name."""
        alias = stream_map.stream_alias
        active = self._target.get_sink(alias)
        own = self._sinks.setdefault(stream_map, active)
        if (own.original_schema, own.key_properties) != (active.original_schema, active.key_properties):
            self.changes += 1
            schema, keys = copy.deepcopy(own.original_schema), own.key_properties
            active = self._sinks[stream_map] = self._target.get_sink(alias, schema=schema, key_properties=keys)
        assert isinstance(active, LoadSink)
        return active

    def of_lines(self, stream: str) -> LoadSink | None:
        """Return the sink that RECORD lines of a stream can go to as they are, or None.

        No map changes its rows, no other stream has the same sink, and its table has a schema of records.
        """
        maps = self._target.mapper.stream_maps.get(stream, [])
        if len(maps) != 1 or not is_plain(maps[0]):
            return None
        alias, every = maps[0].stream_alias, self._target.mapper.stream_maps.values()
        is_shared = bool(self._target.config.get("stream_maps"))  # without them, each has a sink of its own
        if is_shared and sum(any(m.stream_alias == alias for m in others) for others in every) > 1:
            return None
        sink = self.active(alias)
        return sink if sink is not None and sink.table.record_schema is not None else None
