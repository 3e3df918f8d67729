"""Which files of a plan log become one checkpoint, so that a log of any age has few files. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tap_s3_files.plan.log_files import LogFile

FANOUT = 16
"""Files that become one."""
MAX_BYTES = 32 << 20
"""Of a checkpoint, about: it is read whole."""


def compactions(files: Sequence[LogFile]) -> list[LogFile] | None:
    """Return the next files to become one checkpoint, in order; None if none are due.

    Segments are compacted in ranges of 16, these in ranges of 256 and so on, as long as the files are small, so that
    each segment is written anew only a few times. The same segments always make the same ranges.

    Args:
        files: Of the log, in order.
    """
    size = FANOUT
    while files and size // FANOUT <= files[-1].last:
        for number, found in groupby(files, key=lambda f: f.first // size):
            some = list(found)
            is_whole = some[-1].last == (number + 1) * size - 1 and (
                some[0].first == number * size or some[0] is files[0]
            )
            is_small = size == FANOUT or sum(f.bytes for f in some) <= MAX_BYTES
            if len(some) > 1 and is_whole and is_small:
                return some
        size *= FANOUT
    return None
