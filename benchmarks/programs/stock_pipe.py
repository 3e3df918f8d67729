"""Both ends of a pipe of RECORD messages on the Singer SDK, from Parquet files to Parquet files, default or tuned.

The tap yields a dict for each row of its files, as the SDK's template does. The target gathers 10,000 records, which is
the SDK's default, and writes them as a row group through columns of pyarrow, which is the fastest way from dicts.
`tuned` is what the SDK offers for speed: messages read and written by msgspec (`singer_sdk.contrib.msgspec`), types of
records not conformed by the tap, `validate_records` off in the target's configuration.

Usage: python -m benchmarks.programs.stock_pipe tap|target default|tuned --config FILE
"""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from singer_sdk import Stream, Tap, Target
from singer_sdk import typing as th
from singer_sdk.contrib.msgspec import MsgSpecReader, MsgSpecWriter
from singer_sdk.helpers.conform import TypeConformanceLevel
from singer_sdk.sinks import BatchSink

MOMENT = pa.timestamp("us", "UTC")
TYPES = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}


class FilesStream(Stream):
    """The rows of Parquet files."""

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - the SDK's signature
        """Yield a dict for each row."""
        for path in self.config["files"]:
            for batch in pq.ParquetFile(path).iter_batches(10_000):
                yield from batch.to_pylist()


class StockTap(Tap):
    """The SDK's tap with the stream above."""

    name = "stock-tap"
    config_jsonschema = th.PropertiesList(
        th.Property("files", th.ArrayType(th.StringType), required=True),
        th.Property("stream", th.StringType, required=True),
        th.Property("schema", th.ObjectType(additional_properties=True), required=True),
    ).to_dict()

    def discover_streams(self) -> Sequence[Stream]:
        """One stream, with the schema of the configuration."""
        return [FilesStream(self, schema=self.config["schema"], name=self.config["stream"])]


class FilesSink(BatchSink):
    """Records to row groups of one Parquet file."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        properties = self.schema["properties"].items()
        self._schema = pa.schema([(name, _type(of)) for name, of in properties if not name.startswith("_sdc")])
        path = Path(self.config["out"]) / f"{self.stream_name}.parquet"
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd", compression_level=1)

    def process_batch(self, context: dict[str, Any]) -> None:
        """Write what was gathered."""
        columns = [_column([r.get(f.name) for r in context["records"]], f.type) for f in self._schema]
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def clean_up(self) -> None:
        """End the file."""
        self._writer.close()


class StockTarget(Target):
    """The SDK's target with the sink above."""

    name = "stock-target"
    config_jsonschema = th.PropertiesList(th.Property("out", th.StringType, required=True)).to_dict()
    default_sink_class = FilesSink


def _type(of: dict[str, Any]) -> pa.DataType:
    if of.get("format") == "date-time":
        return MOMENT
    return next(t for name, t in TYPES.items() if name in of["type"])


def _column(values: list[Any], t: pa.DataType) -> pa.Array:
    if t == pa.float64():  # the SDK reads numbers as Decimal
        return pa.array([None if value is None else float(value) for value in values], t)
    if t == MOMENT and any(isinstance(value, str) for value in values):
        return pa.array([value.isoformat() if isinstance(value, datetime) else value for value in values]).cast(t)
    return pa.array(values, t)


class TunedStream(FilesStream):
    """Records are JSON's already."""

    TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.NONE


class TunedTap(StockTap):
    """Messages written by msgspec."""

    message_writer_class = MsgSpecWriter

    def discover_streams(self) -> Sequence[Stream]:
        """See StockTap."""
        return [TunedStream(self, schema=self.config["schema"], name=self.config["stream"])]


class TunedTarget(StockTarget):
    """Messages read by msgspec."""

    message_reader_class = MsgSpecReader


PROGRAMS: dict[tuple[str, str], type[Tap] | type[Target]] = {
    ("tap", "default"): StockTap,
    ("tap", "tuned"): TunedTap,
    ("target", "default"): StockTarget,
    ("target", "tuned"): TunedTarget,
}

if __name__ == "__main__":
    role, mode = sys.argv[1:3]
    del sys.argv[1:3]
    PROGRAMS[role, mode].cli()
