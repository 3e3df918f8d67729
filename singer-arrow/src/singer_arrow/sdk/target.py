"""The base of the targets: messages -> loads, STATE after durability."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, ClassVar

from singer_sdk import Target
from singer_sdk.helpers.capabilities import CapabilitiesEnum, PluginCapabilities, TargetCapabilities
from singer_sdk.mapper import RemoveRecordTransform

from singer_arrow.batch.files import FileProperties
from singer_arrow.batch.message import REJECTED_BATCH, Batch
from singer_arrow.casting.from_text import shorten
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.load.dead_letters import cut
from singer_arrow.load.stream_ends import (
    FULL_TABLE,
    REPLICATION,
    WHOLE,
    check_load_method,
    ended_streams,
    is_announced,
    sent_load_method,
)
from singer_arrow.monitoring.monitor import RunMonitor
from singer_arrow.records.schema import NewestDraft, check_schema
from singer_arrow.runtime.process import Terminated
from singer_arrow.runtime.threads import interrupt
from singer_arrow.sdk.message_reader import LineReader
from singer_arrow.sdk.settings import CheckedPlugin, add_setting_options, options_of
from singer_arrow.sdk.sink import LoadSink, StreamSinks
from singer_arrow.sdk.stream_maps import ExactMapper, keeps_values, records_of
from singer_arrow.warehouse.run import RunContext, Ticker, WarehouseRun
from singer_arrow.warehouse.settings import STORAGE_PARAMS, LoadSettings
from singer_arrow.warehouse.table import WarehouseTable

if TYPE_CHECKING:
    from types import FrameType

    import click
    from singer_sdk import Sink
    from singer_sdk.plugin_base import _ConfigInput


# RECORD lines are parsed in blocks, without a message for each, and their rows added to the sink of their stream.


class RecordLineRouter:
    """Adds RECORD lines to the queue of the run; see `message_reader.RecordLines`."""

    def __init__(self, run: WarehouseRun[LoadSettings], sinks: StreamSinks) -> None:
        self._run, self._sinks = run, sinks
        self._lines: dict[str, LoadSink | None] = {}
        self._changes = 0

    def takes(self, stream: str) -> bool:
        """Return whether lines of a stream are added as they are: it has a sink of its own, and no map changes rows."""
        if self._changes != self._sinks.changes:
            self._lines.clear()
            self._changes = self._sinks.changes
        if stream not in self._lines:
            self._lines[stream] = self._sinks.of_lines(stream)
        return self._lines[stream] is not None

    def take(self, stream: str, lines: bytes, first: int, count: int) -> None:
        """Add RECORD lines of a stream, with line breaks; `first` is the number of the first in the input, from 1."""
        sink = self._lines[stream]
        assert sink is not None
        with self._run.messages:
            self._run.record_queue.add(sink, lines, first, count)

    def flush(self) -> None:
        with self._run.messages:
            self._run.record_queue.flush()


# The base of the targets for warehouses: the messages that the SDK reads go to the run, and STATE waits for its loads.


class WarehouseTarget(CheckedPlugin, Target):
    """A target that loads BATCH files and records into tables of a warehouse, each batch once.

    It loads in the background: many BATCH messages a load, many loads at once. STATE is written once its data is
    durable. A subclass sets `name`, `config_jsonschema` and the classes.

    Attributes:
        setting_options: Settings that are options of the command line too: `--dataset` for `dataset`.
        settings_class: The settings, which `from_config` reads.
        table_class: The table of a stream.
        run_class: What the streams of a run share: connections, for example.
        run: The run, an instance of `run_class`.
    """

    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.BATCH,
        PluginCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.STRUCTURED_LOGGING,
        TargetCapabilities.VALIDATE_RECORDS,
        TargetCapabilities.TARGET_SCHEMA,
        TargetCapabilities.HARD_DELETE,
        TargetCapabilities.SOFT_DELETE,
    ]

    setting_options: ClassVar[Sequence[str]] = ()
    settings_class: ClassVar[type[LoadSettings]] = LoadSettings
    table_class: ClassVar[type[WarehouseTable]]
    run_class: ClassVar[type[WarehouseRun[Any]]] = WarehouseRun
    run: WarehouseRun[LoadSettings]
    default_sink_class = LoadSink
    message_reader_class = LineReader
    message_reader: LineReader

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_parallelism = 1  # draining only closes a local file
        self.message_version: int | None = None
        self._sinks = StreamSinks(self)
        context = RunContext(
            name=self.name,
            logger=self.logger,
            interrupt=self.message_reader.interrupt,
            streams=self._sinks.every,
        )
        self.run = self.run_class(self.settings_class.from_config(self.config), context)
        self.ticker = Ticker(self.run)
        self.message_reader.record_lines = RecordLineRouter(self.run, self._sinks)
        self._MAX_RECORD_AGE_IN_MINUTES = self.run.limits.age_seconds / 60
        self._schemas: dict[str, Mapping[str, Any]] = {}
        self._schema_message: Mapping[str, Any] | None = None
        self._newest_draft = NewestDraft(self.logger)
        self._row_by_row: set[str] = set()

    @classmethod
    def append_builtin_config(cls, config_jsonschema: dict[str, Any]) -> None:
        """Add the SDK's settings, and what it reads of `batch_config.storage` but does not declare."""
        super().append_builtin_config(config_jsonschema)
        batch_config = copy.deepcopy(config_jsonschema["properties"]["batch_config"])  # the SDK's plugins share it
        batch_config["properties"]["storage"]["properties"]["params"] = STORAGE_PARAMS
        config_jsonschema["properties"]["batch_config"] = batch_config

    @classmethod
    def get_singer_command(cls) -> click.Command:
        """Return the SDK's command, with options for `setting_options`."""
        command = super().get_singer_command()
        add_setting_options(command, options_of(cls.config_jsonschema, cls.setting_options))
        return command

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
        settings = (config.config if config else None) or {}
        with RunMonitor(cls.name, settings, cls.config_jsonschema, version=cls.plugin_version) as monitor:
            target = cls(
                config=config.config if config else None,
                parse_env_config=config.parse_env if config else False,
            )
            monitor.watch(target.run.figures)
            try:
                target.listen(file_input)
            except BaseException as error:
                target.run.abandon(error)
                raise
            finally:
                target.run.close()

    def setup_mapper(self) -> None:
        self._mapper = ExactMapper(dict(self.config), self.logger)

    # What the SDK calls for each message

    def _process_schema_message(self, message_dict: dict[str, Any]) -> None:
        self._assert_line_requires(message_dict, {"stream", "schema"})
        stream, schema, keys = message_dict["stream"], message_dict["schema"], message_dict.get("key_properties")
        check_schema(stream, schema, keys)
        message_dict["schema"] = schema = self._newest_draft(stream, schema)
        with self.run.messages:
            self.run.record_queue.flush()
            self._sinks.changes += 1
            is_first = stream not in self._schemas
            self._schemas[stream] = schema
            self._schema_message = message_dict
            super()._process_schema_message(message_dict)
            self._schema_message = None
            maps = self.mapper.stream_maps[stream]
            for stream_map in maps:
                check_load_method(message_dict, self.run.settings_of(stream_map.stream_alias).load_method)
                sink = self._sinks.own(stream_map)
                sink.table.is_of_logs = WHOLE in message_dict
                if is_first and message_dict.get(WHOLE) is False and not isinstance(stream_map, RemoveRecordTransform):
                    sink.table.warn_of_no_rows()
            self.ticker.start()
            if is_first and message_dict.get(WHOLE) is True:
                self.run.sent_whole.update(m.stream_alias for m in maps)
            if is_announced(message_dict):
                names = [m.stream_alias for m in maps if not isinstance(m, RemoveRecordTransform)]
                is_full_table = message_dict.get(REPLICATION) == FULL_TABLE
                self.run.finishing.begin(stream, names, is_full_table=is_full_table)

    def get_sink(
        self,
        stream_name: str,
        *,
        record: dict[str, Any] | None = None,
        schema: dict[str, Any] | None = None,
        key_properties: Sequence[str] | None = None,
    ) -> Sink:
        """Return the sink of a stream, with the key properties that are set and the load method that the tap sends."""
        if schema is not None:
            settings = self.run.settings_of(stream_name)
            if (message := self._schema_message) is not None:
                before = settings.load_method if stream_name in self.run.load_methods else None
                self.run.load_methods[stream_name] = sent_load_method(message)
                settings = self.run.settings_of(stream_name)
                if before not in (None, settings.load_method):
                    raise ConfigError(
                        f"Stream {message['stream']!r} comes with load_method {settings.load_method}, and what came "
                        f"for {stream_name!r} before with {before}; set load_method in streams.{stream_name}"
                    )
                check_load_method(message, settings.load_method)
            if settings.key_properties is not None:
                key_properties = list(settings.key_properties)
        return super().get_sink(stream_name, record=record, schema=schema, key_properties=key_properties)

    def _process_record_message(self, message_dict: dict[str, Any]) -> None:
        with self.run.messages:
            self.run.record_queue.check()
            if not isinstance(message_dict.get("record"), dict):
                self._assert_line_requires(message_dict, {"stream", "record"})
                raise DataError(f"A RECORD message of stream {message_dict['stream']!r} holds no object")
            self.message_version = message_dict.get("version")
            for stream_map in self.mapper.stream_maps.get(message_dict.get("stream", ""), ()):
                sink = self._sinks.active(stream_map.stream_alias)
                if sink is not None and sink.waiting.rows is not None:
                    self.run.record_queue.flush()
                    sink.drain()
            super()._process_record_message(message_dict)

    def _process_batch_message(self, message_dict: dict[str, Any]) -> None:
        batch = Batch.from_message(message_dict)
        self.run.settings.manifest_roots.check(batch.stream, batch.manifest)
        with self.run.messages:
            self.run.record_queue.flush()
            if batch.stream not in self.mapper.stream_maps:
                self._assert_sink_exists(batch.stream)
            maps = [m for m in self.mapper.stream_maps[batch.stream] if not isinstance(m, RemoveRecordTransform)]
            for stream_map in maps:
                self._assert_sink_exists(stream_map.stream_alias)
            sinks = [self._sinks.own(stream_map) for stream_map in maps]
            schema = self._schemas[batch.stream]
            if all(keeps_values(m, schema["properties"]) for m in maps):
                for sink in sinks:
                    sink.drain()  # records before the batch get the older token
                    sink.table.take_batch(batch)
                return
            # its rows are processed as those of RECORD messages; rejected rows are a batch of their own
            own_id = batch.batch_id and f"{cut(batch.batch_id, 1000)}.rejected"
            for sink in sinks if batch.rejected else ():
                sink.drain()
                sink.table.take_batch(replace(batch, manifest=(), row_count=0, ranks=(), batch_id=own_id))
            if batch.stream not in self._row_by_row:
                self._row_by_row.add(batch.stream)
                why = "Stream maps or flattening change values"
                self.logger.warning("%s: batches of %r go row by row, as RECORD messages do", why, batch.stream)
            rejected, run = [sink.reject for sink in sinks if sink.rejects_rows], self.run
            report = run.tallies.of(sinks[0].stream_name if sinks else batch.stream).left_out.of_file
            properties = FileProperties(schema.get("required") or (), (), report)
            records = records_of(batch, schema, run.storage, run.temporary, on_skip=rejected, properties=properties)
            for record in records:
                self._process_record_message({"stream": batch.stream, "record": record, "version": batch.version})

    def _process_activate_version_message(self, message_dict: dict[str, Any]) -> None:
        self._assert_line_requires(message_dict, {"stream", "version"})
        version = message_dict["version"]
        if not isinstance(version, int) or isinstance(version, bool) or not -(2**63) <= version < 2**63:
            msg = f"'version' must be an integer of 64 bits, it is {shorten(version)}; this is an error of the tap"
            raise DataError(msg)
        if message_dict["stream"] not in self.mapper.stream_maps:
            self._assert_sink_exists(message_dict["stream"])
        with self.run.messages:
            self.run.record_queue.flush()
            super()._process_activate_version_message(message_dict)

    def _process_state_message(self, message_dict: dict[str, Any]) -> None:
        self._assert_line_requires(message_dict, {"value"})
        run = self.run
        run.check()
        if isinstance(rejected := message_dict.get(REJECTED_BATCH), dict):  # bad rows of a tap that sends records
            self._process_batch_message(rejected)
        with run.messages:  # the SDK's own method is not called: its STATE leaves when sinks are drained
            if streams := ended_streams(message_dict):  # see `load.stream_ends`
                run.record_queue.flush()
                names = set[str]().union(*(run.finishing.tables.get(stream, ()) for stream in streams))
                for name in names:
                    for sink in self._sinks.every(name):
                        sink.drain()
            run.finishing.state(streams)  # all of their rows have tokens now, and later ones get others
            run.record_queue.state(self.message_reader.number, message_dict["value"])

    def process_endofpipe(self) -> None:
        """Load what is left, finish what waited for the end, and hand out the last STATE."""
        with self.run.messages:
            self.run.finish_loads()
            super().process_endofpipe()
        self.run.end()

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the SDK's signature
        """Unwind to `invoke`, which ends the run; a second signal ends the waiting."""
        if hasattr(self, "run"):
            self.run.is_ending = True  # before anything unwinds: the ticker must not drain a message half processed
        interrupt(Terminated(signum))
