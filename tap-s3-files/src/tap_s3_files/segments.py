"""The durable plan: segments are written before their first batch leaves, found again, followed, and removed.

`<plan_root>/_plans/<stream>/<number>.json` holds a segment. An interrupted run is gone on with exactly as it was
planned, so that its batches keep their ids however many objects came since.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.storage import ObjectInfo, Storage
from singer_arrow.urls import Url
from tap_s3_files.bookmarks import Bookmark, Watermark
from tap_s3_files.plan import Segment, Task, make_segments

logger = logging.getLogger("tap-s3-files")
VERSION = 1
_NAME = re.compile(r"(\d{6,})\.json")


def safe_name(stream: str) -> str:
    """The stream's name for use in a key: its own if that is plain, else made so and kept apart by a hash."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", stream)[:100]
    return plain if plain == stream else f"{plain}-{hashlib.sha256(stream.encode()).hexdigest()[:8]}"


class SegmentStore:
    """The segments of one stream below a plan root."""

    def __init__(self, storage: Storage, root: Url, stream: str) -> None:
        self._storage = storage
        self._folder = root.join("_plans", safe_name(stream))

    def numbers(self) -> list[int]:
        """The numbers of all segments that exist, in order."""
        found = self._storage.list(Url(self._folder.scheme, self._folder.bucket, self._folder.key + "/"))
        return sorted(int(m[1]) for o in found if (m := _NAME.fullmatch(o.url.name)))

    def read(self, number: int) -> Segment:
        """A segment that exists.

        Raises:
            DataError: It is damaged, or of a version that this tap does not know.
        """
        url = self._url(number)
        try:
            return _from_json(json.loads(bytes(self._storage.get(url).data)))
        except (AttributeError, KeyError, TypeError, ValueError):
            msg = "this is no segment that this version of the tap can follow"
            hint = "Use the version that wrote it, or delete it: its objects are then planned again"
            raise DataError(msg, url=url, hint=hint) from None

    def write(self, segment: Segment) -> Segment:
        """Make a segment durable; if another run wrote this number first, its segment is returned, to be followed.

        Raises:
            ConfigError: That other run plans for other paths, or from another watermark.
        """
        url = self._url(segment.number)
        if self._storage.put(url, json.dumps(_to_json(segment)).encode(), if_absent=True):
            return segment
        theirs = self.read(segment.number)
        if (theirs.before, theirs.fingerprint) != (segment.before, segment.fingerprint):
            msg = (
                f"{url} was written by another run with another STATE or other paths at the same time; "
                "give each of them a plan_root of its own"
            )
            raise ConfigError(msg)
        return theirs

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove segments."""
        self._storage.delete([self._url(n) for n in numbers])

    def _url(self, number: int) -> Url:
        return self._folder.join(f"{number:06d}.json")


def resume(store: SegmentStore, bookmark: Bookmark | None, fingerprint: str) -> tuple[Bookmark, list[Segment]]:
    """Where a run begins, and the segments of earlier runs that it follows first.

    Segments behind the STATE are removed. Those that do not continue it (the stream's paths changed, or they are what
    is left of a run whose STATE is lost) are removed too: their objects lie after the watermark, or there is none, so
    they are planned again.

    Args:
        bookmark: The stream's STATE; None if there is none.
        fingerprint: Of the stream as it is now.
    """
    numbers = store.numbers()
    first = bookmark.segment if bookmark else next(iter(numbers), 0)
    store.remove(n for n in numbers if n < first)
    numbers = [n for n in numbers if n >= first]
    start = bookmark or Bookmark(segment=first)
    chain = _chain(store, numbers, start, fingerprint)
    if chain:
        _drop(store, numbers[len(chain) :])
        return start, chain
    _drop(store, numbers)
    begun = bool(numbers or start.done or start.ahead)  # never give a number that a STATE may mean to other tasks
    if start.done or start.ahead:
        logger.warning("The segment that STATE stands in is gone: its objects are read again from their beginning")
    return Bookmark(start.watermark, max(numbers, default=first) + begun), []


def _chain(store: SegmentStore, numbers: Sequence[int], start: Bookmark, fingerprint: str) -> list[Segment]:
    chain: list[Segment] = []
    before = start.watermark
    for expected, number in enumerate(numbers, start.segment):
        if number != expected:
            break
        segment = store.read(number)
        if segment.before != before or segment.fingerprint != fingerprint:
            break
        chain.append(segment)
        before = segment.after
    return chain


def _drop(store: SegmentStore, numbers: Sequence[int]) -> None:
    if numbers:
        logger.warning(
            "%d planned segments do not fit the STATE or the paths of the stream and are planned again", len(numbers)
        )
        store.remove(numbers)


def extend(
    store: SegmentStore | None,
    objects: Sequence[ObjectInfo],
    *,
    stream: str,
    fingerprint: str,
    number: int,
    before: Watermark | None,
    target_bytes: int,
) -> Iterator[Segment]:
    """Plan new segments for objects in order; each is durable before it is yielded, if there is a store."""
    while objects:
        for segment in make_segments(
            objects,
            stream=stream,
            fingerprint=fingerprint,
            number=number,
            before=before,
            target_bytes=target_bytes,
        ):
            planned = store.write(segment) if store else segment
            yield planned
            number, before = planned.number + 1, planned.after
            if planned != segment:  # a twin came first: what it took is not ours to plan
                taken = {(o.url, o.etag) for o in planned.objects}
                objects = [o for o in objects if (o.url, o.etag) not in taken]
                break
            objects = objects[len(list(segment.objects)) :]


def _to_json(segment: Segment) -> dict[str, Any]:
    return {
        "version": VERSION,
        "stream": segment.stream,
        "number": segment.number,
        "fingerprint": segment.fingerprint,
        "target_bytes": segment.target_bytes,
        "before": segment.before.to_json() if segment.before else None,
        "after": segment.after.to_json() if segment.after else None,
        "tasks": [{"objects": [_object_to_json(o) for o in t.objects]} for t in segment.tasks],
    }


def _object_to_json(info: ObjectInfo) -> dict[str, Any]:
    return {"url": str(info.url), "etag": info.etag, "size": info.size, "modified": info.modified.isoformat()}


def _from_json(value: dict[str, Any]) -> Segment:
    if value["version"] != VERSION:
        raise ValueError
    return Segment(
        number=value["number"],
        stream=value["stream"],
        fingerprint=value["fingerprint"],
        target_bytes=value["target_bytes"],
        before=Watermark.from_json(value["before"]) if value["before"] else None,
        tasks=tuple(Task(tuple(_object_from_json(o) for o in t["objects"])) for t in value["tasks"]),
    )


def _object_from_json(value: dict[str, Any]) -> ObjectInfo:
    url = _url_of(value["url"])
    return ObjectInfo(url, value["size"], value["etag"], datetime.fromisoformat(value["modified"]))


def _url_of(text: str) -> Url:
    """The inverse of `str(url)`; `Url.parse` would percent-decode a local path that holds a percent sign."""
    scheme, _, rest = text.partition("://")
    bucket, _, key = rest.partition("/")
    return Url(scheme, bucket, key)
