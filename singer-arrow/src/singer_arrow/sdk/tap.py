"""The base of the taps and their streams; catalogs, read without loss."""

from __future__ import annotations

import abc
import copy
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from singer_sdk import Stream, Tap
from singer_sdk.exceptions import AbortedSyncFailedException, AbortedSyncPausedException
from singer_sdk.helpers._batch import BaseBatchFileEncoding, BatchConfig, StorageTarget
from singer_sdk.helpers._catalog import get_selected_schema
from singer_sdk.helpers.conform import TypeConformanceLevel
from singer_sdk.mapper import RemoveRecordTransform, SameRecordTransform
from singer_sdk.plugin_base import _ConfigInput
from singer_sdk.singerlib import Catalog, CatalogEntry, MetadataMapping, Schema, SchemaMessage

from singer_arrow.batch.message import REJECTED_BATCH, Batch
from singer_arrow.errors import (
    ConfigError,
    FailedStreamsError,
    ServiceError,
    SingerArrowError,
    is_of_disk,
    is_of_memory,
    with_code,
)
from singer_arrow.load.stream_ends import FULL_TABLE, KEY, METHOD, REPLICATION, WHOLE
from singer_arrow.monitoring.monitor import RunMonitor
from singer_arrow.run_figures import RunFigures, StreamFigures
from singer_arrow.runtime.process import Terminated
from singer_arrow.runtime.threads import interrupt
from singer_arrow.schema.json_schema import plain_numbers
from singer_arrow.sdk.message_writer import LineWriter, PlainMessage, StateMessages
from singer_arrow.sdk.settings import CheckedPlugin, checked_state, json_object

if TYPE_CHECKING:
    from types import FrameType

    import pyarrow as pa

    from singer_arrow.records.validation import EncodedRecords, RecordEncoder


# Catalogs of taps, read without loss: their schemas keep every keyword, their numbers those of JSON.


class ExactSchema(Schema):
    """A JSON Schema that keeps every keyword; the SDK's own drops those that it does not know."""

    __slots__ = ("_exact",)

    def __init__(self, exact: Mapping[str, Any]) -> None:
        super().__init__()
        self._exact = exact

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of the schema as it was given."""
        return copy.deepcopy(dict(self._exact))


def exact_catalog(catalog: Mapping[str, Any]) -> Catalog:
    """Read a catalog without loss; its numbers become those of JSON: the SDK reads `0.01` as a Decimal."""
    catalog = plain_numbers(catalog)
    try:
        result = Catalog.from_dict(dict(catalog))
        for stream in catalog.get("streams", []):
            entry = result[stream["tap_stream_id"]]
            entry.schema = ExactSchema(stream.get("schema", {}))
            _deselect_hollow(entry.metadata, stream.get("schema", {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        msg = f"The catalog is not one of Singer's ({type(error).__name__}: {error}); write it with --discover"
        raise ConfigError(msg) from None
    return result


def _deselect_hollow(metadata: MetadataMapping, schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
    """Deselect objects of which no part is selected: a schema without properties would allow any object."""
    for name, part in schema.get("properties", {}).items():
        place = (*path, "properties", name)
        parts = part.get("properties")
        if not parts:
            continue
        _deselect_hollow(metadata, part, place)
        mask = metadata.resolve_selection()
        if not any(mask[(*place, "properties", p)] for p in parts):
            metadata[place].selected = False


# The tap's side of the seam to singer-sdk: streams that send batch files, or records, and decide when STATE leaves.
#
# The privates used here are listed in `tests/unit/singer_arrow/sdk/test_tap.py`, which fails when a new SDK changes
# them.

_ENDS_OF_TESTS = (AbortedSyncPausedException, AbortedSyncFailedException)
"""What the SDK raises when `--test` has the records that it asked for."""
Encoded = TypeVar("Encoded")
Shared = TypeVar("Shared")
Encode = Callable[["pa.RecordBatch"], Iterable[Encoded]]


@dataclass(slots=True)
class AnnouncingSchema(SchemaMessage):
    """A SCHEMA message of a stream whose end will be marked."""

    shard: str | None = None  # which part the run sends, as `stream_ends.SHARD`; None: all
    sent_whole: bool = True  # False: only what is new since its STATE
    is_full_table: bool = False  # rows that it does not send are gone
    load_method: str | None = None  # for the target, where its settings have none

    def to_dict(self) -> dict[str, Any]:
        """Return the message with the announcement."""
        message = SchemaMessage.to_dict(self)  # the class that slots make does not know super()
        return {
            **message,
            **({METHOD: self.load_method} if self.load_method else {}),
            KEY: True,
            WHOLE: self.sent_whole,
            **({REPLICATION: FULL_TABLE} if self.is_full_table else {}),
        }


class ArrowTap(CheckedPlugin, Tap):
    """A tap of `ArrowStream`s.

    In a run, a stream that fails does not keep the others from being read; the run ends with its error then.

    Attributes:
        failures: The errors of streams that failed, by name.
    """

    dynamic_catalog: bool = True  # so that settings are checked in discovery too
    message_writer_class = LineWriter
    _has_whole_state = False

    def __init__(
        self,
        *,
        catalog: Catalog | Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        is_run: bool = False,
        **kwargs: Any,
    ) -> None:
        self.failures: dict[str, SingerArrowError] = {}
        self._is_run = is_run
        self._interned: dict[tuple[type, str], Any] = {}
        self._given_state = checked_state(state or {})
        exact = catalog if catalog is None or isinstance(catalog, Catalog) else exact_catalog(catalog)
        super().__init__(catalog=exact, state=copy.deepcopy(self._given_state), **kwargs)
        assert isinstance(self.message_writer, LineWriter)
        self.states = self._state_writer = StateMessages(self.message_writer)

    @cached_property
    def unfinished(self) -> Counter[str]:
        """How many selected streams that are not finished are sent under each name."""
        selected = (s for s in self.streams.values() if isinstance(s, ArrowStream) and s.selected)
        return Counter(name for s in selected for name in s.sent_names)

    def given_state(self, stream: str) -> Mapping[str, Any]:
        """Return the STATE that a stream was started with, also while streams are discovered."""
        entry = self._given_state.get("bookmarks", {}).get(stream, {})
        assert isinstance(entry, Mapping)
        return entry

    @classmethod
    def invoke(  # type: ignore[override]  # the SDK's own taps narrow it alike
        cls,
        *,
        about: bool = False,
        about_format: str | None = None,
        config: _ConfigInput | None = None,
        state: IO[str] | None = None,
        catalog: IO[str] | None = None,
    ) -> None:
        """Run the tap, as the SDK does."""
        super(Tap, cls).invoke(about=about, about_format=about_format)
        cls.print_version(print_fn=cls.logger.info)
        settings = (config.config if config else None) or {}
        with RunMonitor(cls.name, settings, cls.config_jsonschema, version=cls.plugin_version) as monitor:
            tap = cls.from_options(config=config, state=state, catalog=catalog, setup_mapper=True)
            monitor.watch(tap.figures)
            tap.prepare()
            tap.sync_all()
            tap.raise_failures()

    def sync_all(self) -> None:  # type: ignore[misc]  # final in the SDK: STATE is written within it alone
        """Send all streams; STATE that waits is written also after an error or a signal."""
        try:
            super().sync_all()
        finally:
            self.states.flush(has_unwound=sys.exception() is not None)

    def prepare(self) -> None:
        """Do what is due before a run sends its first stream."""

    def complete_state(self) -> None:
        """Enter each selected stream that STATE lacks, at its start, before the first stream writes STATE.

        So the place of a stream in a former STATE never survives where that is merged with the STATE of a run that
        began anew.
        """
        if not self._has_whole_state:
            self._has_whole_state, bookmarks = True, self.state.setdefault("bookmarks", {})
            selected = (s.name for s in self.streams.values() if isinstance(s, ArrowStream) and s.selected)
            new = (name for name in (*selected, *self.failures) if not any(self.given_state(name).values()))
            bookmarks.update({name: dict(entry) for name in new if (entry := self.start_state(name))})

    def start_state(self, stream: str) -> Mapping[str, Any]:  # noqa: ARG002 - for taps that have such an entry
        """Return the entry in STATE of a stream of which nothing was sent: with every key, no null and no object.

        A run with it is one without STATE. Empty, as by default: nothing is entered.
        """
        return {}

    def setup_mapper(self) -> None:
        """Make the mapper of the stream maps, for the streams of the catalog."""
        from singer_arrow.sdk.stream_maps import ExactMapper

        self._mapper = ExactMapper(dict(self.config), self.logger)
        for entry in self.catalog.streams:  # as the SDK does, but equal schemas and selections are there once
            name, mask = entry.stream or entry.tap_stream_id, self.interned(entry.metadata.resolve_selection())
            whole = self.interned(entry.schema.to_dict())
            schema = self.interned(get_selected_schema(name, whole, mask))
            try:
                self.mapper.register_raw_stream_schema(name, schema, entry.key_properties)
            except SingerArrowError as error:
                self.fail_stream(name, error, is_only=len(self.streams) == 1)
                self.streams.pop(entry.tap_stream_id, None)
                continue
            for stream_map in self.mapper.stream_maps[name]:
                stream_map.raw_schema = schema  # of which each has made a copy
            if self._is_run and (stream := self.streams.get(name)):  # nothing changes the selection of a run
                entry.schema, entry.metadata = ExactSchema(whole), self.interned(entry.metadata)
                stream._metadata, stream._mask, stream._input_schema = entry.metadata, mask, whole

    def interned(self, value: Shared) -> Shared:
        """Return the first value that was equal to this one: streams of the same columns have them in memory once."""
        first: Shared = self._interned.setdefault((type(value), repr(value)), value)
        return first

    def add_to_catalog(self, stream: ArrowStream, like: CatalogEntry | None) -> None:
        """Add a stream to the given catalog: selected, or it and its columns as in another entry."""
        assert self.input_catalog is not None
        entry = stream._singer_catalog_entry
        entry.metadata.root.selected = True
        if like is not None:
            entry.metadata.update(
                {place: copy.copy(m) for place, m in like.metadata.items() if place in entry.metadata}
            )
            entry.replication_method = like.replication_method or entry.replication_method
        self.input_catalog.add_stream(entry)

    def figures(self) -> RunFigures:
        """Return the counts of all streams so far."""
        streams = [s for s in self.streams.values() if isinstance(s, ArrowStream) and s.selected]
        shown = {
            s.name: replace(
                s.figures(),
                is_complete=s.is_finished,
                has_begun=s.has_begun,
                complete_until=s.complete_until if s.is_finished else None,
            )
            for s in streams
        } | {name: StreamFigures(stream=name) for name in sorted(self.failures.keys() - {s.name for s in streams})}
        return RunFigures(
            streams=tuple(
                replace(figures, error=str(self.failures[name]) if name in self.failures else None)
                for name, figures in shown.items()
            )
        )

    def fail_stream(self, stream: str, error: SingerArrowError, *, is_only: bool) -> None:
        """Record the error of one stream, and let the run continue with the others.

        It is raised instead if the run has no other stream (`is_only`), if it concerns the whole run, as refused
        credentials do, or a service that has failed another stream before; and outside of a run.
        """
        again = isinstance(error, ServiceError) and any(isinstance(e, ServiceError) for e in self.failures.values())
        if is_only or not self._is_run or error.ends_run or again:
            raise error
        text = with_code(str(error), error.code)
        self.logger.debug("Stream %r failed", stream, exc_info=error)
        self.logger.warning("Stream %r failed, and the run continues with the other streams: %s", stream, text)
        self.failures[stream] = error.with_traceback(None)  # whose frames hold tasks and memory

    def raise_failures(self) -> None:
        """Raise the error of a stream that failed; FailedStreamsError if several did."""
        if len(self.failures) == 1:
            raise next(iter(self.failures.values()))
        if self.failures:
            raise FailedStreamsError(list(self.failures), len(self.stream_names()))

    def stream_names(self) -> set[str]:
        """Return the names of the run's streams, also of those that failed or could not be read."""
        return self.failures.keys() | {s.name for s in self.streams.values() if s.selected}

    @classmethod
    def from_options(
        cls,
        *,
        config: _ConfigInput | None = None,
        state: IO[str] | None = None,
        catalog: IO[str] | None = None,
        setup_mapper: bool = False,
        **_: Any,
    ) -> Self:
        """Return a tap with the options of the command line; its streams are discovered only for `setup_mapper`."""
        return cls(
            config=config.config if config else {},
            parse_env_config=bool(config and config.parse_env),
            state=json_object(state.read(), "The file of --state") if state is not None else None,
            catalog=json_object(catalog.read(), "The file of --catalog") if catalog is not None else None,
            setup_mapper=setup_mapper,
            is_run=setup_mapper,
        )

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the SDK's signature
        if isinstance(self.message_writer, LineWriter):
            self.message_writer.stop(signum)
        else:
            interrupt(Terminated(signum))


class ArrowStream(Stream):
    """A stream that sends batch files or records, and keeps its own STATE.

    STATE is written by the stream, never in between. Records are the stream's rows; they are written as lines at
    once, and one by one only where something changes single ones. SCHEMA announces a mark of the stream's end, which
    comes after its last message (see `load/stream_ends`), behind ACTIVATE_VERSION of a full table.
    """

    TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.NONE
    has_begun = False
    """Whether the turn of the stream came."""
    is_finished = False
    """Whether the whole stream was sent."""
    complete_until: datetime | None = None
    """When the stream looked for what is new in this run: all that there was then is sent once it is finished."""
    load_method: str | None = None
    """For targets whose settings have none for the stream."""
    shard: str | None = None
    """Which part of the stream this run sends; None: all."""
    maps_columns = False
    """Whether its batches can have `columns_made` applied."""
    _sent_rows = _sent_batches = _sent_bytes = 0
    _began = _ended = 0.0  # times in seconds, by a monotonic clock

    @abc.abstractmethod
    def batches(self) -> Generator[Batch | Mapping[str, Any]]:
        """The stream's batches, and, where it may leave, the stream's new entry in STATE."""

    @abc.abstractmethod
    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        """What `encode` makes of the stream's rows, in order; where STATE may leave, it was written with `write_state`.

        `encode` takes batches in canonical types, of the schema that `send_schema` sent last. It may raise DataError.
        """

    @abc.abstractmethod
    def batch_encoding(self) -> tuple[str, str, str] | None:
        """Return format, compression and root of the batch files; None if the settings ask for records."""

    def figures(self) -> StreamFigures:
        """Return the counts of the stream so far."""
        return StreamFigures(
            stream=self.name,
            is_complete=bool(self._ended),
            counts={"rows_written": self._sent_rows, "batch_files": self._sent_batches, "bytes": self._sent_bytes},
            seconds=(self._ended or time.monotonic()) - self._began if self._began else 0.0,
            outputs=(self.batch_encoding() or ("", "", ""))[2:] if self.sends_batches else (),
        )

    def totals(self) -> Mapping[str, Any]:
        """Return the figures of the stream's closing metric besides the number of rows."""
        return {}

    @property
    def is_sent_whole(self) -> bool:
        """Whether this run sends all of the stream, not only what is new since its STATE."""
        return True

    @property
    def sent_names(self) -> list[str]:
        """Return the names that the stream is sent under: its own, or those of its stream maps."""
        names = (m.stream_alias for m in self.stream_maps if not isinstance(m, RemoveRecordTransform))
        return list(dict.fromkeys(names))

    @property
    def selected_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of what is selected, before stream maps and flattening."""
        schema: Mapping[str, Any] = self.stream_maps[0].raw_schema
        return schema

    @property
    def is_mapped_away(self) -> bool:
        """Whether stream maps remove the whole stream."""
        return all(isinstance(m, RemoveRecordTransform) for m in self.stream_maps)

    def records_needed_by(self) -> str | None:
        """Return the settings that change single records and so make batch files impossible; None if there are none."""
        maps = self.stream_maps
        is_default = isinstance(maps[0], SameRecordTransform | RemoveRecordTransform)
        if is_default and maps[0].flattening_enabled and maps[0].transformed_schema != maps[0].raw_schema:
            return "flattening_enabled"
        is_batch = self.batch_encoding() is not None and self.is_whole_run
        if len(maps) > 1 or not (is_default or (is_batch and self.columns_made())):
            return "stream_maps"
        return None

    def columns_made(self, names: Collection[str] = ()) -> Mapping[str, str | pa.StringScalar] | None:
        """Return what `stream_maps` makes of columns, see `sdk.stream_maps`; None if it changes nothing, or more.

        `names` are those of the columns, by default of SCHEMA.
        """
        from singer_arrow.sdk.stream_maps import columns_made, is_plain

        (only,) = self.stream_maps
        is_mapped = self.maps_columns and not isinstance(only, RemoveRecordTransform) and not is_plain(only)
        return columns_made(only, names or only.raw_schema["properties"]) if is_mapped else None

    @property
    def sends_batches(self) -> bool:
        """Whether BATCH messages are sent, not RECORD messages. A test run of one record is no batch."""
        return self.batch_encoding() is not None and not self.records_needed_by() and self.is_whole_run

    @property
    def version(self) -> int | None:
        """The version of ACTIVATE_VERSION, where the stream is read as a full table and the settings want it."""
        return self._stream_version

    @property
    def is_whole_run(self) -> bool:
        """Whether this is more than the first records that `--test` asks for."""
        return self.ABORT_AT_RECORD_COUNT is None

    def send_schema(self, schema: Mapping[str, Any]) -> None:
        """Send SCHEMA if the schema differs from the last one that was sent."""
        if schema == self.selected_schema:
            return
        assert self._tap.mapper is not None
        self._tap.mapper.register_raw_stream_schema(self.name, dict(schema), self.primary_keys)
        self._stream_maps = self._tap.mapper.stream_maps[self.name]
        self._write_schema_message()

    def write_state(self, entry: Mapping[str, Any]) -> None:
        """Set the stream's entry in STATE, and let STATE leave."""
        _ = self.stream_state  # makes the place of it
        self.tap_state["bookmarks"][self.name] = dict(entry)  # at once: STATE is also written after a signal
        self.state_manager.is_flushed = False
        self._write_state_message()

    def write_rejected(self, batch: Batch) -> None:
        """Send rows that could not be read, where rows are sent as RECORD messages."""
        for name in self.sent_names:
            rejected = replace(batch, stream=name).to_message()
            message = {"type": "STATE", "value": self.tap_state, REJECTED_BATCH: rejected}
            self._tap.write_message(PlainMessage(message))

    # What the SDK asks for

    def _generate_schema_messages(self) -> Generator[SchemaMessage]:
        for m in super()._generate_schema_messages():
            keys = m.key_properties, m.bookmark_properties
            is_full_table = self.replication_method == FULL_TABLE
            yield AnnouncingSchema(
                m.stream, m.schema, *keys, self.shard, self.is_sent_whole, is_full_table, self.load_method
            )

    def _write_activate_version_message(self, full_table_version: int) -> None:
        """Write nothing: the SDK calls this before the rows of the version are sent."""

    def finalize_state_progress_markers(self, state: dict[str, Any] | None = None) -> None:
        """Send ACTIVATE_VERSION and the end mark of a stream that did not fail; called after its last row."""
        assert isinstance(self._tap, ArrowTap)
        if self.name in self._tap.failures:
            return
        super().finalize_state_progress_markers(state)
        if state or not self.selected or self.is_finished:
            return
        self.is_finished = True
        self._tap.unfinished.subtract(self.sent_names)
        if self._stream_version is not None:
            super()._write_activate_version_message(self._stream_version)
        for name in self.sent_names:
            if not self._shares(name):
                self._tap.states.ended.append(name)
                self._tap.states.write_state(self.tap_state)

    def _shares(self, name: str) -> bool:
        """Return whether another stream that is not finished is sent under the same name, or may have been.

        Of a stream that failed before its schema was known, the names that maps give it are not known.
        """
        assert isinstance(self._tap, ArrowTap)
        has_unknown = bool(self._tap.failures.keys() - self._tap.streams.keys())
        aliases = [
            m.get("__alias__") for m in (self.config.get("stream_maps") or {}).values() if isinstance(m, Mapping)
        ]
        return self._tap.unfinished[name] > 0 or (has_unknown and (name != self.name or name in aliases))

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - the SDK's signature
        """Yield the rows as records."""
        from singer_arrow.records.validation import to_records

        return self.rows(to_records)

    @property
    def _singer_catalog_entry(self) -> CatalogEntry:
        entry = super()._singer_catalog_entry
        entry.schema = ExactSchema(self.schema)
        return entry

    def catalog_schema(self) -> Mapping[str, Any] | None:
        """Return the schema that the given catalog holds for the stream; an empty one if it leaves the stream out."""
        if self._tap.input_catalog is None:
            return None
        entry = self._tap.input_catalog.get_stream(self.tap_stream_id)
        return entry.schema.to_dict() if entry else {"type": "object", "properties": {}}

    def log(self, message: str, *args: Any, level: int = logging.INFO, **kwargs: Any) -> None:
        """Log a message; but none about an error that ends as one line anyway, or about the end of a test run."""
        error = sys.exception()
        ends_as_line = isinstance(error, SingerArrowError) or (error and (is_of_disk(error) or is_of_memory(error)))
        if level != logging.ERROR or not (isinstance(error, _ENDS_OF_TESTS) or ends_as_line):
            super().log(message, *args, level=level, **kwargs)

    def get_batch_config(self, config: Mapping[str, Any]) -> BatchConfig | None:  # noqa: ARG002 - the SDK's signature
        """Return the configuration with which the SDK asks for batches; with None it asks for records."""
        encoding = self.batch_encoding()
        if encoding is None or not self.sends_batches:
            return None
        file_format, compression, root = encoding
        return BatchConfig(BaseBatchFileEncoding(file_format, compression), StorageTarget(root))

    def get_replication_key_signpost(self, context: Any = None) -> None:
        """None: what bounds a run is in the stream's own STATE."""

    def _write_starting_replication_value(self, context: Any) -> None:
        """Nothing: as above."""

    def _increment_stream_state(self, latest_record: Any, *, context: Any = None) -> None:
        """Nothing: as above."""

    def _sync_batches(self, batch_config: BatchConfig, context: Any = None) -> None:  # noqa: ARG002
        with (
            self._failing_alone(),
            self.get_record_counter() as rows,
            self.get_batch_counter() as count,
            self.get_sync_timer(),
            closing(self.batches()) as items,
        ):
            self._began = time.monotonic()
            assert isinstance(self._tap, ArrowTap)
            for item in items:
                if isinstance(item, Batch):
                    self._tap.write_message(PlainMessage(item.to_message()))
                    self._tap.states.write_due()
                    count.increment()
                    rows.increment(item.row_count or 0)
                    self._sent_batches += 1
                    self._sent_rows += item.row_count or 0
                    self._sent_bytes += item.byte_count or 0
                else:
                    self.write_state(item)
            rows.tags.update(self.totals())
            self._ended = time.monotonic()

    def _sync_records(self, context: Any = None, *, write_messages: bool = True) -> Generator[dict[str, Any]]:
        from singer_arrow.records.validation import EncodedRecords, rows_in

        writer, kind = self._tap.message_writer, type(self)
        own = kind.get_records is not ArrowStream.get_records or kind.post_process is not Stream.post_process
        divided = context is not None or self.partitions or self.child_streams
        needs_single = own or divided or self.is_mapped_away or self.records_needed_by()
        is_sent = write_messages and self.selected and self.is_whole_run
        if not isinstance(writer, LineWriter) or needs_single or not is_sent:
            with self._failing_alone():
                yield from super()._sync_records(context, write_messages=write_messages)
            return
        counter, timer = self.get_record_counter(), self.get_sync_timer()
        counter.with_context({})
        timer.with_context({})
        with self._failing_alone(), counter as count, timer, closing(self.rows(self._encoder())) as items:
            self._began = time.monotonic()
            assert isinstance(self._tap, ArrowTap)
            for item in items:
                self._sent_rows += rows_in(item)
                if isinstance(item, EncodedRecords):
                    writer.write_lines(item.lines)
                    self._tap.states.write_due()
                    self.state_manager.is_flushed = False
                    count.increment(item.count)
                else:
                    self._write_record_message(item)
                    count.increment()
            self._ended = time.monotonic()
            self._finalize_state(self.stream_state)
            self._write_state_message()

    @contextmanager
    def _failing_alone(self) -> Iterator[None]:
        """Record an error of the block as that of this stream, unless it concerns the whole run."""
        self.has_begun, self.complete_until = True, self.complete_until or datetime.now(UTC)
        assert isinstance(self._tap, ArrowTap)
        self._tap.complete_state()
        try:
            yield
        except SingerArrowError as error:
            selected = [s for s in self._tap.streams.values() if s.selected]
            self._tap.fail_stream(self.name, error, is_only=selected == [self] and not self._tap.failures)

    def _encoder(self) -> Encode[EncodedRecords | dict[str, Any]]:
        """Return what makes lines of batches, or records where selection or flattening changes some."""
        from singer_arrow.records.validation import RecordEncoder, to_records
        from singer_arrow.sdk.stream_maps import drops_members, is_nested

        schema: pa.Schema | None = None
        lines: RecordEncoder | None = None

        def encode(batch: pa.RecordBatch) -> Iterable[EncodedRecords | dict[str, Any]]:
            nonlocal schema, lines
            if schema is None or not batch.schema.equals(schema, check_metadata=True):
                schema = batch.schema
                flattened = self.stream_maps[0].flattening_enabled and any(is_nested(field) for field in schema)
                is_changed = self.records_needed_by() or flattened or drops_members(self.mask, schema)
                lines = None if is_changed else RecordEncoder(self.name, schema, self.version)
            return to_records(batch) if lines is None else lines.blocks(batch)

        return encode
