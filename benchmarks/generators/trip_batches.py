"""Batch files of taxi trips, and the messages that name them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.generators import taxi

Message = dict[str, Any]
STREAM = taxi.STREAM
FILES = 20
SEED = 20


def write(folder: Path, rows: int) -> None:
    """`FILES` Parquet files, each of so many rows."""
    folder.mkdir()
    for number in range(FILES):
        taxi.write_parquet(folder / f"{number:03d}.parquet", rows, seed=SEED + number)


def schema() -> Message:
    """The SCHEMA, in the words of any tap."""
    kinds = {"VendorID": "integer", "PULocationID": "integer", "DOLocationID": "integer", "payment_type": "integer"}
    names = taxi.trips(1, 0).column_names
    properties: dict[str, Any] = {name: {"type": [kinds.get(name, "number"), "null"]} for name in names}
    properties["store_and_fwd_flag"] = {"type": ["string", "null"]}
    for name in ("tpep_pickup_datetime", "tpep_dropoff_datetime"):
        properties[name] = {"type": ["string", "null"], "format": "date-time"}
    described = {"type": "object", "properties": properties}
    return {"type": "SCHEMA", "stream": STREAM, "schema": described, "key_properties": []}


def batch(url: str, **counts: Any) -> Message:
    """The BATCH of one Parquet file; `counts` are those of a tap that gives ids."""
    encoding = {"format": "parquet", "compression": "zstd"}
    return {"type": "BATCH", "stream": STREAM, "encoding": encoding, "manifest": [url], **counts}


def messages(batches: Iterable[Message], *, states: bool = True) -> str:
    """The SCHEMA and the batches as a tap writes them, a STATE behind each or none."""
    lines = [schema()]
    for number, message in enumerate(batches, 1):
        lines.append(message)
        if states:
            lines.append({"type": "STATE", "value": {"bookmarks": {STREAM: {"done": number}}}})
    return "".join(json.dumps(line) + "\n" for line in lines)
