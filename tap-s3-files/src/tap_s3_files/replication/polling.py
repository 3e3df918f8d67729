"""New objects by listing: those after the watermark and those that came late, within the window."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from singer_arrow.storage import ObjectInfo
from tap_s3_files.history import History
from tap_s3_files.plan import in_order, in_window


def new_objects(
    listed: Iterable[ObjectInfo], history: History, *, start: datetime | None, end: datetime | None
) -> list[ObjectInfo]:
    """The objects to read, in order."""
    return in_order(o for o in listed if in_window(o, start, end) and history.is_new(o))
