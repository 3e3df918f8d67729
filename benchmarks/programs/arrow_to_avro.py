"""Rows that are in memory as Arrow to an Avro file; prints the CPU seconds of that step alone as JSON.

Usage: python -m benchmarks.programs.arrow_to_avro ours|fastavro CODEC TARGET SOURCE...

SOURCE is Parquet, read before the clock starts.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.programs.avro_schema import avro_schema


def main() -> None:
    """Convert, and print `rows`, `to_rows_cpu_s` (making dicts, fastavro alone) and `convert_cpu_s` (the rest)."""
    who, codec, target, *sources = sys.argv[1:]
    table = pa.concat_tables(pq.read_table(source) for source in sources)
    found = {"ours": _ours, "fastavro": _fastavro}[who](table, codec, Path(target))
    print(json.dumps({"rows": table.num_rows, **found}))


def _ours(table: pa.Table, codec: str, target: Path) -> dict[str, float]:
    from singer_arrow.formats import WRITABLE, WriteOptions

    avro = WRITABLE["avro"]
    avro.write(table.slice(0, 1).to_batches(), table.schema, target, WriteOptions(codec))  # imports what it needs
    started = time.process_time()
    avro.write(table.to_batches(), table.schema, target, WriteOptions(codec))
    return {"convert_cpu_s": time.process_time() - started}


def _fastavro(table: pa.Table, codec: str, target: Path) -> dict[str, float]:
    import fastavro

    schema = fastavro.parse_schema(avro_schema(table.schema))
    to_rows = converting = 0.0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal to_rows
        for batch in table.to_batches(max_chunksize=10_000):
            started = time.process_time()
            rows = batch.to_pylist()
            to_rows += time.process_time() - started
            yield from rows

    started = time.process_time()
    with target.open("wb") as file:
        fastavro.writer(file, schema, records(), codec={"none": "null"}.get(codec, codec))
    converting = time.process_time() - started - to_rows
    return {"convert_cpu_s": converting, "to_rows_cpu_s": to_rows}


if __name__ == "__main__":
    main()
