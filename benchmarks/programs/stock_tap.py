"""A tap for files on S3 on the Singer SDK's defaults, as its template makes it: the peer of tap-s3-files.

`get_records` yields a dict for each row, which the SDK's Stream writes as RECORD messages. Objects are streamed:
Parquet by pyarrow, record batch by record batch; CSV by csv.DictReader, all columns text; JSON Lines by json.

Usage: python -m benchmarks.programs.stock_tap --config FILE

The configuration: `bucket`, `prefix`, `kind` (parquet, csv, csv.gz, jsonl.gz), `schema` (JSON Schema of the rows).
"""

import csv
import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs
from singer_sdk import Stream, Tap
from singer_sdk import typing as th


class Trips(Stream):
    """The rows of all objects below the prefix."""

    name = "trips"

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - the SDK's signature
        """Yield a dict for each row."""
        endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"])
        place = fs.S3FileSystem(endpoint_override=endpoint.netloc, scheme=endpoint.scheme)
        selector = fs.FileSelector(f"{self.config['bucket']}/{self.config['prefix']}")
        for found in place.get_file_info(selector):
            yield from _rows(place, found.path, self.config["kind"])


def _rows(place: fs.FileSystem, path: str, kind: str) -> Iterator[dict[str, Any]]:
    if kind == "parquet":
        import pyarrow.parquet as pq

        with place.open_input_file(path) as file:
            for batch in pq.ParquetFile(file, pre_buffer=True).iter_batches():
                yield from batch.to_pylist()
        return
    with place.open_input_stream(path, compression=None, buffer_size=8 << 20) as stream:
        raw: Any = gzip.GzipFile(fileobj=stream) if kind.endswith(".gz") else stream
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        yield from csv.DictReader(text) if kind.startswith("csv") else map(json.loads, text)


class StockTap(Tap):
    """The SDK's tap with the stream above; every setting is left at its default."""

    name = "stock-tap"
    config_jsonschema = th.PropertiesList(
        th.Property("bucket", th.StringType, required=True),
        th.Property("prefix", th.StringType, required=True),
        th.Property("kind", th.StringType, required=True),
        th.Property("schema", th.ObjectType(additional_properties=True), required=True),
    ).to_dict()

    def discover_streams(self) -> Iterable[Stream]:
        """One stream, with the schema of the configuration."""
        return [Trips(self, schema=self.config["schema"])]


if __name__ == "__main__":
    StockTap.cli()
