"""BATCH files in Arrow IPC of other taps: the tables of the same rows by Parquet and by RECORD messages.

The files are those of `ArrowBatcher` of Meltano's SDK (meltano/sdk, commit cae6602 of 5 August 2026, not yet released):
`pa.Table.from_pylist` of each chunk in an IPC file, no compression, an encoding without a key but `format`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from singer_lines import Batches, Message, batch_of, counted, rows, schema, state, states
from warehouses import Warehouse

from singer_arrow.errors import DataError

Row = dict[str, Any]
TYPES: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": ["string", "null"]},
    "price": {"type": ["number", "null"], "multipleOf": 0.01},
    "share": {"type": ["number", "null"]},
    "count": {"type": ["number", "null"]},
    "yes": {"type": ["boolean", "null"]},
    "day": {"type": ["string", "null"], "format": "date"},
    "at": {"type": ["string", "null"], "format": "date-time"},
    "clock": {"type": ["string", "null"], "format": "time"},
    "place": {"type": ["object", "null"], "properties": {"x": {"type": ["integer", "null"]}}},
    "tags": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
}
SCHEMA: Message = {
    "type": "SCHEMA",
    "stream": "things",
    "schema": {"type": "object", "properties": TYPES},
    "key_properties": ["id"],
}
ROWS: list[Row] = [
    {
        **{"id": 1, "name": 'é "q"\n', "price": Decimal("12345.67"), "share": 0.1, "count": 2**53, "yes": True},
        **{"day": date(2024, 2, 29), "at": datetime(2024, 2, 29, 12, 0, 0, 1, UTC), "clock": time(1, 2, 3, 4)},
        **{"place": {"x": 1}, "tags": ["a", ""]},
    },
    {"id": 2, "name": "", "price": Decimal("-0.01"), "share": -1.5e300, "yes": False, "tags": []},
    {"id": 3},
]


def in_json(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value.isoformat()


def as_records() -> list[Message]:
    return [
        {"type": "RECORD", "stream": "things", "record": json.loads(json.dumps(row, default=in_json))} for row in ROWS
    ]


def as_batch(folder: Path, file_format: str, write: Callable[[pa.Table, Path], None]) -> list[Message]:
    """Return the BATCH messages of two files, as the SDK's batchers send them."""
    table = pa.Table.from_pylist([{name: row.get(name) for name in TYPES} for row in ROWS])
    messages = []
    for number, part in enumerate((table.slice(0, 2), table.slice(2))):
        path = folder / f"tap-x--things-1a2b={number + 1}.{file_format}"
        write(part, path)
        messages.append(batch_of(path.as_uri(), file_format, "things"))
    return messages


def write_file(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def write_stream(table: pa.Table, path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with path.open("wb") as file, pa.ipc.new_stream(file, table.schema, options=options) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
def test_the_table_is_that_of_parquet_and_of_records(method: str, warehouse: Warehouse, tmp_path: Path) -> None:
    ways = {
        "records": as_records(),
        "parquet": as_batch(tmp_path, "parquet", pq.write_table),
        "file": as_batch(tmp_path, "arrow", write_file),
    }
    (streams := tmp_path / "streams").mkdir()
    ways["stream"] = as_batch(streams, "arrow", write_stream)
    found = {}
    for name, messages in ways.items():
        other = f"{warehouse.schema}_{name}"
        try:
            root = {"batch_config": {"encoding": {"format": "jsonl"}, "storage": {"root": str(tmp_path)}}}
            warehouse.load([SCHEMA, *messages], load_method=method, default_target_schema=other, **root)
            found[name] = warehouse.contents(other)
        finally:
            warehouse.drop(other)
    assert found["file"] == found["stream"] == found["parquet"] == found["records"]
    assert len(found["file"]["things"][1]) == len(ROWS)


def test_a_file_with_other_rows_than_its_message_is_refused(
    warehouse: Warehouse, batch: Batches, capsys: pytest.CaptureFixture[str]
) -> None:
    message = batch(rows(0, 3), file_format="arrow", batch_id="a") | {"row_count": 4}
    with pytest.raises(DataError, match=r"1\.arrow: its BATCH message counts 4 rows, its files have 3"):
        warehouse.load([schema(), message, state(1)])
    assert states(capsys.readouterr().out) == []


def test_a_stream_without_an_end_mark_is_loaded_if_its_rows_are_counted(warehouse: Warehouse, batch: Batches) -> None:
    message = batch(rows(0, 3), file_format="arrow")
    path = Path(message["manifest"][0].removeprefix("file://"))
    with pa.ipc.open_file(str(path)) as source:
        table = source.read_all()
    write_stream(table, path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"1\.arrow: it is an Arrow stream without an end mark"):
        warehouse.load([schema(), message, state(1)])
    warehouse.load([schema(), message | counted("a", 3, path.stat().st_size), state(1)])
    assert [row["id"] for row in warehouse.table()] == [0, 1, 2]


def test_batches_are_loaded_once_and_removed(
    warehouse: Warehouse, batch: Batches, capsys: pytest.CaptureFixture[str]
) -> None:
    run = [schema(), *(batch(rows(2 * n, 2), file_format="arrow", batch_id=f"b{n}") for n in range(3)), state(1)]
    warehouse.load(run)
    folders = {str(Path(m["manifest"][0].removeprefix("file://")).parent) for m in run[1:4]}
    warehouse.load(run, clean_up_batch_files=True, manifest_roots=[*folders])
    assert [row["id"] for row in warehouse.table()] == list(range(6))
    assert states(capsys.readouterr().out) == [1, 1]
    assert not [file for folder in folders for file in Path(folder).glob("*.arrow")]


def test_files_outside_of_the_roots_are_refused(warehouse: Warehouse, batch: Batches) -> None:
    message = batch(rows(0, 2), file_format="arrow")
    with pytest.raises(DataError, match=r"1\.arrow' in the manifest of stream 'rows' is outside of manifest_roots"):
        warehouse.load([schema(), message], manifest_roots=["s3://elsewhere"])
