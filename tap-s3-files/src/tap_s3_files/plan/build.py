"""The plan of a stream whose objects are listed: what earlier runs planned, then what is new."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from singer_arrow.errors import NotFoundError
from singer_arrow.storage.object_info import ObjectInfo
from tap_s3_files.listing.listing import Listing
from tap_s3_files.plan.log import PlanLog
from tap_s3_files.plan.model import Segment, in_window
from tap_s3_files.plan.stream_plan import StreamPlan
from tap_s3_files.run import TapRun
from tap_s3_files.settings import StreamSettings

logger = logging.getLogger("tap-s3-files")
TARGET_BYTES = 128 << 20
"""For segments that are planned without batch files."""


def plan_of(
    run: TapRun,
    stream: StreamSettings,
    log: PlanLog | None,
    target_bytes: int,
    *,
    settings: str = "",
    full_table: bool = False,
) -> StreamPlan:
    """Return the plan of a stream, from its STATE on.

    Args:
        run: The run of the tap.
        stream: The stream.
        log: Where its plan is kept, if it is.
        target_bytes: Size of the batch files of new segments.
        settings: Identifies the settings of rows.
        full_table: Send all objects that there are.
    """
    if full_table:  # every run sends every object, under ids of its own
        return StreamPlan(None, None, run.object_filter(stream), target_bytes)
    return StreamPlan(
        log,
        run.bookmark(stream.name),
        run.object_filter(stream),
        target_bytes,
        settings=settings,
        overlap=run.settings.overlap,
        from_queue=run.settings.sqs is not None,
    )


def listed_segments(run: TapRun, stream: StreamSettings, plan: StreamPlan) -> Iterator[Segment]:
    """Yield the segments of a stream whose objects are listed: those of earlier runs, then new ones.

    Raises:
        NotFoundError: It has no object at all.
    """
    yield from plan.unfinished_segments()
    since = plan.since
    begin = plan.last_key if run.settings.keys_ascend else None
    found = run.listing(stream, begin=begin)
    if not found and since is None and not plan.is_begun and not run.settings.is_backfill(stream):
        raise no_match(stream)
    for segment in plan.plan(_new_objects(found, plan, since), listed=found.began):
        yield from plan.queued_segments(before=segment.number)
        yield segment


def _new_objects(found: Listing, plan: StreamPlan, since: datetime | None) -> Iterator[ObjectInfo]:
    """Yield the listed objects that are not in the log, in order.

    Args:
        found: The listing.
        plan: Of the stream.
        since: None that is older is looked at.
    """
    start, end = plan.object_filter.window

    def is_new(info: ObjectInfo) -> bool:
        return in_window(info, start, end) and not plan.is_known(info)

    for info in found.in_order(is_new, since=since):
        if plan.has_other_version(info):
            logger.warning("%s was overwritten since it was read; its new version is read too", info.url)
        yield info


def no_match(settings: StreamSettings) -> NotFoundError:
    """Return the error for a stream that has no object at all."""
    paths = ", ".join(str(p) for p in settings.paths)
    return NotFoundError(f"Stream {settings.name!r}: no object matches {paths}; check the path and its wildcards")
