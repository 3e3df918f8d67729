"""Every type through `--discover`, `--catalog` and each kind of message, by real processes, as Meltano runs a tap."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import types as pt
from type_kinds import kinds
from type_texts import Written, deduced_from_csv, deduced_from_json, set_for_csv, set_for_json

from singer_arrow.batch.files import read_file
from singer_arrow.casting.from_json import RowReader
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.storage.store import Storage

STORAGE = Storage()
COLUMNS = {f"c{n}": kind for n, kind in enumerate(kinds())}
TEXTS: dict[str, tuple[str, Written]] = {
    f"{suffix}_{n}": (suffix, text)
    for suffix, texts in (
        ("csv", [*deduced_from_csv(), *set_for_csv()]),
        ("jsonl", [*deduced_from_json(), *set_for_json()]),
    )
    for n, text in enumerate(texts)
}
ENCODINGS: dict[str, dict[str, str] | None] = {
    "parquet": {"format": "parquet", "compression": "zstd"},
    "jsonl": {"format": "jsonl", "compression": "gzip"},
    "record": None,
}


def _padded(array: pa.Array, rows: int) -> pa.Array:
    return pa.concat_arrays([array, pa.nulls(rows - len(array), array.type)])


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return settings of a stream of all Arrow types, and of one for each text column."""
    folder = tmp_path_factory.mktemp("files")
    rows = max(len(kind.given) for kind in COLUMNS.values())
    table = pa.table({name: _padded(kind.given, rows) for name, kind in COLUMNS.items()})
    with pa.ipc.new_file(str(folder / "kinds.arrow"), table.schema) as writer:
        writer.write_table(table)
    streams: list[dict[str, Any]] = [{"name": "kinds", "path": str(folder / "kinds.arrow")}]
    for name, (suffix, text) in TEXTS.items():
        path = folder / f"{name}.{suffix}"
        path.write_bytes(getattr(text, suffix))
        types = {} if text.setting is None else {"schema": {"c": text.setting}}
        streams.append({"name": name, "path": str(path), "columns": ["c"], **types})
    return {"streams": streams, "metadata_columns": False}


@pytest.fixture(scope="module")
def catalog(config: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the catalog that discovery writes."""
    folder = tmp_path_factory.mktemp("catalog")
    (folder / "catalog.json").write_text(tap(folder, config, "--discover"))
    return folder / "catalog.json"


def tap(folder: Path, config: Mapping[str, Any], *options: str) -> str:
    """Return the tap's output."""
    (folder / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "tap_s3_files", "--config", str(folder / "config.json"), *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def expected(way: str) -> dict[str, dict[str, pa.Array]]:
    """Return the expected columns of each stream."""
    rows = max(len(kind.given) for kind in COLUMNS.values())
    of_kinds = {
        name: _padded(kind.expected if way == "parquet" or kind.in_json is None else kind.in_json, rows)
        for name, kind in COLUMNS.items()
    }
    return {"kinds": of_kinds, **{name: {"c": text.expected} for name, (_, text) in TEXTS.items()}}


def same(found: pa.Array, expected: pa.Array, *, is_json: bool) -> bool:
    """Whether all values are equal; JSON text by its value, all NaN being equal."""
    if pt.is_null(expected.type):  # discovery gives columns without a value the type text
        return bool(found.null_count == len(found))
    if is_json:
        found, expected = (_parsed(column) for column in (found, expected))
        return bool(found == expected)
    if any(word in str(found.type) for word in ("float", "double")):
        return repr(found.to_pylist()) == repr(expected.to_pylist())
    return bool(found.equals(expected))


def _parsed(column: pa.Array) -> list[Any]:
    return [None if v is None else json.loads(v, parse_float=Decimal) for v in column.to_pylist()]


def rows_of(messages: list[dict[str, Any]], lines: list[str], stream: str, schema: pa.Schema) -> pa.Table:
    batches = [m for m in messages if m["type"] == "BATCH" and m["stream"] == stream]
    if batches:
        (url,) = batches[0]["manifest"]
        file_format = batches[0]["encoding"]["format"]
        return pa.Table.from_batches(list(read_file(STORAGE, url, format=file_format, schema=schema)), schema)
    found = [line for m, line in zip(messages, lines, strict=True) if m["type"] == "RECORD" and m["stream"] == stream]
    columns = zip(*(RowReader(schema)(_record(line))[0] for line in found), strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def _record(line: str) -> bytes:
    start = line.index('"record":') + len('"record":')
    return line[start : line.rindex(',"time_extracted"')].encode()


@pytest.mark.parametrize("way", ENCODINGS)
def test_a_catalog_leaves_every_type_and_value_as_it_is(
    way: str, config: Mapping[str, Any], catalog: Path, tmp_path: Path
) -> None:
    encoding = ENCODINGS[way]
    batch = {"batch_config": {"encoding": encoding, "storage": {"root": f"file://{tmp_path}/out"}}} if encoding else {}
    lines = tap(tmp_path, {**config, **batch}, "--catalog", str(catalog)).split("\n")[:-1]
    messages = [json.loads(line) for line in lines]
    schemas = {m["stream"]: m["schema"] for m in messages if m["type"] == "SCHEMA"}
    discovered = {s["tap_stream_id"]: s["schema"] for s in json.loads(catalog.read_text())["streams"]}
    assert schemas == discovered
    for stream, columns in expected(way).items():
        schema = from_json_schema(schemas[stream])
        found = rows_of(messages, lines, stream, schema)
        for name, values in columns.items():
            array, is_json = found.column(name).combine_chunks(), bool(schema.field(name).metadata)
            assert same(array, values, is_json=is_json), (stream, name, schema.field(name))
