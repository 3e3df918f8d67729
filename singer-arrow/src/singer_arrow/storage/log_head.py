"""Logs that are only appended to: their identity, their compaction."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

# What identifies a log that is only appended to: a file beside its entries, written before the first of them.
#
# <folder>/log-000000.json    the log whose first entry has the number 0
#
#     {"log": "5f0c...", "stream": "orders", "first": 0, "before": null, "follows": null}
#
# The id is random. Each entry of the log and each STATE of a run that followed it has the id: so a STATE of another
# log, an entry that was copied from elsewhere, and a log whose beginning was removed are noticed before anything is
# sent. The file with the highest number is that of the log in use; entries before it are of logs that it replaced on
# purpose.

_NAME = re.compile(r"log-(\d{6,})\.json")


@dataclass(frozen=True, slots=True)
class LogHead:
    """What identifies a log."""

    log: str
    stream: str
    first: int  # the number of its first entry
    before: Any = None
    """Where the stream was before the first entry, as in STATE; None: all that was ever sent is in the log."""
    follows: Mapping[str, Any] | None = None
    """The STATE from which the log was begun on purpose; a run with that STATE begins behind the `known` entries."""
    known: int | None = None
    """How many entries at its start hold what was read before the log began, and are never sent; None: no one knows."""
    continues: Mapping[str, str] | None = None
    """The log of the STATE `follows`, its last batch, and the place in it behind what was sent: `ContinuedLog`."""

    @classmethod
    def new(
        cls,
        stream: str,
        first: int,
        before: Any,
        *,
        follows: Any = None,
        known: int | None = None,
        continues: Mapping[str, str] | None = None,
    ) -> LogHead:
        """Return the head of a new log, with an id of its own."""
        return cls(secrets.token_hex(8), stream, first, before, follows, known, continues)

    def to_bytes(self) -> bytes:
        """Encode the head."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()


def head_name(first: int) -> str:
    """Return the name of the file of a head."""
    return f"log-{first:06d}.json"


def head_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the heads among file names, in order."""
    return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def read_head(storage: Storage, folder: Url, first: int, stream: str) -> LogHead:
    """Return a head; DataError if it is damaged, or of another stream."""
    url = folder.join(head_name(first))
    try:
        head = LogHead(**json.loads(bytes(storage.get(url).data)))
    except (AttributeError, TypeError, ValueError):
        hint = "Restore it, or begin a new log with --new-plan-log"
        raise DataError("it does not identify a log", url=url, hint=hint) from None
    if head.stream != stream:
        raise foreign_entry(url, head.stream, stream)
    return head


def write_head(storage: Storage, folder: Url, head: LogHead) -> LogHead:
    """Make a head durable, and return it, or the one that another run has written there before.

    A second write of it must be refused: otherwise two runs could give one number to two entries, and rows would be
    loaded twice. So a storage that replaces an object that exists is a ConfigError.
    """
    url, data = folder.join(head_name(head.first)), head.to_bytes()
    if storage.put(url, data, if_absent=True) and storage.put(url, data, if_absent=True):
        storage.delete([url])
        raise ConfigError(
            f"{url}: the storage ignores conditional writes (If-None-Match: *), by which two runs at once are kept "
            "apart; set plan_root to a place that has them, such as S3, Google Cloud Storage, Azure or a disk"
        )
    return read_head(storage, folder, head.first, head.stream)


def foreign_entry(url: Url, theirs: str, stream: str) -> DataError:
    """Return the error for a file of the log of another stream."""
    hint = "Move it back where it belongs, or set a plan_root of its own for each pipeline"
    return DataError(f"it is of stream {theirs!r}, and this is the log of {stream!r}", url=url, hint=hint)


# Which files of a log that is only appended to become one file. Pure.
#
# A log has an entry for each number. Entries are compacted into checkpoints of 16, these into checkpoints of 256 and so
# on, so that each is written anew only a few times, and a log of any length has few files. The same entries always make
# the same checkpoints. Until the files that a checkpoint replaces are removed, their entries are in the log twice;
# `newest_cover` takes each once.

FANOUT = 16
"""Files that are compacted into one checkpoint."""
MAX_BYTES = 32 << 20
"""Approximate size of a checkpoint, which is read whole."""


@dataclass(frozen=True, slots=True)
class CompactableFile:
    """A file of a log: the numbers of its first and last entry, and its size."""

    first: int
    last: int
    bytes: int

    @property
    def is_checkpoint(self) -> bool:
        """Whether it holds entries that were files of their own before."""
        return self.last > self.first


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
