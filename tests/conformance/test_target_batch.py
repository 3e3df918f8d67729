"""BATCH variants of the SDK's target streams: the same rows in batch files make the same table.

The variant of a stream has its RECORD messages gathered into batch files, at their places in the order: gzip JSON Lines
as the SDK's encoder writes them, or Parquet or Arrow as tap-s3-files does.
"""

from __future__ import annotations

import gzip
import importlib.resources
import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from singer_sdk.exceptions import MissingKeyPropertiesError, RecordsWithoutSchemaException
from singer_sdk.testing import target_test_streams
from warehouses import Warehouse

from singer_arrow.batch.files import read_file
from singer_arrow.errors import DataError, SchemaError
from singer_arrow.formats import WRITABLE
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.storage.store import Storage

STREAMS = sorted(p.name for p in importlib.resources.files(target_test_streams).iterdir() if p.name.endswith(".singer"))
REFUSED: dict[str, tuple[type[Exception], ...]] = {
    "invalid_schema.singer": (SchemaError,),
    "record_before_schema.singer": (RecordsWithoutSchemaException,),
    "record_missing_key_property.singer": (MissingKeyPropertiesError, DataError),
}
"""Streams that every target refuses, and the errors for records and for batches."""

STRICTER = {"record_missing_required_property.singer": "the SDK checks `required` record by record, but not in batches"}
"""Streams whose variant gives another result, and why."""
TWINS: dict[str, dict[str, list[tuple[str, str]]]] = {
    "bigquery": {
        "append-only": [("jsonl", "disk"), ("parquet", "disk")],
        "upsert": [("parquet", "disk")],
        "overwrite": [("arrow", "disk")],
    },
    "redshift": {
        "append-only": [("jsonl", "disk"), ("parquet", "s3"), ("arrow", "disk")],
        "upsert": [("jsonl", "s3")],
        "overwrite": [("arrow", "s3")],
    },
}
"""Load methods of each target, with the formats and places of the variants that each loads: every pair of a warehouse
and a format, of a warehouse and a method."""

KEYLESS = {
    name: {"load_method": "append-only"}
    for name in ("test_no_p*", "test_object_schema_*", "example_s*", "*_missing_required_*")
}
"""Settings of the SDK's streams without keys, which an upsert refuses."""


def messages(name: str) -> list[dict[str, Any]]:
    """Return the messages of an SDK stream."""
    text = (importlib.resources.files(target_test_streams) / name).read_text()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


class Files:
    """Writes the batch files of variants: on disk, or on S3 as tap-s3-files does.

    Args:
        file_format: `jsonl`, `parquet` or `arrow`.
        folder: The folder for the files.
        put: Puts a file on S3 and returns its URL; without it the files stay on disk.
    """

    def __init__(self, file_format: str, folder: Path, put: Callable[[Path], str] | None = None) -> None:
        self._format, self._folder, self._put = file_format, folder, put

    def batch(self, stream: str, records: list[dict[str, Any]], schema: dict[str, Any] | None) -> dict[str, Any]:
        """Return the BATCH message of one new file."""
        path = self._folder / f"{uuid.uuid4().hex}.jsonl.gz"
        path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in records).encode()))
        encoding = {"format": "jsonl", "compression": "gzip"}
        if schema is not None and (self._format != "jsonl" or self._put):
            path = self._written(path, from_json_schema(schema))
            encoding = encoding if self._format == "jsonl" else {"format": self._format}
        message = {"type": "BATCH", "stream": stream, "encoding": encoding, "manifest": [path.as_uri()]}
        if not self._put:
            return message
        ours = {"batch_id": path.stem, "row_count": len(records), "byte_count": path.stat().st_size}
        return message | ours | {"manifest": [self._put(path)]}

    def _written(self, path: Path, schema: Any) -> Path:
        """Return the rows as the tap writes them."""
        target = path.with_name(f"ours-{path.name.partition('.')[0]}.{FILE_NAMES[self._format]}")
        rows = read_file(Storage(), str(path), format="jsonl", schema=schema)
        WRITABLE[self._format].write(rows, schema, target)
        return target


FILE_NAMES = {"jsonl": "jsonl.gz", "parquet": "parquet", "arrow": "arrow"}


def twin(name: str, files: Files) -> Iterator[dict[str, Any]]:
    """Return the messages with batches in place of records."""
    schemas: dict[str, Any] = {}
    for (kind, stream), group in itertools.groupby(messages(name), key=lambda m: (m["type"], m.get("stream"))):
        if kind == "RECORD":
            yield files.batch(stream, [m["record"] for m in group], schemas.get(stream))
            continue
        for message in group:
            if kind == "SCHEMA":
                schemas[stream] = message["schema"]
            yield message


@pytest.fixture
def place(s3: Any, bucket: str) -> dict[str, Callable[[Path], str] | None]:
    """Return the function that puts a file at a place."""

    def put(path: Path) -> str:
        s3.upload_file(str(path), bucket, path.name)
        return f"s3://{bucket}/{path.name}"

    return {"disk": None, "s3": put}


CASES = [(warehouse, method) for warehouse, methods in TWINS.items() for method in methods]


@pytest.mark.parametrize(("warehouse", "method"), CASES, indirect=["warehouse"])
@pytest.mark.parametrize("name", [s for s in STREAMS if s not in REFUSED and s not in STRICTER])
def test_twin(
    name: str, method: str, warehouse: Warehouse, place: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"load_method": method, "streams": KEYLESS if method == "upsert" else {}}
    warehouse.load(messages(name), **settings)
    states = capsys.readouterr().out.splitlines()
    expected = warehouse.contents()
    assert expected
    for file_format, where in TWINS[warehouse.name][method]:
        other = f"{warehouse.schema}_{file_format}_{where}"
        try:
            lines = twin(name, Files(file_format, tmp_path, place[where]))
            warehouse.load(lines, **settings, default_target_schema=other)
            assert warehouse.contents(other) == expected
            assert capsys.readouterr().out.splitlines()[-1:] == states[-1:]
        finally:
            warehouse.drop(other)


@pytest.mark.parametrize("file_format", ["jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(
    name: str, file_format: str, warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for lines in (twin(name, Files(file_format, tmp_path)), messages(name)):
        with pytest.raises(REFUSED[name]):
            warehouse.load(lines, load_method="upsert")
        assert capsys.readouterr().out == ""
