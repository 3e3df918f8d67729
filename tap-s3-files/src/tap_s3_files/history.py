"""What is kept of segments when they are removed: `<plan_root>/_plans/<stream>/history.json`. Pure.

Four things. What was planned in the last minutes, so that an object which appears in listings late is read, and no
other is read twice: a multipart upload counts from its beginning, clocks differ, and objects of one second may come in
any order; therefore a run looks back from its watermark by the setting `replication.overlap_minutes`. Where plans
ended, so that all objects planned anew (without STATE) make the same bundles as they did when they came bit by bit, and
their batches the same ids. Up to which number segments were numbered, so that none ever stands for two. And, where a
queue told of objects, marks of the last of them, because a queue tells of an object more than once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from singer_arrow.object_info import ObjectInfo
from tap_s3_files.bookmarks import Watermark
from tap_s3_files.plan import Segment, position

VERSION = 1
MOST_ENDS = 10_000
"""Ends that are kept; each is some 100 bytes."""
MOST_MARKS = 100_000
"""Marks that are kept; each is 20 bytes."""

Version = tuple[str, str]
"""An object in one version: its URL, and its ETag or what stands for it."""


def version_of(info: ObjectInfo) -> Version:
    """Names an object in its version."""
    return str(info.url), info.etag or f"{info.size}@{info.modified.isoformat()}"


def mark(version: Version) -> str:
    """A short text that stands for an object in its version."""
    return hashlib.sha256("\n".join(version).encode()).hexdigest()[:16]


def marks(objects: Iterable[ObjectInfo]) -> dict[str, None]:
    """Those of objects, in their order."""
    return dict.fromkeys(mark(version_of(o)) for o in objects)


def last_marks(known: dict[str, None]) -> dict[str, None]:
    """As many of them as are kept, the last ones."""
    return known if len(known) <= MOST_MARKS else dict.fromkeys(list(known)[-MOST_MARKS:])


@dataclass(frozen=True, slots=True)
class History:
    """What is known of earlier runs.

    Every object between `since` (None: from the first on) and `until` that was planned is in `planned`, with the time
    of its last change. `ends` are places, in order, where plans ended. Segments below `number` existed. `told` holds
    the marks of what queues told of.
    """

    since: Watermark | None = None
    until: Watermark | None = None
    planned: Mapping[Version, datetime] = field(default_factory=dict)
    ends: tuple[Watermark, ...] = ()
    number: int = 0
    told: Mapping[str, None] = field(default_factory=dict)

    def followed_by(self, segments: Iterable[Segment]) -> History:
        """With the objects of segments that a run follows, in order."""
        last, planned = self.until, dict(self.planned)
        for segment in segments:
            last = segment.after
            planned.update((version_of(o), o.modified) for o in segment.objects)
        return replace(self, until=last, planned=planned)

    def without(self, segments: Iterable[Segment], number: int) -> History:
        """With the ends of segments that are removed; `number` is the last of their numbers."""
        ends = {*self.ends, *(s.after for s in segments if s.after)}
        return replace(self, ends=tuple(sorted(ends)[-MOST_ENDS:]), number=max(self.number, number + 1))

    def having_told(self, objects: Iterable[ObjectInfo]) -> History:
        """With the marks of objects of segments that a queue told of, and of all that is known to be planned."""
        planned = dict.fromkeys(mark(v) for v in self.planned)
        return replace(self, told=last_marks({**self.told, **planned, **marks(objects)}))

    def is_new(self, info: ObjectInfo) -> bool:
        """Whether an object is to be read: it lies after all that was planned, or it came late."""
        at = position(info)
        if self.told and mark(version_of(info)) in self.told:
            return False
        if self.until is None or at > self.until:
            return True
        return (self.since is None or at > self.since) and version_of(info) not in self.planned


def up_to(kept: History, watermark: Watermark | None, behind: Sequence[Segment], overlap: timedelta) -> History:
    """What is known of the objects up to a watermark, back to where late ones are looked for.

    Args:
        kept: What earlier runs kept.
        watermark: Where a run begins; None: at the first object, so that there is nothing to know.
        behind: Segments that end there, each after the one before it; as many as are still there.
        overlap: How late an object may come.
    """
    if watermark is None:
        return History(ends=kept.ends, number=kept.number)  # nor is what a queue told of: it is read again
    start = Watermark(watermark.last_modified - overlap, "") if overlap else watermark
    since = behind[0].before if behind else watermark
    planned = {version_of(o): o.modified for s in behind for o in s.objects}
    if since is not None and kept.until is not None and kept.until >= since:
        since = min(kept.since, since) if kept.since else None
        planned.update(kept.planned)
    if since is None or since < start:
        since = start
        older = {v: at for v, at in planned.items() if at < start.last_modified}
        planned = {v: at for v, at in planned.items() if at >= start.last_modified}
        if older:  # where keys ascend, listings begin there
            edge = max(older, key=lambda v: (older[v], v))
            planned[edge] = older[edge]
    return replace(kept, since=since, until=watermark, planned=planned)


def to_json(history: History) -> bytes:
    """As it is kept."""
    value = {
        "version": VERSION,
        "since": history.since.to_json() if history.since else None,
        "until": history.until.to_json() if history.until else None,
        "planned": [[*version, at.isoformat()] for version, at in history.planned.items()],
        "ends": [end.to_json() for end in history.ends],
        "number": history.number,
        "told": list(history.told),
    }
    return json.dumps(value).encode()


def from_json(text: bytes) -> History:
    """Read what `to_json` wrote.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: It is something else.
    """
    value: dict[str, Any] = json.loads(text)
    if value["version"] != VERSION or not isinstance(value["number"], int):
        raise ValueError
    since, until = (Watermark.from_json(w) if w else None for w in (value["since"], value["until"]))
    planned = {(str(url), str(etag)): datetime.fromisoformat(at) for url, etag, at in value["planned"]}
    ends = tuple(Watermark.from_json(end) for end in value["ends"])
    return History(since, until, planned, ends, value["number"], dict.fromkeys(value.get("told", ())))
