"""Which object versions a plan log held when a run began; only those of the times asked for are in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from singer_arrow.object_info import ObjectInfo
from singer_arrow.urls import Url
from tap_s3_files.bookmarks import Watermark
from tap_s3_files.legacy_plans import mark
from tap_s3_files.log_files import LogFile
from tap_s3_files.plan import Segment, Version, position, version_of
from tap_s3_files.plan_log import PlanLog

_MOST_GROUPS = 32
"""Groups of segments whose versions are kept in memory at least: of some thousand objects each."""
_PRECISION = timedelta(seconds=1)
"""Of times: a listing may give fractions of a second where other answers give none."""
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class _Group:
    """Segments whose objects are of a time from `oldest` to `newest`."""

    oldest: datetime
    newest: datetime
    read: Callable[[], Iterable[Segment]]


class KnownVersions:
    """The object versions of a log, looked up by the times of the objects; objects in order of time are fast.

    Args:
        log: Of a stream.
        since: None that is older is looked up.
        is_rerun: The run begins without STATE: it reads again what only an earlier version of the tap knew.
    """

    def __init__(self, log: PlanLog, since: datetime | None = None, *, is_rerun: bool = False) -> None:
        self._log, self._legacy = log, None if is_rerun else log.legacy
        oldest = since - _PRECISION if since is not None else _FIRST
        files = [f for f in log.files if f.newest is None or f.newest >= oldest]
        log.fetch(files)
        self._begins = files[:1] == list(log.files[:1])
        self._groups = [group for file in files for group in self._groups_of(file) if group.newest >= oldest]
        self._near: list[_Group] = []
        self._from, self._to = _LAST, _FIRST
        self._versions: OrderedDict[int, frozenset[Version]] = OrderedDict()

    def __contains__(self, info: ObjectInfo) -> bool:
        if not self._groups and self._legacy is None:
            return False
        version = version_of(info)
        if self._legacy is not None and mark(version) in self._legacy.marks:
            return True
        if not self._from <= info.modified < self._to:
            self._seek(info.modified)
        return any(version in self._versions_of(group) for group in self._near)

    def floor(self, watermark: Watermark) -> Watermark | None:
        """Return the place up to which objects count as read although the log does not hold them.

        They were read before there was a log: by a run that kept none, or by an earlier version of the tap.

        Args:
            watermark: Where a run begins.
        """
        if self._legacy is not None:
            return self._legacy.since
        if not self._begins:
            return None
        return self._log.read(self._log.first_number).before if self._log.files else watermark

    def last_key(self, since: datetime) -> Url | None:
        """Return the last key among the objects that are older than a time; None if there are none."""
        older = [g for g in self._groups if g.oldest < since]
        nearest = max(older, key=lambda g: g.oldest, default=None)
        objects = [o for s in nearest.read() for o in s.objects if o.modified < since] if nearest else []
        return max(objects, key=position).url if objects else None

    def urls(self, oldest: datetime, newest: datetime) -> set[str]:
        """Return the URLs of the objects of groups that have some of a time between two."""
        near = (g for g in self._groups if g.oldest <= newest and g.newest >= oldest)
        return {url for group in near for url, _ in self._versions_of(group)}

    def _groups_of(self, file: LogFile) -> Iterable[_Group]:
        for oldest, newest, number in self._log.groups(file):
            yield _Group(oldest - _PRECISION, newest + _PRECISION, partial(self._log.group, file, number))

    def _seek(self, at: datetime) -> None:
        self._near = [g for g in self._groups if g.oldest <= at <= g.newest]
        edges = [t for g in self._groups for t in (g.oldest, g.newest + timedelta(microseconds=1))]
        self._from = max((t for t in edges if t <= at), default=_FIRST)
        self._to = min((t for t in edges if t > at), default=_LAST)

    def _versions_of(self, group: _Group) -> frozenset[Version]:
        found = self._versions.pop(id(group), None)
        if found is None:
            found = frozenset(version_of(o) for s in group.read() for o in s.objects)
        self._versions[id(group)] = found
        while len(self._versions) > max(_MOST_GROUPS, len(self._near)):
            self._versions.popitem(last=False)
        return found
