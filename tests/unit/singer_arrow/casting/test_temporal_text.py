"""Invalid dates and times, or ones beyond Python's types: bad rows by policy, never other text."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_bytes import WRITERS

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.avro_container import read_blocks, read_header, repack
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress
from singer_arrow.schema.arrow_schema import json_field

DAY = 86_400


def times(unit: str) -> pa.Array:
    per_second = {"ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    values = [DAY // 2 * per_second, DAY * per_second, -1]
    if unit == "ms":
        return pa.array(values, pa.int32()).view(pa.time32("ms"))
    return pa.array(values, pa.int64()).view(pa.time64(unit))


def read(objects: Any, data: bytes, name: str, field: pa.Field, how: str) -> tuple[list[dict[str, Any]], ReadProgress]:
    schema = pa.schema([("id", pa.int64()), field, *([json_field(RESCUED)] if how == "rescue" else [])])
    progress = ReadProgress()
    batches = FORMATS[name[2:]].read(objects.reader(data, name), schema, ReadOptions(on_bad_row=how), progress)
    texts = [b.set_column(1, field.name, b.column(1).cast(pa.string())) for b in batches]
    return [row for batch in texts for row in batch.to_pylist()], progress


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("target", [None, pa.field("t", pa.string()), json_field("t")], ids=["time", "text", "json"])
def test_a_time_outside_the_day_is_a_bad_row(objects: Any, name: str, unit: str, target: pa.Field | None) -> None:
    data = WRITERS[name[2:]](pa.table({"id": [1, 2, 3], "t": times(unit)}))
    field = target or FORMATS[name[2:]].infer(objects.reader(data, name), ReadOptions(), sample_bytes=1).field("t")
    with pytest.raises(DataError, match=rf"{name}.*column 't': '24:00:00\.0+' is not a time of a day"):
        read(objects, data, name, field, "fail")
    rows, progress = read(objects, data, name, field, "skip")
    assert [r["id"] for r in rows] == [1]
    assert progress.skipped == 2
    rows, progress = read(objects, data, name, field, "rescue")
    assert [(r["id"], r["t"] is None) for r in rows] == [(1, False), (2, True), (3, True)]
    found = [json.loads(r[RESCUED])["t"] for r in rows[1:]]
    assert [f.rstrip("0")[:9] for f in found] == ["24:00:00.", "-00:00:00"]


def test_a_skipped_row_shows_its_time(objects: Any) -> None:
    data = WRITERS["parquet"](pa.table({"id": [2], "t": times("us")[1:2]}))
    progress = ReadProgress(on_skip=(skipped := []).append)
    schema = pa.schema([("id", pa.int64()), ("t", pa.time64("us"))])
    reading = FORMATS["parquet"].read(
        objects.reader(data, "a.parquet"), schema, ReadOptions(on_bad_row="skip"), progress
    )
    assert not [b for b in reading if b.num_rows]
    assert skipped[0].record == '{"id":2,"t":"24:00:00.000000"}'


def test_a_time_outside_the_day_within_a_list(objects: Any) -> None:
    lists = pa.ListArray.from_arrays([0, 1, 3], times("us"))
    data = WRITERS["parquet"](pa.table({"id": [1, 2], "t": lists}))
    schema = pa.schema([("id", pa.int64()), ("t", lists.type)])
    with pytest.raises(DataError, match=r"column 't': \[86400000000, -1\] is not"):
        list(FORMATS["parquet"].read(objects.reader(data, "a.parquet"), schema, ReadOptions()))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 2**31 - 1, -(2**31)], pa.int32()).view(pa.date32()),
        pa.array([0, 2**62, -(2**62)]).view(pa.timestamp("us", "UTC")),
        pa.ListArray.from_arrays([0, 1, 2, 3], pa.array([0, 2**62, -(2**62)]).view(pa.timestamp("us", "UTC"))),
    ],
    ids=["date", "timestamp", "list"],
)
@pytest.mark.parametrize("target", [pa.field("t", pa.string()), json_field("t")], ids=["text", "json"])
def test_a_date_that_has_no_text_is_a_bad_row_of_text(objects: Any, column: pa.Array, target: pa.Field) -> None:
    data = WRITERS["parquet"](pa.table({"id": [1, 2, 3], "t": column}))
    with pytest.raises(DataError, match=r"a\.parquet.*column 't': .*(2147483647|4611686018427387904).* is not text"):
        read(objects, data, "a.parquet", target, "fail")
    assert [r["id"] for r in read(objects, data, "a.parquet", target, "skip")[0]] == [1]
    rows, _ = read(objects, data, "a.parquet", target, "rescue")
    assert [r["t"] is None for r in rows] == [False, True, True]
    assert "out of range" not in str(rows)


def avro(columns: dict[str, tuple[Any, Any]], rows: list[dict[str, Any]]) -> bytes:
    """Return an Avro file whose columns have another stored type than logical type."""
    stored, marked = (
        {"type": "record", "name": "r", "fields": [{"name": n, "type": t[i]} for n, t in columns.items()]}
        for i in (0, 1)
    )
    fastavro.writer(out := io.BytesIO(), stored, rows)
    out.seek(0)
    header = read_header(out)
    return repack(header, list(read_blocks(out, header)), marked)


def logical(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "logicalType": name}


BAD_AVRO = {
    "time-millis": ("int", DAY * 1000, "24:00:00.000"),
    "time-micros": ("long", -1, "-00:00:00.000001"),
    "timestamp-millis": ("long", 2**62, r"4611686018427387904 \(timestamp\[ms, tz=UTC\]\)"),
}


@pytest.mark.parametrize("kind", BAD_AVRO)
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_a_bad_time_of_avro_is_one_row(objects: Any, kind: str, nested: bool) -> None:
    stored, bad, shown = BAD_AVRO[kind]
    columns: dict[str, tuple[Any, Any]] = {"id": ("long", "long"), "t": (stored, logical(stored, kind))}
    more: dict[str, Any] = {}
    if nested:
        columns["l"], more = ({"type": "array", "items": "long"},) * 2, {"l": [1]}
    data = avro(columns, [{"id": 1, "t": 0, **more}, {"id": 2, "t": bad, **more}])
    field = FORMATS["avro"].infer(objects.reader(data, "a.avro"), ReadOptions(), sample_bytes=1).field("t")
    with pytest.raises(DataError, match=rf"a\.avro.*column 't': '{shown}' is not a"):
        read(objects, data, "a.avro", field, "fail")
    assert [r["id"] for r in read(objects, data, "a.avro", field, "skip")[0]] == [1]


def test_dates_beyond_pythons_years_of_avro_arrive(objects: Any) -> None:
    columns: dict[str, tuple[Any, Any]] = {
        "id": ("long", "long"),
        "t": ("int", logical("int", "date")),
        "l": ({"type": "array", "items": "long"}, {"type": "array", "items": logical("long", "timestamp-micros")}),
    }
    data = avro(columns, [{"id": 1, "t": 3_000_000, "l": [300_000_000_000_000_000]}])
    schema = FORMATS["avro"].infer(objects.reader(data, "a.avro"), ReadOptions(), sample_bytes=1)
    (batch,) = FORMATS["avro"].read(objects.reader(data, "a.avro"), schema, ReadOptions())
    assert batch.column("t").cast(pa.string()).to_pylist() == ["10183-09-21"]
    assert batch.column("l").values.cast(pa.int64()).to_pylist() == [300_000_000_000_000_000]


def test_times_within_the_day_are_as_before(objects: Any) -> None:
    column = pa.array([0, DAY * 10**6 - 1, None], pa.int64()).view(pa.time64("us"))
    pq.write_table(pa.table({"id": [1, 2, 3], "t": column}), out := pa.BufferOutputStream())
    data = out.getvalue().to_pybytes()
    rows, _ = read(objects, data, "a.parquet", pa.field("t", pa.time64("us")), "fail")
    assert [r["t"] for r in rows] == ["00:00:00.000000", "23:59:59.999999", None]


def test_text_that_is_no_text_in_arrow_is_a_bad_row(objects: Any) -> None:
    data = WRITERS["arrow"](pa.table({"id": [1, 2], "t": ["good", "bad!"]})).replace(b"bad!", b"b\xffd!")
    assert [r["id"] for r in read(objects, data, "a.arrow", pa.field("t", pa.string()), "skip")[0]] == [1]
