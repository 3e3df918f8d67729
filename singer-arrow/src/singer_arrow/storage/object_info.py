"""Metadata and fetched bytes of objects: `ObjectInfo`, `Lifetime`, `Fetched`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from singer_arrow.storage.urls import Url


@dataclass(frozen=True, slots=True)
class ObjectInfo:
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
