"""Which files of a log that is only appended to become one file. Pure.

A log has an entry for each number. Entries are compacted into checkpoints of 16, these into checkpoints of 256 and so
on, so that each is written anew only a few times, and a log of any length has few files. The same entries always make
the same checkpoints. Until the files that a checkpoint replaces are removed, their entries are in the log twice;
`newest_cover` takes each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol, TypeVar

FANOUT = 16
"""Files that are compacted into one checkpoint."""
MAX_BYTES = 32 << 20
"""Approximate size of a checkpoint, which is read whole."""


class CompactableFile(Protocol):
    """A file of a log: the numbers of its first and last entry, and its size."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def is_checkpoint(self) -> bool:
        """Whether it holds entries that were files of their own before."""
        ...


_File = TypeVar("_File", bound=CompactableFile)


def newest_cover(files: Iterable[_File]) -> list[_File]:
    """Return the files that hold each entry once, in order: the largest checkpoints, then entries."""
    found: list[_File] = []
    for file in sorted(files, key=lambda f: (f.first, -f.last, not f.is_checkpoint)):
        if not found or file.first > found[-1].last:
            found.append(file)
    return found


def compactions(files: Sequence[_File]) -> list[_File] | None:
    """Return the next files, of the log in order, to become one checkpoint; None if none are due."""
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
