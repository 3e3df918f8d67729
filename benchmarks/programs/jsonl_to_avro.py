"""gzip JSONL batch files to one Avro file each, from reading to writing.

Usage: python -m benchmarks.programs.jsonl_to_avro ours|fastavro CODEC TARGET_FOLDER MESSAGES SOURCE...

MESSAGES is a file whose first line is the stream's SCHEMA message. `fastavro` is gzip, json.loads line by line, times
parsed by datetime.fromisoformat, and fastavro's writer.
"""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Convert the sources, one after the other."""
    who, codec, folder, messages, *sources = sys.argv[1:]
    with Path(messages).open() as file:
        schema = json.loads(file.readline())["schema"]
    convert = {"ours": _ours, "fastavro": _fastavro}[who]
    for number, source in enumerate(sources):
        convert(Path(source), schema, codec, Path(folder) / f"{number}.avro")


def _ours(source: Path, schema: dict[str, Any], codec: str, target: Path) -> None:
    from singer_arrow.batch.files import read_file
    from singer_arrow.formats import WRITABLE, WriteOptions
    from singer_arrow.schema.json_schema import from_json_schema
    from singer_arrow.storage.store import Storage

    arrow = from_json_schema(schema)
    batches = read_file(Storage(), source.absolute().as_uri(), format="jsonl", schema=arrow)
    avro = WRITABLE["avro"]
    avro.write(batches, arrow, target, WriteOptions(codec))


def _fastavro(source: Path, schema: dict[str, Any], codec: str, target: Path) -> None:
    import gzip
    from datetime import UTC, datetime

    import fastavro

    from benchmarks.programs.avro_schema import avro_schema
    from singer_arrow.schema.json_schema import from_json_schema

    times = [name for name, of in schema["properties"].items() if of.get("format") == "date-time"]

    def records() -> Any:
        with gzip.open(source) as file:
            for line in file:
                record = json.loads(line)
                for name in times:
                    record[name] = datetime.fromisoformat(record[name]).replace(tzinfo=UTC)
                yield record

    parsed = fastavro.parse_schema(avro_schema(from_json_schema(schema)))
    with target.open("wb") as file:
        fastavro.writer(file, parsed, records(), codec={"none": "null"}.get(codec, codec))


if __name__ == "__main__":
    main()
