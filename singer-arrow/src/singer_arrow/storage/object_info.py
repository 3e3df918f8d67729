"""What is known of an object in a storage: which version of it, how long it is kept, and bytes of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from singer_arrow.storage.urls import Url


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing or an answer tells of an object: size in bytes, ETag, time of its last change in UTC."""

    url: Url
    size: int
    etag: str | None
    modified: datetime

    def same_version(self, other: ObjectInfo) -> bool:
        """Whether both are of one version of the object."""
        if self.etag and other.etag:
            return self.etag == other.etag
        return self.size == other.size and self.modified == other.modified


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long an object is worth keeping, in words that rules of buckets understand: it removes nothing itself.

    On S3 the object gets the tag `sdc-expires` with the days (`3d`); on Google Cloud Storage the day of its writing as
    its custom time, from which rules count.
    """

    days: int

    @property
    def tags(self) -> dict[str, str]:
        """The tag of S3."""
        return {"sdc-expires": f"{self.days}d"}


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes `start` to `start + len(data)` of an object. `data` supports the buffer protocol without a copy."""

    data: Any
    start: int
    info: ObjectInfo
