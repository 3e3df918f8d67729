"""Objects that could not be read in the version that was planned: no run passes their new versions by in silence.

Either the run reads the new version, or STATE stays before it, or the run ends with an error. Objects of a queue are
planned again before STATE moves on; where objects are listed, STATE waits for the end of the run.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from singer_arrow.errors import NotFoundError, ObjectChangedError
from singer_arrow.object_info import ObjectInfo
from singer_arrow.storage import Storage
from singer_arrow.urls import Url
from tap_s3_files.history import Version, version_of
from tap_s3_files.plan import Segment, Window, in_order, in_window, position
from tap_s3_files.replication.intake import Receiver
from tap_s3_files.store import SegmentStore

logger = logging.getLogger("tap-s3-files")
MOST_TRIES = 3
"""How often new versions are planned in one run."""


class Retold:
    """Objects that a queue told of, planned again in their new versions."""

    def __init__(self, receiver: Receiver, storage: Storage) -> None:
        self._receiver, self._storage = receiver, storage
        self._tries: dict[str, int] = {}
        self._unread: set[Version] = set()

    def plan(self, changed: Sequence[ObjectInfo]) -> None:
        """Make durable that the new versions of objects are to be read. The queue may have told of them already.

        Raises:
            ObjectChangedError: One changes again and again.
        """
        self._unread.update(map(version_of, changed))
        found = in_order(
            o
            for o in heads(self._storage, changed)
            if in_window(o, *self._receiver.claim.window)
            and (version_of(o) in self._unread or not self._receiver.knows(o))
        )
        for info in found:
            url = str(info.url)
            self._tries[url] = self._tries.get(url, 0) + 1
            if self._tries[url] > MOST_TRIES:
                raise restless(info)
        tell(found)
        self._receiver.plan(found)


def heads(storage: Storage, objects: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
    """The objects as they are now, each once; without those that are gone."""
    for url in dict.fromkeys(o.url for o in objects):
        with suppress(NotFoundError):
            yield storage.head(url)


@dataclass(frozen=True, slots=True)
class Changed:
    """What has changed under a run up to the end of its plan.

    Attributes:
        objects: As they were planned; those that changed since this was last looked at.
        unread: All versions that this run could not read.
        store: Where the run's segments are, if they are kept.
        first: The number of the first of them.
        last: The last of them.
    """

    objects: Sequence[ObjectInfo]
    unread: Collection[Version]
    store: SegmentStore | None
    first: int
    last: Segment

    def behind(self, now: Iterable[ObjectInfo], window: Window) -> list[ObjectInfo]:
        """Which new versions lie before the run's watermark, and are in none of its segments.

        Args:
            now: Objects as they are now; also others.
            window: Which objects are wanted.
        """
        urls, end = {o.url for o in self.objects}, self.last.after
        found = [o for o in now if o.url in urls and in_window(o, *window) and (end is None or position(o) <= end)]
        if not found or self.store is None:
            return in_order(found)
        known = _planned(self.store, range(self.first, self.last.number + 1), {o.url for o in found})
        # An object may be as it was planned again: then nothing else reads it.
        return in_order(o for o in found if version_of(o) not in known.difference(self.unread))


def _planned(store: SegmentStore, numbers: Iterable[int], urls: set[Url]) -> set[Version]:
    """The versions of objects in segments. They are read again: few runs need them, and they may be very many."""
    return {version_of(o) for n in numbers for o in store.read(n).objects if o.url in urls}


def tell(found: Iterable[ObjectInfo]) -> None:
    """Say that new versions are read in this run."""
    for info in found:
        logger.warning("%s has changed under this run, which reads its new version now", info.url)


def restless(info: ObjectInfo) -> ObjectChangedError:
    """What is said where a new version cannot be read in this run, and no later run would find it by itself."""
    return ObjectChangedError(
        f"{info.url} was replaced again and again while it was read; STATE stays before it, so run again"
    )
