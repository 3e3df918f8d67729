"""A BigQuery target on the Singer SDK's defaults, as its template makes it: the peer of target-bigquery.

Its sink gathers 10,000 records (the SDK's default), writes them as Avro with fastavro, sends the file as a load job and
waits for it, which is how youcruit-target-bigquery works. BATCH files come through the SDK's own process_batch_files,
one load job for each. Rows are appended; there is no temporary table and no MERGE.

With `tuned`, messages are read by msgspec (`singer_sdk.contrib.msgspec`), which the SDK offers for speed; the other
setting for it, `validate_records: false`, is the configuration's.

Usage: python -m benchmarks.programs.stock_target [tuned] [--config FILE] < MESSAGES

It takes project, dataset and endpoint from TARGET_BIGQUERY_*.
"""

import os
import sys
import tempfile
from datetime import UTC, datetime
from typing import Any

import fastavro
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from singer_sdk import Target
from singer_sdk import typing as th
from singer_sdk.contrib.msgspec import MsgSpecReader
from singer_sdk.sinks import BatchSink

AVRO = {"integer": "long", "number": "double", "boolean": "boolean", "string": "string"}


class StockSink(BatchSink):
    """Records to Avro to a load job."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._client = bigquery.Client(
            project=os.environ["TARGET_BIGQUERY_PROJECT"],
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call] # google.auth types its API in part
            client_options=ClientOptions(api_endpoint=os.environ["TARGET_BIGQUERY_API_ENDPOINT"]),
        )
        self._dataset = os.environ["TARGET_BIGQUERY_DATASET"]
        properties = self.schema["properties"]
        self._times = [name for name, of in properties.items() if of.get("format") == "date-time"]
        self._numbers = [name for name, of in properties.items() if "number" in of["type"]]
        fields = [{"name": name, "type": ["null", _avro_type(of)]} for name, of in properties.items()]
        self._avro = fastavro.parse_schema({"type": "record", "name": self.stream_name, "fields": fields})

    def setup(self) -> None:
        """Create the dataset."""
        self._client.create_dataset(self._dataset, exists_ok=True)

    def process_batch(self, context: dict[str, Any]) -> None:
        """Convert and load what was gathered."""
        with tempfile.TemporaryFile() as file:
            fastavro.writer(file, self._avro, map(self._converted, context["records"]))
            file.seek(0)
            config = bigquery.LoadJobConfig(
                source_format=bigquery.SourceFormat.AVRO,
                use_avro_logical_types=True,
                write_disposition=bigquery.WriteDisposition.WRITE_APPEND,
            )
            table = f"{self._dataset}.{self.stream_name}"
            self._client.load_table_from_file(file, table, job_config=config).result()

    def _converted(self, record: dict[str, Any]) -> dict[str, Any]:
        for name in self._times:
            record[name] = _time(record.get(name))
        for name in self._numbers:
            if record.get(name) is not None:
                record[name] = float(record[name])  # the SDK reads numbers as Decimal
        return record


class StockTarget(Target):
    """The SDK's target with the sink above; every setting is left at its default."""

    name = "stock-target"
    config_jsonschema = th.PropertiesList().to_dict()
    default_sink_class = StockSink


class TunedTarget(StockTarget):
    """Messages read by msgspec."""

    message_reader_class = MsgSpecReader


def _avro_type(of: dict[str, Any]) -> Any:
    if of.get("format") == "date-time":
        return {"type": "long", "logicalType": "timestamp-micros"}
    return next(avro for name, avro in AVRO.items() if name in of["type"])


def _time(value: Any) -> datetime | None:
    if value is None:
        return None
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


if __name__ == "__main__":
    if sys.argv[1:2] == ["tuned"]:
        del sys.argv[1]
        TunedTarget.cli()
    else:
        StockTarget.cli()
