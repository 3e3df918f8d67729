"""What the STATE of a stream holds, and how it moves. Pure.

    {"watermark": {"last_modified": "2024-05-01T10:00:00+00:00", "key": "s3://bucket/a.csv"} | null,
     "segment": 17, "done": 42, "ahead": [45, 47], "rows": 1310720, "log": "5f0c..."}

`log` is the id of the plan log that the numbers are of; without a log, only the watermark counts. The watermark is
where the objects of segments before this one end; of this segment, the tasks below `done` and those in `ahead` are
sent, and of the task number `done`, if it reads one large object, the first `rows` rows. Its size does not depend on
the number of objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from singer_arrow.errors import ConfigError

_OF_THE_SDK = {"partitions", "progress_markers", "replication_key_signpost", "starting_replication_value"}
"""Keys that the SDK may leave in an entry; they are no part of a bookmark."""
_YEARS = (1, 9999)  # of datetime


@dataclass(frozen=True, slots=True, order=True)
class Watermark:
    """A place in the order of objects: by time of last change, then by URL."""

    last_modified: datetime
    key: str

    def to_json(self) -> dict[str, str]:
        """Encode for STATE and segments."""
        return {"last_modified": self.last_modified.astimezone(UTC).isoformat(), "key": self.key}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Watermark:
        """Read what `to_json` wrote; KeyError, TypeError or ValueError: it is something else."""
        moment = datetime.fromisoformat(value["last_modified"])
        if not _YEARS[0] < moment.year < _YEARS[1]:  # the overlap and other zones need room
            raise ValueError
        if not isinstance(value["key"], str):
            raise TypeError
        return cls(moment if moment.tzinfo else moment.replace(tzinfo=UTC), value["key"])


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Position of a stream in its plan."""

    watermark: Watermark | None = None
    segment: int = 0
    done: int = 0
    ahead: tuple[int, ...] = ()
    rows: int = 0
    log: str = ""

    @property
    def is_begun(self) -> bool:
        """Whether something of its segment is sent."""
        return bool(self.done or self.ahead or self.rows)

    def is_sent(self, task: int) -> bool:
        """Return whether a task of the bookmark's segment is sent."""
        return task < self.done or task in self.ahead

    def sent(self, task: int) -> Bookmark:
        """Return the bookmark after a task of its segment was sent, in any order."""
        ahead = {task, *self.ahead}
        done = self.done
        while done in ahead:
            done += 1
        rows = self.rows if done == self.done else 0
        return replace(self, done=done, ahead=tuple(sorted(t for t in ahead if t > done)), rows=rows)

    def segment_sent(self, end: Watermark | None) -> Bookmark:
        """Return the bookmark after all tasks of its segment were sent; the segment ends at `end`."""
        return Bookmark(latest(self.watermark, end), self.segment + 1, log=self.log)

    def to_state(self) -> dict[str, Any]:
        """Return the stream's entry in STATE."""
        return {
            "watermark": self.watermark.to_json() if self.watermark else None,
            "segment": self.segment,
            "done": self.done,
            "ahead": list(self.ahead),
            **({"rows": self.rows} if self.rows else {}),
            **({"log": self.log} if self.log else {}),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], stream: str) -> Bookmark | None:
        """Read the stream's entry in STATE; None if it has no bookmark."""
        if not state.keys() - _OF_THE_SDK and not state.get("partitions"):  # these are of another tap
            return None
        try:
            if state.keys().isdisjoint(("watermark", "segment", "done", "ahead")):
                raise KeyError
            mark = state.get("watermark")
            segment, done, ahead = state.get("segment", 0), state.get("done", 0), tuple(state.get("ahead", ()))
            rows, log = state.get("rows", 0), state.get("log", "")
            if not all(isinstance(n, int) and n >= 0 for n in (segment, done, rows, *ahead)) or not isinstance(
                log, str
            ):
                raise TypeError
            return cls(Watermark.from_json(mark) if mark is not None else None, segment, done, ahead, rows, log)
        except (AttributeError, KeyError, TypeError, ValueError):
            msg = (
                f"The STATE of stream {stream!r} is not one that this tap wrote; "
                "restore an earlier one, or run without the stream's state to read all objects again"
            )
            raise ConfigError(msg) from None


def latest(a: Watermark | None, b: Watermark | None) -> Watermark | None:
    """Return the later of two places; None is before all."""
    return max((w for w in (a, b) if w is not None), default=None)
