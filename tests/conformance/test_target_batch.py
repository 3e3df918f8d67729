"""The BATCH twin of each of the SDK's target streams: the same rows in batch files make the same table.

The twin of a stream has its RECORD messages gathered into batch files, in the places where they stood: gzip JSON Lines
as the SDK's encoder writes them, or Parquet as tap-s3-files does.
"""

from __future__ import annotations

import gzip
import importlib.resources
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from singer_sdk.exceptions import MissingKeyPropertiesError, RecordsWithoutSchemaException
from singer_sdk.testing import target_test_streams

from local_cloud import Cloud
from singer_arrow.batch.decode import read_file
from singer_arrow.errors import DataError, SchemaError
from singer_arrow.formats import WRITABLE
from singer_arrow.schema import from_json_schema
from singer_arrow.storage import Storage
from target_bigquery.target import TargetBigQuery

STREAMS = sorted(p.name for p in importlib.resources.files(target_test_streams).iterdir() if p.name.endswith(".singer"))
REFUSED: dict[str, tuple[type[Exception], ...]] = {
    "invalid_schema.singer": (SchemaError,),
    "record_before_schema.singer": (RecordsWithoutSchemaException,),
    "record_missing_key_property.singer": (MissingKeyPropertiesError, DataError),
}
"""Streams that no target may take, and the errors that say why, for records and for batches."""

STRICTER = {"record_missing_required_property.singer": "the SDK checks `required` record by record, nobody in batches"}
"""Streams whose twin differs, and why."""
FORMATS = {"append-only": ("jsonl", "parquet"), "upsert": ("parquet",), "overwrite": ("jsonl",)}
"""Load methods, and the formats of the twins that are loaded with each."""


def messages(name: str) -> list[dict[str, Any]]:
    """The messages of a stream of the SDK."""
    text = (importlib.resources.files(target_test_streams) / name).read_text()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def twin(name: str, file_format: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The messages with batches in the place of records."""
    schemas: dict[str, Any] = {}
    numbers = itertools.count()
    for (kind, stream), group in itertools.groupby(messages(name), key=lambda m: (m["type"], m.get("stream"))):
        if kind != "RECORD":
            for message in group:
                if kind == "SCHEMA":
                    schemas[stream] = message["schema"]
                yield message
            continue
        path = folder / f"{next(numbers)}.jsonl.gz"
        path.write_bytes(gzip.compress("".join(json.dumps(m["record"]) + "\n" for m in group).encode()))
        encoding = {"format": "jsonl", "compression": "gzip"}
        if file_format == "parquet" and stream in schemas:
            path, encoding = as_parquet(path, schemas[stream]), {"format": "parquet"}
        yield {"type": "BATCH", "stream": stream, "encoding": encoding, "manifest": [path.as_uri()]}


def as_parquet(path: Path, schema: dict[str, Any]) -> Path:
    arrow = from_json_schema(schema)
    target = path.with_suffix(".parquet")
    WRITABLE["parquet"].write(read_file(Storage(), str(path), format="jsonl", schema=arrow), arrow, target)
    return target


def load(lines: Iterable[dict[str, Any]], config: dict[str, Any]) -> None:
    """Run the target in this process."""
    target = TargetBigQuery(config=dict(config))
    try:
        target.process_lines(io.StringIO("".join(json.dumps(m) + "\n" for m in lines)))
        target.process_endofpipe()
    finally:
        target.abandon()
        target.close()


@pytest.fixture
def config(cloud: Cloud, dataset: str) -> dict[str, Any]:
    """Settings for the local BigQuery."""
    env = cloud.environ()
    return {
        "project": env["TARGET_BIGQUERY_PROJECT"],
        "dataset": dataset,
        "api_endpoint": env["TARGET_BIGQUERY_API_ENDPOINT"],
    }


def contents(bq: Any, dataset: str) -> dict[str, Any]:
    """Columns and rows of all tables of a dataset."""
    tables = {}
    for item in bq.list_tables(dataset):
        if item.table_id == "_sdc_batches":
            continue
        table = bq.get_table(item.reference)
        rows = sorted(json.dumps(dict(r), default=str, sort_keys=True) for r in bq.list_rows(table))
        tables[item.table_id] = ([f.to_api_repr() for f in table.schema], rows)
    return tables


@pytest.mark.parametrize("method", FORMATS)
@pytest.mark.parametrize("name", [s for s in STREAMS if s not in REFUSED and s not in STRICTER])
def test_twin(
    name: str, method: str, config: dict[str, Any], bq: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config["load_method"] = method
    load(messages(name), config)
    states = capsys.readouterr().out.splitlines()
    expected = contents(bq, config["dataset"])
    assert expected
    for file_format in FORMATS[method]:
        other = f"{config['dataset']}_{file_format}"
        try:
            load(twin(name, file_format, tmp_path), config | {"dataset": other})
            assert contents(bq, other) == expected
            assert capsys.readouterr().out.splitlines()[-1:] == states[-1:]
        finally:
            bq.delete_dataset(other, delete_contents=True, not_found_ok=True)


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(
    name: str, file_format: str, config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config["load_method"] = "upsert"
    for lines in (twin(name, file_format, tmp_path), messages(name)):
        with pytest.raises(REFUSED[name]):
            load(lines, config)
        assert capsys.readouterr().out == ""
