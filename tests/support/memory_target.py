"""Target with a list as warehouse; a batch file named `bad` fails to load. Tests run it as a process."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from singer_arrow.batch.message import Batch
from singer_arrow.errors import LoadError
from singer_arrow.load.method import Tally
from singer_arrow.load.run import Limits
from singer_arrow.sdk.cli import run_connector
from singer_arrow.sdk.target import WarehouseTarget
from singer_arrow.settings import json_schema
from singer_arrow.warehouse.run import RunContext, WarehouseRun
from singer_arrow.warehouse.settings import LoadSettings
from singer_arrow.warehouse.table import TableStream

SCHEMA = {"type": "SCHEMA", "stream": "s", "schema": {"properties": {"id": {"type": "integer"}}}, "key_properties": []}


def batch(name: str) -> dict[str, Any]:
    """Return a BATCH of one file."""
    return {"type": "BATCH", "stream": "s", "encoding": {"format": "jsonl"}, "manifest": [f"s3://b/{name}"]}


@dataclass(frozen=True)
class PreparedItem:
    """A prepared item."""

    url: str
    bytes: int = 1


class Memory:
    """Load method that loads into memory."""

    ordered = False
    merges = False
    deferred = False
    loads_each_file = False

    def __init__(self, stream: str, tally: Tally) -> None:
        self.context = SimpleNamespace(stream=stream, tally=tally)

    def prepare(self, url: str) -> PreparedItem:
        """Return the item unchanged."""
        return PreparedItem(url)

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        """Load the items."""
        if any(part.url == "s3://b/bad" for part in parts):
            msg = "The warehouse refused bad"
            raise LoadError(msg)

    def publish(self, staged: None) -> None:
        """Do nothing; all rows are loaded already."""

    def finish(self) -> None:
        """Do nothing; all rows are loaded already."""

    def warn_of_missing_rows(self) -> None:
        """Do nothing; no batch is left out."""

    def removable_files(self, parts: Sequence[PreparedItem], staged: None) -> list[Any]:
        """Return no files."""
        return []


class MemoryTable:
    """The table of a stream."""

    record_schema: pa.Schema | None = None

    def __init__(self, run: WarehouseRun[LoadSettings], stream: TableStream) -> None:
        self.run, self.method = run, Memory(stream.name, run.tallies.of(stream.name))

    def take_batch(self, batch: Batch) -> None:
        """Add a batch."""
        self.run.scheduler.add(self.method, batch.manifest[0])

    def take_records(self, path: Path | None, rows: int, *, token: int, **_: Any) -> None:
        """Add records."""
        self.run.scheduler.add(self.method, str(path), token=token)

    def activate_version(self, version: int) -> None:
        """Do nothing."""


class MemoryRun(WarehouseRun[LoadSettings]):
    """A run whose loads begin soon."""

    def __init__(self, settings: LoadSettings, context: RunContext) -> None:
        super().__init__(settings, context)
        self.limits = Limits(age_seconds=0.1)


class MemoryTarget(WarehouseTarget):
    """The target; each group takes 0.1 seconds to load."""

    name = "memory-target"
    config_jsonschema = json_schema(LoadSettings)
    table_class = MemoryTable  # type: ignore[assignment]  # all of a table that a sink uses
    run_class = MemoryRun


def command() -> list[str]:
    """Return the command line that runs the target."""
    return [sys.executable, __file__]


def lines(*messages: dict[str, Any]) -> str:
    """Return the messages as lines of a tap."""
    return "".join(json.dumps(m) + "\n" for m in messages)


if __name__ == "__main__":
    run_connector(MemoryTarget.name, lambda: MemoryTarget.cli)
