"""Which object versions a plan log held when a run began; only those of the times asked for are in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url
from tap_s3_files.plan.log import PlanLog
from tap_s3_files.plan.log_files import SegmentRange
from tap_s3_files.plan.model import Version, position, version_of

_MAX_GROUPS = 32
"""Groups of segments whose versions are kept in memory at least: of some thousand objects each."""
PRECISION = timedelta(seconds=1)
"""Of times: a listing may give fractions of a second where other answers give none."""
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class KnownVersions:
    """The object versions of a log, looked up by the times of the objects; objects in order of time are fast.

    None that is older than `since` is looked up.
    """

    def __init__(self, log: PlanLog, since: datetime | None = None) -> None:
        self._log = log
        oldest = since - PRECISION if since is not None else _FIRST
        groups = log.groups(oldest)
        self._groups = [
            replace(group, oldest=group.oldest - PRECISION, newest=group.newest + PRECISION)
            for group in groups
            if group.newest + PRECISION >= oldest
        ]
        self._near: list[SegmentRange] = []
        self._edges = sorted(t for g in self._groups for t in (g.oldest, g.newest + timedelta(microseconds=1)))
        self._from, self._to = _LAST, _FIRST
        self._versions: OrderedDict[SegmentRange, frozenset[Version]] = OrderedDict()

    def __contains__(self, info: ObjectInfo) -> bool:
        if not self._groups:
            return False
        version = version_of(info)
        if not self._from <= info.modified < self._to:
            self._near = [g for g in self._groups if g.oldest <= info.modified <= g.newest]
            number = bisect_right(self._edges, info.modified)
            self._from = self._edges[number - 1] if number else _FIRST
            self._to = self._edges[number] if number < len(self._edges) else _LAST
        return any(version in self._versions_of(group) for group in self._near)

    def last_key(self, since: datetime) -> Url | None:
        """Return the last key among the objects that are older than a time; None if there are none."""
        older = (g for g in self._groups if g.oldest + PRECISION < since)
        nearest = max(older, key=lambda g: g.oldest, default=None)
        objects = (o for o in self._objects(nearest) if o.modified < since) if nearest else ()
        last = max(objects, key=position, default=None)
        return last.url if last else None

    def latest(self, since: datetime) -> dict[str, tuple[datetime, Version]]:
        """Return the latest version, and its time, of each object that the log holds since a time; by URL."""
        found: dict[str, tuple[datetime, Version]] = {}
        for group in (g for g in self._groups if g.newest >= since):
            for info in self._objects(group):
                url = str(info.url)
                if url not in found or info.modified >= found[url][0]:
                    found[url] = (info.modified, version_of(info))
        return found

    @property
    def newest(self) -> datetime | None:
        """The time of the newest object, about; None if there are none."""
        return max((g.newest for g in self._groups), default=None)

    def _objects(self, group: SegmentRange) -> Iterator[ObjectInfo]:
        return (o for s in self._log.segments(group.first, group.last + 1) for o in s.objects)

    def _versions_of(self, group: SegmentRange) -> frozenset[Version]:
        found = self._versions.pop(group, None)
        if found is None:
            found = frozenset(map(version_of, self._objects(group)))
        self._versions[group] = found
        while len(self._versions) > max(_MAX_GROUPS, len(self._near)):
            self._versions.popitem(last=False)
        return found
