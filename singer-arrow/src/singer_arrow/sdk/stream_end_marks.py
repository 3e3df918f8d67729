"""Streams of a tap that announce an end mark in SCHEMA, and write it after their last message; see `load/stream_ends`.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_tap.py`, which fails when a new SDK changes them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from singer_sdk import Stream
from singer_sdk.mapper import RemoveRecordTransform
from singer_sdk.singerlib import Message, SchemaMessage

from singer_arrow.load.stream_ends import KEY, WHOLE


@dataclass(slots=True)
class AnnouncingSchema(SchemaMessage):
    """A SCHEMA message of a stream whose end will be marked."""

    shard: str | None = None  # which part the run sends, as `stream_ends.SHARD`; None: all
    sent_whole: bool = True  # False: only what is new since its STATE

    def to_dict(self) -> dict[str, Any]:
        """Return the message with the announcement."""
        message = SchemaMessage.to_dict(self)  # the class that slots make does not know super()
        return {**message, KEY: True, WHOLE: self.sent_whole}


@dataclass(slots=True)
class PlainMessage(Message):
    """A message with more members than the SDK's, or others."""

    members: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the message."""
        return self.members


class MarkedStream(Stream):
    """A stream that marks its end, and sends ACTIVATE_VERSION of a full table there instead of before the rows."""

    is_finished = False
    """Whether the whole stream was sent."""
    shard: str | None = None
    """Which part of the stream this run sends; None: all."""

    @property
    def is_sent_whole(self) -> bool:
        """Whether this run sends all of the stream, not only what is new since its STATE."""
        return True

    @property
    def sent_names(self) -> list[str]:
        """Return the names that the stream is sent under: its own, or those of its stream maps."""
        names = (m.stream_alias for m in self.stream_maps if not isinstance(m, RemoveRecordTransform))
        return list(dict.fromkeys(names))

    def _generate_schema_messages(self) -> Generator[SchemaMessage]:
        for m in super()._generate_schema_messages():
            keys = m.key_properties, m.bookmark_properties
            yield AnnouncingSchema(m.stream, m.schema, *keys, shard=self.shard, sent_whole=self.is_sent_whole)

    def _write_activate_version_message(self, full_table_version: int) -> None:
        """Write nothing: the SDK calls this before the rows of the version are sent."""

    def finalize_state_progress_markers(self, state: dict[str, Any] | None = None) -> None:
        """Send ACTIVATE_VERSION of a full table and the end mark; the SDK calls this after the last row."""
        super().finalize_state_progress_markers(state)
        if state or not self.selected or self.is_finished:
            return
        self.is_finished = True
        if self._stream_version is not None:
            super()._write_activate_version_message(self._stream_version)
        for name in self.sent_names:
            if not self._shares(name):
                self._tap.write_message(PlainMessage({"type": "STATE", "value": self.tap_state, KEY: name}))

    def _shares(self, name: str) -> bool:
        """Return whether another stream that is not finished is sent under the same name, or may have been.

        Of a stream that failed before its schema was known, the names that maps give it are not known.
        """
        others = (s for s in self._tap.streams.values() if isinstance(s, MarkedStream) and s.selected)
        has_unknown = bool(getattr(self._tap, "failures", {}).keys() - self._tap.streams.keys())
        aliases = [
            m.get("__alias__") for m in (self.config.get("stream_maps") or {}).values() if isinstance(m, Mapping)
        ]
        return any(name in s.sent_names for s in others if not s.is_finished) or (
            has_unknown and (name != self.name or name in aliases)
        )
