"""Read the rows of BATCH messages as single records, for stream maps and flattening of the SDK."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from singer_sdk.singerlib.json import deserialize_json

from singer_arrow.batch.files import FileProperties
from singer_arrow.batch.message import Batch
from singer_arrow.read_options import Skipped
from singer_arrow.storage.store import Storage


def records_of(
    batch: Batch,
    schema: Mapping[str, Any],
    storage: Storage,
    temporary: Callable[[str], Path],
    *,
    on_skip: Collection[Callable[[str, Skipped], None]],
    properties: FileProperties,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as the records that RECORD messages would hold.

    `temporary` returns a name for a new file, by its suffix. `on_skip` are called with the file and each row that
    cannot be read; without any, the first one is an error.
    """
    from singer_arrow.batch.files import read_file
    from singer_arrow.formats import WRITABLE
    from singer_arrow.schema.json_schema import from_json_schema

    arrow = from_json_schema(schema)
    never_null = {
        k for k, p in schema["properties"].items() if isinstance(p, Mapping) and "null" not in p.get("type", "null")
    }
    for url in batch.manifest:
        path = temporary(".jsonl")

        def skip(skipped: Skipped, url: str = url) -> None:
            for call in on_skip:
                call(url, skipped)

        on_skip_of_file = skip if on_skip else None
        read = read_file(
            storage, url, format=batch.format, schema=arrow, on_skip=on_skip_of_file, properties=properties
        )
        WRITABLE["jsonl"].write(read, arrow, path, compression="none")
        with path.open("rb") as lines:
            for row in map(deserialize_json, lines):  # in a file, what a row lacks is null
                yield {k: v for k, v in row.items() if v is not None or k not in never_null}
        path.unlink()
