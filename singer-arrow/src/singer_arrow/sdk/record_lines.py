"""The RECORD lines of a target that need not become messages: they go whole to the sink of their stream.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from singer_arrow.records.message import names_of_record
from singer_arrow.sdk.sink import LoadSink
from singer_arrow.sdk.stream_maps import is_plain

if TYPE_CHECKING:
    from singer_arrow.sdk.target import LoadTarget

_RUNS_PER_LOOK = 256
"""Runs of RECORD lines of which one is looked at for properties that the SCHEMA does not have."""


class RecordLineRouter:
    """What the reader calls for RECORD lines; see `RecordLines`."""

    def __init__(self, target: LoadTarget) -> None:
        self._target = target
        self._sinks: dict[str, LoadSink | None] = {}
        self._runs = 0

    def forget(self) -> None:
        """A SCHEMA came, which may change where lines go."""
        self._sinks.clear()

    def takes(self, stream: str) -> bool:
        """Whether RECORD lines of a stream go as they are: it has one sink, which changes nothing and is its own."""
        if stream not in self._sinks:
            maps = self._target.mapper.stream_maps.get(stream, [])
            is_alone = len(maps) == 1 and is_plain(maps[0]) and not self._is_shared(maps[0].stream_alias)
            sink = self._target._sinks_active.get(maps[0].stream_alias) if is_alone else None
            self._sinks[stream] = sink if isinstance(sink, LoadSink) and sink.record_schema is not None else None
        return self._sinks[stream] is not None

    def take(self, stream: str, lines: bytes, first: int, count: int) -> None:
        """Take RECORD lines.

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
        """All lines were read.

        Raises:
            DataError: One is bad.
        """
        with self._target.messages:
            self._target.record_queue.flush()

    def _is_shared(self, alias: str) -> bool:
        """Whether several streams go to one sink."""
        every = self._target.mapper.stream_maps.values()
        return sum(any(m.stream_alias == alias for m in maps) for maps in every) > 1
