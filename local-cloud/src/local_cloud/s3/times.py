"""Objects whose time of modification is chosen at upload, which the real S3 does not offer."""

from datetime import UTC, datetime
from typing import Any

METADATA = "local-cloud-modified"
"""The metadata key of an object's time of modification, in ISO 8601 with an offset. A copy keeps it."""


def patch() -> None:
    """Make moto take the time of modification from the metadata."""
    from moto.s3.models import FakeKey

    set_metadata = FakeKey.set_metadata

    def set_metadata_and_time(self: FakeKey, metadata: Any, replace: bool = False) -> None:
        set_metadata(self, metadata, replace)
        if chosen := self.metadata.get(f"x-amz-meta-{METADATA}"):
            self.last_modified = datetime.fromisoformat(chosen).astimezone(UTC).replace(tzinfo=None)

    FakeKey.set_metadata = set_metadata_and_time  # type: ignore[method-assign]
