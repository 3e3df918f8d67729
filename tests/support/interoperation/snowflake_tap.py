"""Write messages as meltanolabs-tap-snowflake does for `encoding: {"format": "arrow"}`, without Snowflake.

SCHEMA and the batch files are made by the tap's own code. Only the tables that Snowflake's connector would fetch are
made here: with fractions as `double`, its default, and times in microseconds, as the tap asks for.

Usage, in the tap's environment: python snowflake_tap.py --config FILE
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from singer_sdk.helpers._batch import BatchConfig, SDKBatchMessage
from tap_snowflake.batch import SnowflakeArrowBatchWriter
from tap_snowflake.client import SnowflakeToJSONSchema
from things import THINGS

COLUMNS = {
    "id": (sa.DECIMAL(38, 0), pa.int64()),
    "name": (sa.VARCHAR(), pa.string()),
    "amount": (sa.DECIMAL(12, 2), pa.float64()),
    "big": (sa.DECIMAL(38, 0), pa.int64()),
    "score": (sa.FLOAT(), pa.float64()),
    "good": (sa.BOOLEAN(), pa.bool_()),
    "day": (sa.DATE(), pa.date32()),
    "at": (sa.TIMESTAMP(timezone=True), pa.timestamp("us", "UTC")),
    "note": (sa.VARCHAR(), pa.string()),
}
FETCHED = (5, 7)
"""Rows of each table that is fetched."""


def send(message: dict) -> None:
    """Write a message."""
    print(json.dumps(message))


def main() -> None:
    """Write all messages."""
    config = BatchConfig.from_dict(json.loads(Path(sys.argv[2]).read_text())["batch_config"])
    convert = SnowflakeToJSONSchema().to_jsonschema
    properties = {name: convert(kind) for name, (kind, _) in COLUMNS.items()}
    schema = {"type": "object", "properties": properties}
    send({"type": "SCHEMA", "stream": "things", "schema": schema, "key_properties": ["id"]})
    rows = [row | {"amount": float(row["amount"])} for row in THINGS]
    table = pa.Table.from_pylist(rows, pa.schema([(name, t) for name, (_, t) in COLUMNS.items()]))
    writer = SnowflakeArrowBatchWriter(stream_name="things", storage=config.storage, batch_size=8)
    start = 0
    for count in FETCHED:
        writer.write(table.slice(start, count))
        start += count
    writer.flush()
    send(SDKBatchMessage(stream="things", encoding=config.encoding, manifest=writer.files).to_dict())
    send({"type": "STATE", "value": {"done": True}})


if __name__ == "__main__":
    main()
