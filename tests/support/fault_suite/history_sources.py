"""Sources of histories: objects of a bucket, or tables of a lake; what users do to them, and what there is then."""

from __future__ import annotations

import abc
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from lake_tables import DeltaBucket, IcebergBucket
from tap_source import TapBucket

from fault_suite.history_model import Version
from local_cloud import Cloud

STREAMS = ("small", "tall")
START = datetime(2024, 5, 1, 10, tzinfo=UTC)
BETWEEN, LATE = 1200, 200
"""Seconds between two uploads, and how late one may come."""
LARGE_BYTES = 23_500


class Source(abc.ABC):
    """Two streams, each with objects of several rows.

    Args:
        numbers: Numbers for versions, names and contents, which other sources may take from too.

    Attributes:
        objects: Of each stream the version of each object, by its name.
        seen: Of each stream and object the newest version that was there when a run looked.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self.objects: dict[str, dict[str, Version]] = {stream: {} for stream in STREAMS}
        self.seen: dict[str, dict[str, Version]] = {stream: {} for stream in STREAMS}
        self._numbers = numbers

    def new_number(self) -> int:
        """Return a number that was not given before."""
        return next(self._numbers)

    def there(self, stream: str) -> list[Version]:
        """Return the versions that are there now, in order."""
        return sorted(self.objects[stream].values(), key=lambda v: v.at)

    def see(self) -> None:
        """Note that a run has looked at all objects."""
        for stream, objects in self.objects.items():
            seen = self.seen[stream]
            seen |= {name: v for name, v in objects.items() if name not in seen or v.number > seen[name].number}

    def put(self, stream: str, name: str, content: str, *, late: int = 0, is_large: bool = False) -> None:
        """Upload an object; it is the version that a run has seen if that had the same content."""
        number = self.new_number()
        at, seen = number * BETWEEN - late, self.seen[stream].get(name)
        version = Version(number, name, content, at, is_large)
        if seen is not None and seen.content == content:
            version = seen
        self.objects[stream][name] = version
        self._write(stream, version, at)

    @abc.abstractmethod
    def stream(self, name: str) -> dict[str, Any]:
        """Return what the tap's settings have of a stream, beside its name."""

    @abc.abstractmethod
    def _write(self, stream: str, version: Version, at: int) -> None:
        """Write an object, which was last changed at a time."""


class Files(Source):
    """Objects below a prefix of a bucket."""

    def __init__(self, numbers: Iterator[int], bucket: TapBucket, prefix: str) -> None:
        super().__init__(numbers)
        self._bucket, self._prefix = bucket, prefix
        self._uploads = defaultdict[tuple[str, str], list[tuple[Version, int]]](list)

    def stream(self, name: str) -> dict[str, Any]:
        schema = {"id": "integer", "v": "string", "pad": "string"}
        return {"path": f"s3://{self._bucket.bucket}/{self._prefix}/{name}/*.jsonl", "schema": schema}

    def delete(self, stream: str, name: str) -> None:
        """Delete an object."""
        del self.objects[stream][name]
        self._uploads.pop((stream, name))
        self._bucket.s3.delete_object(Bucket=self._bucket.bucket, Key=self._key(stream, name))

    def roll_back(self, stream: str, name: str) -> None:
        """Remove the newest version of an object, so that the one before it is there again, as old as it is."""
        if len(uploads := self._uploads[stream, name]) < 2:
            return
        uploads.pop()
        version, at = uploads.pop()
        self.objects[stream][name] = version
        self._write(stream, version, at)

    def _key(self, stream: str, name: str) -> str:
        return f"{self._prefix}/{stream}/{name}.jsonl"

    def _write(self, stream: str, version: Version, at: int) -> None:
        self._uploads[stream, version.name].append((version, at))
        lines, chance = list[str](), random.Random(version.content)
        for key, text in version.rows:
            pad = chance.randbytes(LARGE_BYTES).hex() if version.is_large else ""
            lines.append(json.dumps({"id": key, "v": text, "pad": pad}) + "\n")
        self._bucket.put(self._key(stream, version.name), "".join(lines), at=START + timedelta(seconds=at))


class LakeTables(Source):
    """A table of Delta Lake and one of Iceberg; an object is what one commit adds, and never changes."""

    def __init__(self, numbers: Iterator[int], cloud: Cloud, bucket: str, prefix: str, folder: Path) -> None:
        super().__init__(numbers)
        folder.mkdir(parents=True)
        self._delta = DeltaBucket(cloud, bucket, f"{prefix}/delta")
        self._iceberg = IcebergBucket(cloud, bucket, folder, f"{prefix}/iceberg")

    def stream(self, name: str) -> dict[str, Any]:
        if name == "small":
            return {"path": self._delta.url, "format": "delta"}
        return {**self._iceberg.place, "format": "iceberg"}

    def compact(self, stream: str) -> None:
        """Write the rows of all files into one."""
        (self._delta if stream == "small" else self._iceberg).compact()

    def _write(self, stream: str, version: Version, at: int) -> None:
        ids, texts = zip(*version.rows, strict=True)
        rows = pa.table({"id": pa.array(ids, pa.int64()), "v": list(texts), "pad": [""] * len(ids)})
        if stream == "small":
            self._delta.write(rows)
        else:
            self._iceberg.append(rows)
