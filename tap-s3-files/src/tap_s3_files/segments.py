"""The durable plan: segments are written before their first batch leaves, found again, followed, and removed.

`<plan_root>/_plans/<stream>/<number>.json` holds a segment. An interrupted run is gone on with exactly as it was
planned, so that its batches keep their ids however many objects came since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

from singer_arrow.errors import ConfigError
from singer_arrow.object_info import ObjectInfo
from tap_s3_files.bookmarks import Bookmark, Watermark
from tap_s3_files.history import MOST_MARKS, History, marks, up_to
from tap_s3_files.plan import Segment, Window, in_window, make_segments
from tap_s3_files.store import SegmentStore

logger = logging.getLogger("tap-s3-files")
MOST_READ = 64
"""How many of the segments that are removed are looked at for the history, the last ones."""
READS_AT_ONCE = 16
TOLD = "queue"
"""In the place of a fingerprint: a segment that a queue told of; nothing but the segment knows of its objects."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run begins, the segments of earlier runs that it follows first, and what is planned so far."""

    bookmark: Bookmark
    segments: tuple[Segment, ...] = ()
    history: History = field(default_factory=History)

    @property
    def next_number(self) -> int:
        """The number of the first segment that is planned anew."""
        return self.segments[-1].number + 1 if self.segments else self.bookmark.segment


def resume(
    store: SegmentStore,
    bookmark: Bookmark | None,
    fingerprint: str,
    overlap: timedelta = timedelta(0),
    window: Window = (None, None),
) -> Start:
    """Find out what earlier runs left.

    Segments behind the STATE are removed, and so are those that do not continue it (the stream's paths changed, or they
    are what is left of a run whose STATE is lost): their objects lie after the watermark, or there is none, so they are
    planned again. What is still needed of them goes into the history first. A segment of which no object lies within
    the window is not followed either; one of which some do is followed whole: other bundles would have other ids. A
    segment that a queue told of is followed in any case, since its messages are gone.

    Raises:
        ConfigError: One that a queue told of does not continue the STATE.

    Args:
        store: Of the stream.
        bookmark: The stream's STATE; None if there is none.
        fingerprint: Of the stream as it is now.
        overlap: How far before the watermark objects may appear late.
        window: Which objects are wanted.
    """
    numbers, kept = store.numbers(), store.read_history()
    first = bookmark.segment if bookmark else next(iter(numbers), kept.number)
    start = bookmark or Bookmark(segment=first)
    chain = _chain(store, [n for n in numbers if n >= first], start, fingerprint, window)
    gone = [n for n in numbers if n < first or n >= first + len(chain)]
    some = [store.read(n) for n in gone[-MOST_READ:]]
    if start.watermark and any(store.read(n).fingerprint == TOLD for n in gone if n >= first):
        msg = (
            "Segments that a queue told of do not continue the STATE, and nothing else knows of their objects; "
            "run with replication.method sqs first, or with the STATE of its last run"
        )
        raise ConfigError(msg)
    history = up_to(kept, start.watermark, _before(start, some), overlap)
    if gone:
        history = history.without(some, gone[-1])
        store.write_history(history)
        store.remove(gone)
    if unfit := [n for n in gone if n >= first]:
        logger.warning(
            "%d planned segments do not fit the STATE, the paths or the dates and are planned again", len(unfit)
        )
    if outside := sum(not in_window(o, *window) for s in chain for o in s.objects):
        text = "An earlier run planned %d objects outside start_date and end_date together with others; it is followed"
        logger.warning(text, outside)
    if chain:
        return Start(start, tuple(chain), history.followed_by(chain))
    if start.is_begun:
        logger.warning("The segment that STATE stands in is gone: its objects are read again from their beginning")
    begun = bool(unfit) or start.is_begun  # never give a number that a STATE may mean to other tasks
    return Start(Bookmark(start.watermark, max(first + begun, history.number)), (), history)


@dataclass(frozen=True, slots=True)
class Told:
    """Where a run begins that learns of objects from a queue.

    `numbers` are the segments that it follows first, all that its STATE has not passed; `next_number` and `before`
    begin those that it plans; `marks` are of objects that need no plan any more.
    """

    bookmark: Bookmark
    numbers: tuple[int, ...]
    next_number: int
    before: Watermark | None
    marks: dict[str, None]


def take_up(store: SegmentStore, bookmark: Bookmark | None) -> Told:
    """Find out what earlier runs left that were told of objects by a queue.

    Their messages are deleted, so nothing but these segments knows of the objects: each that the STATE has not passed
    is followed, whatever the paths and dates are now. Segments behind the STATE are removed.

    Args:
        store: Of the stream.
        bookmark: The stream's STATE; None if there is none.
    """
    numbers, kept = store.numbers(), store.read_history()
    first = bookmark.segment if bookmark else next(iter(numbers), kept.number)
    gone, beyond = [n for n in numbers if n < first], [n for n in numbers if n >= first]
    history = kept
    if gone:
        some = _newest(store, gone)
        history = kept.having_told(o for s in some for o in s.objects).without(some, gone[-1])
        store.write_history(history)
        store.remove(gone)
    start = bookmark or Bookmark(segment=first)
    begun = start.is_begun
    lost = sorted({*range(first, max(beyond, default=first + begun - 1) + 1), *range(first, kept.number)} - {*beyond})
    if lost:
        logger.warning(
            "Segments %d to %d, which the STATE has not passed, are gone: what only they named is not read, unless by "
            "a run with replication.method polling and a start_date",
            lost[0],
            lost[-1],
        )
    known, before = dict(history.having_told(()).told), start.watermark
    for number in beyond:
        segment = store.read(number)
        known |= marks(segment.objects)
        before = segment.after
    following = max(beyond[-1] + 1 if beyond else first + begun, history.number)
    return Told(start, tuple(beyond), following, before, known)


def _newest(store: SegmentStore, numbers: Sequence[int]) -> list[Segment]:
    """The last of some segments, in order: so many that their objects are as many as marks are kept."""
    found: list[Segment] = []
    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        for end in range(len(numbers), 0, -MOST_READ):
            found[:0] = pool.map(store.read, numbers[max(0, end - MOST_READ) : end])
            if sum(1 for s in found for _ in s.objects) >= MOST_MARKS:
                break
    return found


def without_plan(bookmark: Bookmark | None) -> Start:
    """Where a run begins that keeps no plan: at the watermark, because there is nothing to find its segment in."""
    at = bookmark or Bookmark()
    begun = at.is_begun
    return Start(Bookmark(at.watermark, at.segment + begun), (), History(at.watermark, at.watermark))


def _before(start: Bookmark, segments: Sequence[Segment]) -> list[Segment]:
    """Those of the segments that end where a run begins, without a gap."""
    found: list[Segment] = []
    place = start.watermark
    for segment in reversed([s for s in segments if s.number < start.segment]):
        if segment.number != start.segment - 1 - len(found) or segment.after != place:
            break
        found.insert(0, segment)
        place = segment.before
    return found


def _chain(
    store: SegmentStore, numbers: Sequence[int], start: Bookmark, fingerprint: str, window: Window
) -> list[Segment]:
    chain: list[Segment] = []
    before = start.watermark
    for expected, number in enumerate(numbers, start.segment):
        if number != expected:
            break
        segment = store.read(number)
        if segment.before != before:
            break
        is_wanted = segment.fingerprint == fingerprint and any(in_window(o, *window) for o in segment.objects)
        if not is_wanted and segment.fingerprint != TOLD:
            break
        chain.append(segment)
        before = segment.after
    return chain


def extend(
    store: SegmentStore | None,
    objects: Iterable[ObjectInfo],
    *,
    stream: str,
    fingerprint: str,
    number: int,
    history: History,
    target_bytes: int,
    dress: Callable[[Segment], Segment] = lambda segment: segment,
) -> Iterator[Segment]:
    """Plan new segments for objects in order; each is durable before it is yielded, if there is a store.

    Args:
        store: Where plans are kept.
        objects: In order.
        stream: Their stream.
        fingerprint: Of the stream.
        number: Of the first segment.
        history: What is planned already.
        target_bytes: Wanted size of a batch file.
        dress: Gives a segment the schema of its rows, just before it is written.
    """
    before = history.until
    rest: Iterable[ObjectInfo] | None = objects
    while rest is not None:
        plan = make_segments(
            rest,
            stream=stream,
            fingerprint=fingerprint,
            number=number,
            before=before,
            target_bytes=target_bytes,
            ends=history.ends,
        )
        rest = None
        for segment in map(dress, plan):
            planned = store.write(segment) if store else segment
            yield planned
            number, before = planned.number + 1, planned.after
            if planned != segment:  # a twin came first: what it took is not ours to plan
                taken = {(o.url, o.etag) for o in planned.objects}
                rest = [o for s in (segment, *plan) for o in s.objects if (o.url, o.etag) not in taken]
                break
