"""Parse RECORD lines in blocks, without a message for each, and add the rows to the sink of their stream.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from singer_arrow.casting.from_json import BadRowError
from singer_arrow.records.errors import LACKS_KEY
from singer_arrow.records.metadata_columns import METADATA_COLUMNS
from singer_arrow.records.parser import ParsedLines, RecordParser
from singer_arrow.records.queue import Block, first_runs
from singer_arrow.records.schema_checks import rules_for, rules_unchecked
from singer_arrow.sdk.sink import LoadSink
from singer_arrow.sdk.stream_sinks import StreamSinks
from singer_arrow.warehouse.run import WarehouseRun
from singer_arrow.warehouse.settings import LoadSettings


class SinkLines:
    """The RECORD lines of one sink, whose table has a `record_schema`, as `RecordQueue` parses and adds them."""

    def __init__(self, sink: LoadSink) -> None:
        self.sink, self.stream_name = sink, sink.stream_name
        schema = sink.table.record_schema
        assert schema is not None
        self._schema = schema

    @cached_property
    def parser(self) -> RecordParser:
        """The parser of the lines."""
        import pyarrow as pa

        sink = self.sink
        own = pa.schema([f for f in self._schema if f.name not in sink.metadata.of_records])
        make = rules_for if sink.validate_schema else rules_unchecked
        return RecordParser(
            own,
            around=sink.metadata.of_messages,
            rules=make(sink.schema, own, sink._key_properties),
            check=self.check_message,
            checks_types=sink.validate_schema,
            skips_bad_records=sink.rejects_rows,
            known=sink.left_out.union(METADATA_COLUMNS, sink.metadata.of_records),
            stream=self.stream_name,
        )

    def take_parsed(self, parsed: ParsedLines, lines: int, block: Block) -> None:
        """Add the rows, and the refused records, of the first `lines` lines of a block."""
        sink, start, rows = self.sink, 0, parsed.rows_of(lines)
        sink.tally.left_out.of_records(parsed.unknown)
        refused = [bad_line for bad_line in parsed.refused if bad_line.index < lines]
        runs = list(block.runs_of(lines, [bad_line.index for bad_line in refused])) if sink.rejects_rows else []
        for bad_line in refused:
            sink._get_context({})
            sink.waiting.refused.refuse_line(block.number(bad_line.index), bad_line)
            sink.tally_record_read()
        if sink.waiting.holds_records:
            sink.drain()
        while start < rows:
            context = sink._get_context({})
            most = rows if sink.batch_size_rows is None else max(1, sink.batch_size_rows - sink.current_size)
            count = min(rows - start, most)
            batched_at = context["batch_start_time"]
            sink.waiting.add_rows(sink.metadata.completed(parsed, start, count, self._schema, batched_at))
            sink.waiting.refused.came(first_runs(runs, start, count))
            sink.tally_record_read(count)
            sink.record_counter_metric.increment(count)
            start += count
            if sink.is_full:
                sink.drain()
        if refused and sink.is_full:
            sink.drain()

    def check_message(self, message: Mapping[str, Any]) -> None:
        """Check a single RECORD message exactly, or raise BadRowError."""
        sink, record = self.sink, dict(message["record"])
        if sink.metadata.are_added:
            sink._add_sdc_metadata_to_record(record, dict(message), {})
        else:
            sink._remove_sdc_metadata_from_record(record)
        sink.check(record)
        for key in sink._key_properties:
            if key not in record:
                raise BadRowError(LACKS_KEY, key)


class RecordLineRouter:
    """Adds RECORD lines to the queue of the run; see `message_reader.RecordLines`."""

    def __init__(self, run: WarehouseRun[LoadSettings], sinks: StreamSinks) -> None:
        self._run, self._sinks = run, sinks
        self._lines: dict[str, SinkLines | None] = {}
        self._lines_of: dict[str, SinkLines] = {}
        self._changes = 0

    def takes(self, stream: str) -> bool:
        """Return whether lines of a stream are added as they are: it has a sink of its own, and no map changes rows."""
        if self._changes != self._sinks.changes:
            self._lines.clear()
            self._changes = self._sinks.changes
        if stream not in self._lines:
            sink = self._sinks.of_lines(stream)
            known = self._lines_of.get(sink.stream_name) if sink is not None else None
            if sink is not None and (known is None or known.sink is not sink):
                known = self._lines_of[sink.stream_name] = SinkLines(sink)
            self._lines[stream] = known  # the same lines, with their parser, while the stream has that sink
        return self._lines[stream] is not None

    def take(self, stream: str, lines: bytes, first: int, count: int) -> None:
        """Add RECORD lines of a stream, with line breaks; `first` is the number of the first in the input, from 1."""
        of_sink = self._lines[stream]
        assert of_sink is not None
        with self._run.messages:
            self._run.record_queue.add(of_sink, lines, first, count)

    def flush(self) -> None:
        """Pass all lines to their sinks."""
        with self._run.messages:
            self._run.record_queue.flush()
