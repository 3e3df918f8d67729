"""A target whose warehouse is a list; a batch file named `bad` cannot be loaded. The tests run it as a process."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from singer_arrow.batch.message import Batch
from singer_arrow.errors import LoadError
from singer_arrow.load.scheduler import Limits
from singer_arrow.sdk.cli import run
from singer_arrow.sdk.sink import LoadSink
from singer_arrow.sdk.target import LoadTarget

SCHEMA = {"type": "SCHEMA", "stream": "s", "schema": {"properties": {"id": {"type": "integer"}}}, "key_properties": []}


def batch(url: str) -> dict[str, Any]:
    """A BATCH of one file."""
    return {"type": "BATCH", "stream": "s", "encoding": {"format": "jsonl"}, "manifest": [url]}


@dataclass(frozen=True)
class PreparedItem:
    """An item."""

    url: str
    bytes: int = 1


class Memory:
    """The load method."""

    ordered = False
    deferred = False

    def prepare(self, url: str) -> PreparedItem:
        """It is ready."""
        return PreparedItem(url)

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        """Load."""
        if any(part.url == "bad" for part in parts):
            msg = "The warehouse refused bad"
            raise LoadError(msg)

    def publish(self, staged: None) -> None:
        """Nothing is left to do."""

    def finish(self) -> None:
        """Nothing is left to do."""

    def removable_files(self, parts: Sequence[PreparedItem], staged: None) -> list[Any]:
        """Nothing is to be removed."""
        return []


class MemoryTable:
    """The table of a stream."""

    is_streamed = False

    def __init__(self, target: LoadTarget, record_schema: pa.Schema | None = None) -> None:
        self.target, self.method, self.record_schema = target, Memory(), record_schema

    def take_batch(self, batch: Batch) -> None:
        """Add it."""
        self.target.scheduler.add(self.method, batch.manifest[0], token=self.target.checkpoints.open())

    def take_records(self, path: Path | None, rows: int, *, token: int, **_: Any) -> None:
        """Add them."""
        self.target.scheduler.add(self.method, str(path), token=token)

    def activate_version(self, version: int) -> None:
        """Nothing is to be removed."""


class MemoryTarget(LoadTarget):
    """The target; groups are loaded after 0.1 seconds."""

    name = "memory-target"
    config_jsonschema = {"properties": {}}  # noqa: RUF012 - as the SDK has it

    def open_table(self, sink: LoadSink) -> MemoryTable:
        """A new one."""
        return MemoryTable(self)

    @property
    def limits(self) -> Limits:
        """Where loads end."""
        return Limits(age_seconds=0.1)


def command() -> list[str]:
    """What runs it."""
    return [sys.executable, __file__]


def lines(*messages: dict[str, Any]) -> str:
    """The messages as a tap writes them."""
    return "".join(json.dumps(m) + "\n" for m in messages)


if __name__ == "__main__":
    run(MemoryTarget.name, lambda: MemoryTarget.cli)
