"""Tap of one stream of batches or records; as a program it sends a batch and then waits.

It imports only the library, so that it starts quickly.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import redirect_stdout
from typing import Any

import pyarrow as pa
from singer_sdk import Tap

from singer_arrow.batch.message import Batch
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.sdk import cli
from singer_arrow.sdk.tap import ArrowStream, ArrowTap, Encode, Encoded

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": ["integer", "null"], "x-arrow-type": "int32"}, "name": {"type": ["string", "null"]}},
}
BATCH = Batch("things", "parquet", ("file:///tmp/1.parquet",), "zstd", batch_id="abc", row_count=3, byte_count=9)


class Things(ArrowStream):
    """The stream."""

    name = "things"
    fails = False

    def __init__(self, tap: Tap) -> None:
        super().__init__(tap, schema=SCHEMA)
        self.forced_replication_method = "INCREMENTAL"

    def batch_encoding(self) -> tuple[str, str, str] | None:
        """Return the batch encoding, if the setting asks for batches."""
        return ("parquet", "zstd", "file:///tmp") if self.config.get("batches") else None

    def batches(self) -> Generator[Batch | Mapping[str, Any]]:
        """Yield two batches, then a bookmark."""
        yield BATCH
        if self.fails:
            raise DataError("broken", url="s3://b/x")
        yield BATCH
        yield {"done": 1}

    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        """Yield three records, each followed by a STATE."""
        for number in range(3):
            yield from encode(pa.RecordBatch.from_pylist([{"id": number, "name": "n"}]))
            self.write_state({"done": number})


class TapThings(ArrowTap):
    """The tap."""

    name = "tap-things"
    config_jsonschema = {"type": "object", "properties": {"batches": {"type": "boolean"}, "n": {"type": "integer"}}}  # noqa: RUF012 - as the SDK declares it

    def start_state(self, stream: str) -> dict[str, Any]:
        """Return an entry of no number."""
        return {"done": -1}

    def check_settings(self) -> None:
        """Refuse the number 13."""
        if self.config.get("n") == 13:
            raise ConfigError("Setting 'n' must not be 13")

    def discover_streams(self) -> list[Things]:
        """Return the one stream."""
        return [Things(self)]


def sync(
    config: dict[str, Any], *, state: dict[str, Any] | None = None, catalog: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Run the tap in this process, and return its messages."""
    out = io.StringIO()
    with redirect_stdout(out):
        TapThings(config=config, state=state, catalog=catalog).sync_all()
    return [json.loads(line) for line in out.getvalue().splitlines()]


class Slow(Things):
    """A stream of one batch, followed by a wait of one minute."""

    def batches(self) -> Generator[Batch | Mapping[str, Any]]:
        """Yield one batch, then wait."""
        yield BATCH
        time.sleep(60)


class TapSlow(TapThings):
    """A tap with the stream `Slow`."""

    def discover_streams(self) -> list[Things]:
        """Return the one stream."""
        return [Slow(self)]


def command() -> list[str]:
    """Return the command line that runs the slow tap."""
    return [sys.executable, __file__]


if __name__ == "__main__":
    cli.run_connector(TapSlow.name, lambda: TapSlow(config={"batches": True}).sync_all)
