"""The target's side of the seam to singer-sdk: targets that load in the background and hold STATE back meanwhile.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

import abc
import copy
import threading
import weakref
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from singer_sdk import Sink, Target
from singer_sdk.mapper import RemoveRecordTransform

from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError
from singer_arrow.load.checkpoint import Checkpoints, State
from singer_arrow.load.finishing import Finishing
from singer_arrow.load.metrics import Tallies, Tally
from singer_arrow.load.scheduler import Limits, LoadScheduler
from singer_arrow.load.staging import Remover
from singer_arrow.load.stream_ends import ended_stream, is_announced
from singer_arrow.records.queue import RecordQueue
from singer_arrow.records.schema_dialects import NewestDraft
from singer_arrow.records.schema_shape import check_schema, check_version
from singer_arrow.runtime.temporary import TemporaryFolder
from singer_arrow.runtime.threads import interrupt
from singer_arrow.sdk.batch_to_records import records_of
from singer_arrow.sdk.message_reader import BAD_INPUT, LineReader
from singer_arrow.sdk.plugin import CheckedPlugin
from singer_arrow.sdk.record_lines import RecordLineRouter
from singer_arrow.sdk.sink import LoadSink, StreamTable
from singer_arrow.sdk.state_writer import StateOutput
from singer_arrow.sdk.stream_maps import flattening_errors, keeps_values
from singer_arrow.sdk.termination import Terminated
from singer_arrow.sdk.ticker import tick

if TYPE_CHECKING:
    from types import FrameType

    from singer_sdk.mapper import StreamMap
    from singer_sdk.plugin_base import _ConfigInput

    from singer_arrow.storage.storage import Storage

_MOST_HELD_SECONDS = 2.0
"""How long RECORD lines and a STATE wait for others to be parsed with."""
GRACE_SECONDS = 20.0
"""How long a run that must end waits for the loads that run; Kubernetes kills after 30 s."""


class LoadTarget(CheckedPlugin, Target):
    """A target that loads in the background: many BATCH messages a load, many loads at once, STATE after durability.

    The SDK's draining closes local files of records; STATE waits in `checkpoints`.
    """

    default_sink_class = LoadSink
    message_reader_class = LineReader

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message_version: int | None = None
        self.max_parallelism = 1  # draining only closes a local file
        self._folder = TemporaryFolder(self.name)
        self.tallies = Tallies()
        self.messages = threading.RLock()
        """One message at a time, and no draining in the middle of one."""
        self._row_by_row: set[str] = set()
        self._record_lines = RecordLineRouter(self)
        self._sinks_of: dict[StreamMap, Sink] = {}
        self._given: dict[str, Mapping[str, Any]] = {}
        self._newest_draft = NewestDraft(self.logger)
        self._is_ending = False
        self._output = StateOutput()
        self._reader.record_lines = self._record_lines

    @property
    @abc.abstractmethod
    def limits(self) -> Limits:
        """The limits of a load, and of parallel loads."""

    @property
    def record_age_seconds(self) -> float | None:
        """Seconds that records of streamed tables wait for others; None: as in all other tables."""
        return None

    @property
    def most_rejected(self) -> int | None:
        """Number of bad rows of a message that may be dead letters; None: the first one ends the run."""
        return None

    def close(self) -> None:
        """Release files and threads; called at the end of the run."""
        self.remover.close(GRACE_SECONDS)
        self._folder.remove()

    @cached_property
    def storage(self) -> Storage:
        """The object stores of batch files."""
        from singer_arrow.storage.storage import Storage

        return Storage()

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """The STATEs that wait for data to be durable."""
        return Checkpoints(self._emit_state)

    @cached_property
    def finishing(self) -> Finishing:
        """The load methods that replace tables at the end of the input."""
        return Finishing(self.checkpoints)

    @cached_property
    def scheduler(self) -> LoadScheduler:
        """The scheduler of the loads, whose ticker is started here."""
        self._MAX_RECORD_AGE_IN_MINUTES = self.limits.age_seconds / 60
        scheduler = LoadScheduler(self.checkpoints, self.limits, self._reader.interrupt, self.remover.remove)
        threading.Thread(target=tick, args=(weakref.ref(self), scheduler), name="ticker", daemon=True).start()
        return scheduler

    @cached_property
    def remover(self) -> Remover:
        """The remover of files that are not needed any more."""
        return Remover(lambda: self.storage, self.logger)

    @cached_property
    def record_queue(self) -> RecordQueue:
        """The queue of RECORD lines, which parses them."""
        return RecordQueue(self.limits.workers, self.checkpoints.state)

    @property
    def _reader(self) -> LineReader:
        assert isinstance(self.message_reader, LineReader)
        return self.message_reader

    def temporary(self, suffix: str) -> Path:
        """A name for a new temporary file; it is removed when the run ends, at the latest."""
        return self._folder.new(suffix)

    @abc.abstractmethod
    def open_table(self, sink: LoadSink) -> StreamTable:
        """Create or alter the table of a sink, and return it."""

    def active_sink(self, alias: str) -> Sink | None:
        """Return the sink of a stream at present, or None."""
        return self._sinks_active.get(alias)

    def tally(self, stream: str) -> Tally:
        """The counts of a stream."""
        return self.tallies.of(stream)

    @property
    def line(self) -> int:
        """Number of the line that is being read, from 1."""
        return self._reader.number

    def check_batch(self, batch: Batch) -> None:
        """Called with each BATCH message before anything is done with it.

        Raises:
            DataError: It must not be loaded.
        """

    def drain_stream(self, stream: str) -> None:
        """Load all that was read of a stream so far, wait for it, and raise the first error."""
        for sink in self._load_sinks():
            if sink.stream_name == stream:
                self.drain_one(sink)
                self.scheduler.wait(sink.table.method)

    @classmethod
    def invoke(  # type: ignore[override]  # the SDK's own targets narrow it alike
        cls,
        *,
        about: bool = False,
        about_format: str | None = None,
        config: _ConfigInput | None = None,
        file_input: IO[str] | None = None,
    ) -> None:
        """Run the target as the SDK does, and end it in order also after an error."""
        super(Target, cls).invoke(about=about, about_format=about_format)
        cls.print_version(print_fn=cls.logger.info)
        target = cls(
            config=config.config if config else None,
            parse_env_config=config.parse_env if config else False,
        )
        try:
            target.listen(file_input)
        except BaseException as error:
            target.abandon(error)
            raise
        finally:
            target.close()

    def abandon(self, error: BaseException | None = None) -> None:
        """End a run early, and write the STATE that is safe.

        What was read before a bad message is loaded first, but no table is replaced by a part of its rows.

        Args:
            error: The reason.

        Raises:
            DataError: Another message, before that one, is bad too.
        """
        self._is_ending = True
        if isinstance(error, Terminated):
            error.log(self.logger)
        try:
            if isinstance(error, BAD_INPUT) and not self.scheduler.is_over:
                self._load_what_came(error)
        finally:
            self.record_queue.stop()
            if "scheduler" in self.__dict__:
                self.logger.info("Ending; waiting up to %d s for the loads that run", GRACE_SECONDS)
                self.scheduler.stop(GRACE_SECONDS)
                self.checkpoints.flush()
                self.tallies.report(self.logger, self.metrics_logger)

    def _load_what_came(self, error: Exception) -> None:
        """Load what was read before a bad message, or before an earlier one that is found now."""
        first = error
        with self.messages:
            try:
                self.record_queue.flush()
            except BAD_INPUT as found:
                first = found
            for sink in self._load_sinks():
                if not sink.table.method.deferred:
                    self.drain_one(sink)
            self.scheduler.wait()
            self.checkpoints.flush()
        if first is not error:
            raise first

    def _load_sinks(self) -> list[LoadSink]:
        return [s for s in [*self._sinks_to_clear, *self._sinks_active.values()] if isinstance(s, LoadSink)]

    # What the SDK calls for each message

    def _process_schema_message(self, message_dict: dict[str, Any]) -> None:
        self._assert_line_requires(message_dict, {"stream", "schema"})
        stream, schema, keys = message_dict["stream"], message_dict["schema"], message_dict.get("key_properties")
        check_schema(stream, schema, keys)
        message_dict["schema"] = schema = self._newest_draft(stream, schema)
        with self.messages:
            self.record_queue.flush()
            self._record_lines.forget()
            self._given[stream] = copy.deepcopy(schema) if self.mapper.stream_maps_dict else schema  # maps change it
            with flattening_errors(stream):
                super()._process_schema_message(message_dict)
            maps = self.mapper.stream_maps[stream]
            for stream_map in maps:
                self._own_sink(stream_map)
            if is_announced(message_dict):
                self.finishing.begin(stream, [m.stream_alias for m in maps if not isinstance(m, RemoveRecordTransform)])

    def _own_sink(self, stream_map: StreamMap) -> LoadSink:
        """Return the sink of a stream, for its own SCHEMA also where another stream has the same name."""
        alias = stream_map.stream_alias
        active = self.get_sink(alias)
        own = self._sinks_of.setdefault(stream_map, active)
        if (own.original_schema, own.key_properties) != (active.original_schema, active.key_properties):
            self._record_lines.forget()
            schema, keys = copy.deepcopy(own.original_schema), own.key_properties
            active = self._sinks_of[stream_map] = self.get_sink(alias, schema=schema, key_properties=keys)
        assert isinstance(active, LoadSink)
        return active

    def _process_record_message(self, message_dict: dict[str, Any]) -> None:
        with self.messages:
            self.record_queue.check()
            if not isinstance(message_dict.get("record"), dict):
                self._assert_line_requires(message_dict, {"stream", "record"})
                msg = f"A RECORD message of stream {message_dict['stream']!r} holds no object"
                raise DataError(msg)
            self.message_version = message_dict.get("version")
            for stream_map in self.mapper.stream_maps.get(message_dict.get("stream", ""), ()):
                sink = self._sinks_active.get(stream_map.stream_alias)
                if isinstance(sink, LoadSink) and sink.waiting.holds_rows:
                    self.record_queue.flush()
                    self.drain_one(sink)
            super()._process_record_message(message_dict)

    def _process_batch_message(self, message_dict: dict[str, Any]) -> None:
        batch = Batch.from_message(message_dict)
        self.check_batch(batch)
        with self.messages:
            self.record_queue.flush()
            if batch.stream not in self.mapper.stream_maps:
                self._assert_sink_exists(batch.stream)
            maps = [m for m in self.mapper.stream_maps[batch.stream] if not isinstance(m, RemoveRecordTransform)]
            for stream_map in maps:
                self._assert_sink_exists(stream_map.stream_alias)
            sinks = [self._own_sink(stream_map) for stream_map in maps]
            given = self._given[batch.stream]
            if all(keeps_values(m, given["properties"]) for m in maps):
                for sink in sinks:
                    self.drain_one(sink)
                    sink.table.take_batch(batch)
                return
            if batch.stream not in self._row_by_row:
                self._row_by_row.add(batch.stream)
                why = "Stream maps or flattening change values"
                self.logger.warning("%s: batches of %r go row by row, as RECORD messages do", why, batch.stream)
            rejected = [sink.reject for sink in sinks if sink.rejects_rows]
            for record in records_of(batch, given, self.storage, self.temporary, on_skip=rejected):
                message = {"stream": batch.stream, "record": record, "version": batch.version}
                self._process_record_message(message)

    def _process_activate_version_message(self, message_dict: dict[str, Any]) -> None:
        self._assert_line_requires(message_dict, {"stream", "version"})
        check_version(message_dict["version"])
        if message_dict["stream"] not in self.mapper.stream_maps:
            self._assert_sink_exists(message_dict["stream"])
        with self.messages:
            self.record_queue.flush()
            super()._process_activate_version_message(message_dict)

    def _process_state_message(self, message_dict: dict[str, Any]) -> None:
        self._assert_line_requires(message_dict, {"value"})
        if "scheduler" in self.__dict__:
            self.scheduler.check()
        with self.messages:  # never the SDK's own STATE, which leaves when sinks are drained
            if (stream := ended_stream(message_dict)) is not None:
                self.record_queue.flush()
                for sink in self._load_sinks():
                    if sink.stream_name in self.finishing.tables_of(stream):
                        self.drain_one(sink)
                self.finishing.end(stream)  # all of its rows have tokens now, and later ones get others
            self.record_queue.state(self._reader.number, message_dict["value"])

    def process_endofpipe(self) -> None:
        """Load what is left, finish what waited for the end, and hand out the last STATE.

        Raises:
            UnfinishedStreamError: Tables were kept because their streams did not end.
        """
        with self.messages:
            self.record_queue.flush()
            for sink in self._load_sinks():
                self.drain_one(sink)
            self.scheduler.wait()
            self.finishing.finish(self.scheduler)
            super().process_endofpipe()
        self.checkpoints.flush()
        self._output.check()  # the ticker may have found out a moment ago
        self.finishing.check(self.logger)
        self.checkpoints.end()
        self.scheduler.stop(0)
        self.tallies.report(self.logger, self.metrics_logger)

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the SDK's signature
        """Unwind to `invoke`, which ends the run; a second signal ends the waiting."""
        self._is_ending = True  # before anything unwinds: the ticker must not drain a message that is half processed
        interrupt(Terminated(signum))

    def _emit_state(self, state: State) -> None:
        self._output.write(state)

    def drain_old_records(self) -> None:
        """Hand over records that are old enough, unless a message is being processed right now, or the run ends."""
        if self.messages.acquire(blocking=False):
            try:
                if self._is_ending:
                    return
                age = most = self.limits.age_seconds
                held = min(_MOST_HELD_SECONDS, most)
                if self.record_age_seconds is not None:
                    age, held = self.record_age_seconds, min(_MOST_HELD_SECONDS, self.record_age_seconds / 4)
                if self.record_queue.is_due(held):
                    self.record_queue.flush()
                for sink in self._sinks_active.values():
                    if isinstance(sink, LoadSink) and sink.waiting.is_old(
                        age if sink.table.is_streamed else max(age, most)
                    ):
                        self.drain_one(sink)
            except Exception as error:  # noqa: BLE001 - it is raised where lines are read
                self.record_queue.fail(error)  # while the lock is held: nothing may follow what was lost
                if isinstance(error, BAD_INPUT):
                    self._reader.interrupt(error)
                elif not self._is_ending:  # else something has failed before
                    self.scheduler.fail(error)
            finally:
                self.messages.release()

    def report_progress(self) -> None:
        """Log the progress of each stream, or how many loads run where there was none."""
        if not self.tallies.log_progress(self.logger) and (running := self.scheduler.running):
            self.logger.info("Progress: waiting for %d loads", running)
