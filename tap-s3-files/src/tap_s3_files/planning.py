"""What a stream of files reads: the segments of its plan, from its STATE, earlier runs and what is listed now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from singer_arrow.errors import NotFoundError
from tap_s3_files.bookmarks import Bookmark
from tap_s3_files.changed import Changed, heads, restless, tell
from tap_s3_files.config import StreamSettings
from tap_s3_files.history import History
from tap_s3_files.listing import Listing
from tap_s3_files.objects import Claim
from tap_s3_files.plan import Segment, fingerprint
from tap_s3_files.replication.intake import Receiver
from tap_s3_files.replication.polling import known_key, new_objects
from tap_s3_files.segments import extend, resume, without_plan
from tap_s3_files.store import SegmentStore

if TYPE_CHECKING:
    from tap_s3_files.tap import TapS3Files

logger = logging.getLogger("tap-s3-files")
TARGET_BYTES = 128 << 20
"""For segments that are planned without batch files."""


def receiver_of(
    tap: TapS3Files,
    stream: StreamSettings,
    store: SegmentStore,
    target_bytes: int,
    dress: Callable[[Segment], Segment] = lambda segment: segment,
) -> Receiver:
    """A stream that a queue tells of its objects, as earlier runs left it; `dress` gives new segments their schema."""
    state = Bookmark.from_state(tap.given_state(stream.name), stream.name)
    return Receiver(claim_of(tap, stream), store, state, target_bytes, dress)


def claim_of(tap: TapS3Files, stream: StreamSettings) -> Claim:
    """Which of the objects that a queue or an inventory tells of are a stream's."""
    settings = tap.settings
    dates = (settings.start, settings.end)
    return Claim(stream.name, stream.paths, tuple(tap.own_roots), dates, settings.window(stream))


def plan_of(
    tap: TapS3Files,
    stream: StreamSettings,
    store: SegmentStore | None,
    target_bytes: int,
    *,
    full_table: bool = False,
    dress: Callable[[Segment], Segment] = lambda segment: segment,
) -> tuple[Bookmark, Iterator[Segment]]:
    """Where a stream begins whose objects are listed, and its plan: at first what an earlier run left.

    Args:
        tap: Whose settings and STATE hold.
        stream: Which.
        store: Where its plan is kept, if it is.
        target_bytes: Size of the batch files of new segments.
        full_table: Begin as if there were no STATE.
        dress: Gives new segments their schema.
    """
    settings = tap.settings
    state = None if full_table else Bookmark.from_state(tap.given_state(stream.name), stream.name)
    paths = fingerprint(settings.identity(stream))
    window = settings.window(stream)
    start = resume(store, state, paths, settings.overlap, window) if store else without_plan(state)

    def segments() -> Iterator[Segment]:
        yield from start.segments
        begin = known_key(start.history) if settings.keys_ascend and not full_table else None
        found = tap.listing(stream, begin=begin)
        if not found and start.history.until is None and not settings.is_backfill(stream):
            raise no_match(stream)
        yield from extend(
            store,
            new_objects(found, start.history, start=window[0], end=window[1]),
            stream=stream.name,
            fingerprint=paths,
            number=start.next_number,
            history=start.history,
            target_bytes=target_bytes,
            dress=dress,
        )

    return start.bookmark, segments()


def plan_again(
    tap: TapS3Files,
    stream: StreamSettings,
    changed: Changed,
    dress: Callable[[Segment], Segment],
    *,
    is_last: bool = False,
) -> Iterator[Segment]:
    """The segments of objects that changed under a run, and of those that are newer than all that it planned.

    Args:
        tap: Whose settings hold.
        stream: Which.
        changed: What could not be read.
        dress: Gives new segments their schema.
        is_last: Whether no further try follows: then there are none, and a later run reads what is newer.

    Raises:
        ObjectChangedError: No try is left, and a later run would not find what has changed.
    """
    settings, last = tap.settings, changed.last
    window = settings.window(stream)
    history = History(last.after, last.after)
    looks = is_last or settings.manifest is not None
    found = Listing(heads(tap.storage, changed.objects)) if looks else tap.listing(stream)
    again = changed.behind(found, window)
    newer = new_objects(found, history, start=window[0], end=window[1])
    if looks:
        for info in newer:
            if settings.keys_ascend:
                raise restless(info)
            logger.warning("%s has changed under this run; a later run reads its new version", info.url)
        newer = iter(())
    if is_last and again:
        raise restless(again[0])
    tell(again)
    return extend(
        changed.store,
        chain(again, newer),
        stream=stream.name,
        fingerprint=last.fingerprint,
        number=last.number + 1,
        history=history,
        target_bytes=last.target_bytes,
        dress=dress,
    )


def no_match(settings: StreamSettings) -> NotFoundError:
    """What is said where a stream has no object at all."""
    paths = ", ".join(str(p) for p in settings.paths)
    return NotFoundError(f"Stream {settings.name!r}: no object matches {paths}; check the path and its wildcards")
