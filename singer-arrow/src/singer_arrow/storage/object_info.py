"""Metadata and fetched bytes of objects: `ObjectInfo`, `Lifetime`, `Fetched`, `VersionCache`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from singer_arrow.storage.urls import Url


class ObjectInfo(NamedTuple):
    """Metadata of an object version: size in bytes, ETag, and time of its last modification in UTC."""

    url: Url
    size: int
    etag: str | None
    modified: datetime

    def same_version(self, other: ObjectInfo) -> bool:
        """Return whether both describe the same version of the object."""
        if self.etag and other.etag:
            return self.etag == other.etag
        return self.size == other.size and self.modified == other.modified


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Days to keep an object, recorded for the lifecycle rules of its bucket, which remove it.

    On S3 the object gets the tag `sdc-expires` with the days (`3d`); on Google Cloud Storage the day of its writing is
    its custom time, from which rules count.
    """

    days: int

    @property
    def tags(self) -> dict[str, str]:
        """S3 tags."""
        return {"sdc-expires": f"{self.days}d"}


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes `start` to `start + len(data)` of an object. `data` supports the buffer protocol without a copy."""

    data: Any
    start: int
    info: ObjectInfo


LIMIT = 32 << 20
"""Approximate maximum of cached bytes."""


class VersionCache:
    """Cache of values derived from objects; a key identifies the kind of value and the object version. Thread-safe."""

    def __init__(self) -> None:
        self._size = 0
        self._entries: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, ...]) -> Any:
        """Return the cached value, or None."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: tuple[Any, ...], value: Any, size: int) -> None:
        """Add a value of about `size` bytes, evicting the least recently used; values above a quarter are ignored."""
        if size > LIMIT // 4:
            return
        with self._lock:
            self._size += size - self._entries.pop(key, (None, 0))[1]
            self._entries[key] = value, size
            while self._size > LIMIT:
                self._size -= self._entries.popitem(last=False)[1][1]
