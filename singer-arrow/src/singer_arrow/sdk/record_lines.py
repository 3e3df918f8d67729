"""RECORD lines that need not become messages: they are added to the queue as they are, with the sink of their stream.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

from singer_sdk.mapper import PluginMapper

from singer_arrow.records.message import names_of_record
from singer_arrow.records.queue import RecordQueue
from singer_arrow.sdk.sink import LoadSink
from singer_arrow.sdk.stream_maps import is_plain

_RUNS_PER_LOOK = 256
"""Runs of RECORD lines of which one is searched for properties that the SCHEMA does not have."""


class RoutingTarget(Protocol):
    """What the router uses of its target."""

    mapper: PluginMapper
    messages: threading.RLock
    """Lock of the processing of messages."""

    @property
    def record_queue(self) -> RecordQueue:
        """Queue of RECORD lines."""

    def active_sink(self, alias: str) -> Any:
        """Return the sink of a stream at present, or None."""


class RecordLineRouter:
    """Adds RECORD lines to the queue of the target; see `message_reader.RecordLines`."""

    def __init__(self, target: RoutingTarget) -> None:
        self._target = target
        self._sinks: dict[str, LoadSink | None] = {}
        self._runs = 0

    def forget(self) -> None:
        """Forget the sinks of streams, which a SCHEMA may have changed."""
        self._sinks.clear()

    def takes(self, stream: str) -> bool:
        """Return whether lines of a stream are added as they are: it has a sink of its own, and no map changes rows."""
        if stream not in self._sinks:
            maps = self._target.mapper.stream_maps.get(stream, [])
            is_alone = len(maps) == 1 and is_plain(maps[0]) and not self._is_shared(maps[0].stream_alias)
            sink = self._target.active_sink(maps[0].stream_alias) if is_alone else None
            takes_lines = isinstance(sink, LoadSink) and sink.table.record_schema is not None
            self._sinks[stream] = sink if takes_lines else None
        return self._sinks[stream] is not None

    def take(self, stream: str, lines: bytes, first: int, count: int) -> None:
        """Add RECORD lines of a stream.

        Raises:
            DataError: One is bad.
        """
        sink = self._sinks[stream]
        assert sink is not None
        if self._runs % _RUNS_PER_LOOK == 0:
            sink.warn_of_unknown(names_of_record(lines[: lines.find(b"\n")]))
        self._runs += 1
        with self._target.messages:
            self._target.record_queue.add(sink, lines, first, count)

    def flush(self) -> None:
        """Bring all lines to their sinks.

        Raises:
            DataError: One is bad.
        """
        with self._target.messages:
            self._target.record_queue.flush()

    def _is_shared(self, alias: str) -> bool:
        """Return whether several streams have the same sink."""
        every = self._target.mapper.stream_maps.values()
        return sum(any(m.stream_alias == alias for m in maps) for maps in every) > 1
