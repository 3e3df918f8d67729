"""The sinks that the streams of the input go to, by the stream maps between them.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from singer_sdk import Target

from singer_arrow.sdk.sink import LoadSink
from singer_arrow.sdk.stream_maps import is_plain

if TYPE_CHECKING:
    from singer_sdk import Sink
    from singer_sdk.mapper import StreamMap


class StreamSinks:
    """The sinks of a target; `changes` counts how often a stream may have got another sink."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._sinks: dict[StreamMap, Sink] = {}
        self.changes = 0

    def every(self) -> list[LoadSink]:
        """Return all sinks: those that were replaced, which are empty, and those of the streams at present."""
        sinks = [*self._target._sinks_to_clear, *self._target._sinks_active.values()]
        return [sink for sink in sinks if isinstance(sink, LoadSink)]

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
        if sum(any(m.stream_alias == alias for m in others) for others in every) > 1:
            return None
        sink = self.active(alias)
        return sink if sink is not None and sink.table.record_schema is not None else None
