"""Objects whose time of change is chosen by who puts them, which the real S3 does not offer."""

from datetime import UTC, datetime
from typing import Any

METADATA = "local-cloud-modified"
"""The metadata of an object that holds its time of change, in ISO 8601 with an offset; a copy keeps it."""


def mend() -> None:
    """Let moto take the time of change from the metadata."""
    from moto.s3.models import FakeKey

    set_metadata = FakeKey.set_metadata

    def set_metadata_and_time(self: FakeKey, metadata: Any, replace: bool = False) -> None:
        set_metadata(self, metadata, replace)
        if chosen := self.metadata.get(f"x-amz-meta-{METADATA}"):
            self.last_modified = datetime.fromisoformat(chosen).astimezone(UTC).replace(tzinfo=None)

    FakeKey.set_metadata = set_metadata_and_time  # type: ignore[method-assign]
