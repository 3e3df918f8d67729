"""Rows that `on_bad_row: dead_letter` drops: each has its place, wherever the reading began, and its text."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import file_bytes
import pyarrow as pa
import pytest

from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint, Skipped

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
COUNT = 4000
BAD = {3, 1500, 1501, 3999}
ROWS = [{"id": str(n), "n": "bad" if n in BAD else str(n)} for n in range(1, COUNT + 1)]
TABLE = pa.Table.from_pylist(ROWS)


def csv() -> bytes:
    return b"id,n\n" + b"".join(f"{r['id']},{r['n']}\n".encode() for r in ROWS)


FILES: dict[str, tuple[bytes, int, dict[str, Any]]] = {
    "a.csv": (csv(), 1, {"block_bytes": 4096}),
    "a.jsonl": (
        b"".join(
            json.dumps({"id": int(r["id"]), "n": r["n"] if r["n"] == "bad" else 1}).encode() + b"\n" for r in ROWS
        ),
        0,
        {"block_bytes": 4096},
    ),
    "a.parquet": (file_bytes.parquet(TABLE, row_group_size=1000), 0, {"batch_rows": 300}),
    "a.arrow": (file_bytes.ipc(TABLE, 1000), 0, {"batch_rows": 300}),
    "a.avro": (file_bytes.avro(TABLE, sync_interval=2000), 0, {"batch_rows": 300}),
    "a.orc": (file_bytes.orc(TABLE), 0, {"batch_rows": 300}),
}


def read(objects: Any, name: str, data: bytes, progress: ReadProgress, **options: Any) -> list[ResumePoint | None]:
    """Return the places after each batch."""
    kind = FORMATS["csv" if name.endswith("tar") else name.split(".")[1]]
    batches = kind.read(objects.reader(data, name), SCHEMA, ReadOptions(on_bad_row="dead_letter", **options), progress)
    return [progress.resume_point for _ in batches]


@pytest.mark.parametrize("name", FILES)
def test_a_row_has_its_place_wherever_the_reading_begins(
    name: str, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singer_arrow.formats.avro.GROUP_BYTES", 4000)
    data, before, options = FILES[name]
    whole, found = list[Skipped](), list[Skipped]()
    places = read(objects, name, data, ReadProgress(on_skip=whole.append), **options)
    assert [row.position - before for row in whole] == sorted(BAD)
    assert all(row.column == "n" and row.file is not None and row.file.endswith(name) for row in whole)
    assert [json.loads(row.record)["n"] for row in whole] == ["bad"] * 4
    assert [int(json.loads(row.record)["id"]) for row in whole] == sorted(BAD)
    middle = next(p for p in places[len(places) // 2 :] if p is not None)
    read(objects, name, data, ReadProgress(middle, on_skip=found.append), **options)
    assert found
    assert found == whole[-len(found) :]


def test_members_of_an_archive_count_their_own_rows(objects: Any) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in ("x.csv", "y.csv"):
            info, data = tarfile.TarInfo(name), b"id,n\n1,1\n2,b\n3\n"
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    found = list[Skipped]()
    read(objects, "a.tar", made.getvalue(), ReadProgress(on_skip=found.append))
    assert [(str(row.file)[-5:], row.position, json.loads(row.record)) for row in found] == [
        (name, position, record)
        for name in ("x.csv", "y.csv")
        for position, record in ((3, {"id": "2", "n": "b"}), (4, {"_raw": "3"}))
    ]
