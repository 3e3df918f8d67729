"""New objects by listing: those after the watermark and those that came late, within the window."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from singer_arrow.object_info import ObjectInfo
from singer_arrow.urls import Url
from tap_s3_files.history import History
from tap_s3_files.listing import Listing
from tap_s3_files.plan import in_window

logger = logging.getLogger("tap-s3-files")


def new_objects(
    listed: Listing, history: History, *, start: datetime | None, end: datetime | None
) -> Iterator[ObjectInfo]:
    """The objects to read, in order. One that is known in another version was overwritten, which is said."""
    known = {url for url, _ in history.planned}
    since = history.since.last_modified if history.until and history.since else None
    for info in listed.in_order(lambda o: in_window(o, start, end) and history.is_new(o), since=since):
        if str(info.url) in known:
            logger.warning("%s was overwritten since it was read; its new version is read too", info.url)
        yield info


def known_key(history: History) -> Url | None:
    """Where keys ascend with time: the key up to which a listing need not look again."""
    if history.until is None or history.since is None:
        return None
    if history.since.key:
        return Url.parse(history.since.key)
    older = [url for (url, _), at in history.planned.items() if at < history.since.last_modified]
    return Url.parse(max(older)) if older else None  # all that is known is recent, and late objects may come before it
