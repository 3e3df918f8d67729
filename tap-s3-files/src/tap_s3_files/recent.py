"""What was planned lately: so that an object which appears in listings late is read, and no other is read twice.

A listing may show an object after one that was changed later: a multipart upload counts from its beginning, clocks
differ, and objects of one second may come in any order. Therefore a run looks back from its watermark by the setting
`replication.overlap_minutes`, and leaves out what earlier runs planned. That is known from their segments, and from
`<plan_root>/_plans/<stream>/recent.json`, which keeps it when the segments are removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from singer_arrow.storage import ObjectInfo
from tap_s3_files.bookmarks import Watermark
from tap_s3_files.plan import Segment, position

Version = tuple[str, str]
"""An object in one version: its URL, and its ETag or what stands for it."""


def version_of(info: ObjectInfo) -> Version:
    """Names an object in its version."""
    return str(info.url), info.etag or f"{info.size}@{info.modified.isoformat()}"


@dataclass(frozen=True, slots=True)
class Recent:
    """Every object between `since` (None: from the first on) and `until` that was planned is in `planned`.

    `planned` holds the time of the last change of each.
    """

    since: Watermark | None = None
    until: Watermark | None = None
    planned: Mapping[Version, datetime] = field(default_factory=dict)

    def extended(self, segments: Iterable[Segment]) -> Recent:
        """With the segments that follow, in order."""
        last, planned = self.until, dict(self.planned)
        for segment in segments:
            last = segment.after
            planned.update((version_of(o), o.modified) for o in segment.objects)
        return Recent(self.since, last, planned)

    def is_new(self, info: ObjectInfo) -> bool:
        """Whether an object is to be read: it lies after all that was planned, or it came late."""
        at = position(info)
        if self.until is None or at > self.until:
            return True
        return (self.since is None or at > self.since) and version_of(info) not in self.planned


def look_back(watermark: Watermark, overlap: timedelta) -> Watermark:
    """The place from which on late objects are looked for."""
    return Watermark(watermark.last_modified - overlap, "") if overlap else watermark


def remembered(watermark: Watermark, behind: Sequence[Segment], kept: Recent | None, start: Watermark) -> Recent:
    """What is known of the objects between `start` and a watermark.

    Args:
        watermark: Where a run begins.
        behind: Segments that end there, each after the one before it.
        kept: What an earlier run kept of older ones.
        start: Before it nothing needs to be known.
    """
    since = behind[0].before if behind else watermark
    planned = {version_of(o): o.modified for s in behind for o in s.objects}
    if kept is not None and since is not None and kept.until is not None and kept.until >= since:
        since = min(kept.since, since) if kept.since else None
        planned.update(kept.planned)
    if since is None or since < start:
        since = start
        planned = {v: at for v, at in planned.items() if at >= start.last_modified}
    return Recent(since, watermark, planned)


def to_json(recent: Recent) -> bytes:
    """As it is kept."""
    value = {
        "version": 1,
        "since": recent.since.to_json() if recent.since else None,
        "until": recent.until.to_json() if recent.until else None,
        "planned": [[*version, at.isoformat()] for version, at in recent.planned.items()],
    }
    return json.dumps(value).encode()


def from_json(text: bytes) -> Recent | None:
    """Read what `to_json` wrote; None if it is of another version or damaged, as if nothing were known."""
    try:
        value: dict[str, Any] = json.loads(text)
        if value["version"] != 1:
            return None
        since, until = (Watermark.from_json(w) if w else None for w in (value["since"], value["until"]))
        planned = {(str(url), str(etag)): datetime.fromisoformat(at) for url, etag, at in value["planned"]}
        return Recent(since, until, planned)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
