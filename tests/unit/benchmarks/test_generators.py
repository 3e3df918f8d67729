"""Input data is reproducible, and has the shape that the cases require."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from benchmarks.generators import events, infinity, taxi
from benchmarks.generators.randoms import Randoms


def test_columns_depend_on_seed_and_name_alone() -> None:
    one, other = Randoms(1000, 7), Randoms(1000, 7)
    other.uniform("something else")

    assert one.uniform("a").equals(other.uniform("a"))
    assert not one.uniform("a").equals(one.uniform("b"))
    assert not one.uniform("a").equals(Randoms(1000, 8).uniform("a"))


def test_random_columns_have_their_ranges() -> None:
    at = Randoms(5000, 1)

    assert pc.min_max(at.integers("n", 10)).as_py() == {"min": 0, "max": 9}
    assert set(at.pick("p", pa.array(["x", "y"]), [9, 1]).to_pylist()) == {"x", "y"}
    assert abs(pc.mean(at.bell("b")).as_py()) < 0.1
    assert 300 < at.blank("none", at.uniform("u"), 0.1).null_count < 700
    uuids = at.uuids("id").to_pylist()
    assert len(set(uuids)) == 5000
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}", text) for text in uuids)


def test_trips_are_the_same_each_time_and_look_like_trips() -> None:
    trips = taxi.trips(3000, 2022)

    assert trips.equals(taxi.trips(3000, 2022))
    assert not trips.equals(taxi.trips(3000, 2023))
    assert trips.num_columns == 19
    assert trips.schema.field("VendorID").type == pa.int64()
    assert trips.schema.field("tpep_pickup_datetime").type == pa.timestamp("us")
    assert trips.schema.field("store_and_fwd_flag").type == pa.string()
    assert pc.all(pc.less_equal(trips["tpep_pickup_datetime"], trips["tpep_dropoff_datetime"])).as_py()
    zones = pc.min_max(trips["PULocationID"]).as_py()
    assert 1 <= zones["min"] < zones["max"] <= 265
    assert pc.all(pc.equal(pc.is_null(trips["passenger_count"]), pc.is_null(trips["airport_fee"]))).as_py()


def test_taxi_files(tmp_path: Path) -> None:
    taxi.write_parquet(tmp_path / "a.parquet", 2000, seed=1)
    taxi.write_csv(tmp_path / "a.csv", 200_000, seed=1)

    assert pq.read_metadata(tmp_path / "a.parquet").num_rows == 2000
    assert 200_000 <= (tmp_path / "a.csv").stat().st_size < 230_000
    read = pyarrow.csv.read_csv(tmp_path / "a.csv")
    assert read.column_names == taxi.trips(1, 1).column_names


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl.gz"])
def test_taxi_files_of_text_hold_the_rows_of_parquet(tmp_path: Path, kind: str) -> None:
    taxi.write_parquet(tmp_path / "trips.parquet", 500, seed=3, compression="zstd")
    path = tmp_path / f"trips.{kind}"
    taxi.write_text(path, 500, seed=3)

    rows = pq.read_table(tmp_path / "trips.parquet")
    content = gzip.decompress(path.read_bytes()) if kind.endswith(".gz") else path.read_bytes()
    if kind.startswith("csv"):
        options = pyarrow.csv.ConvertOptions(column_types=rows.schema, strings_can_be_null=True)
        found = pyarrow.csv.read_csv(pa.BufferReader(content), convert_options=options)
    else:
        found = pa.json.read_json(
            pa.BufferReader(content), parse_options=pa.json.ParseOptions(explicit_schema=rows.schema)
        )
    assert found.equals(rows)
    assert content.count(b"\n") == 500 + kind.startswith("csv")


def test_three_forms_of_the_same_rows(tmp_path: Path) -> None:
    infinity.write_parquet(tmp_path / "parquet", 30, seed=3)
    infinity.write_jsonl(tmp_path / "jsonl", 30, seed=3)
    infinity.write_records(tmp_path / "records", 30, seed=3)
    rows = pq.read_table(tmp_path / "parquet")
    assert rows.num_columns == 150
    assert rows.equals(infinity.rows(0, 30, 3))

    with gzip.open(tmp_path / "jsonl" / "000.jsonl.gz") as file:
        lines = [json.loads(line) for line in file]
    messages = [json.loads(line) for line in (tmp_path / "records").read_text().splitlines()]
    records = [message["record"] for message in messages if message["type"] == "RECORD"]
    names = [infinity.column_name(n) for n in range(6)]
    assert names == ["id", "rep_key", "Col_2_string", "Col_3_datetime", "Col_4_int", "Col_5_float"]
    for name in ("id", "Col_2_string", "Col_4_int", "Col_5_float"):
        assert [line[name] for line in lines] == [record[name] for record in records] == rows[name].to_pylist()
    assert re.fullmatch(r"2026-01-01 00:00:00\.\d{6}", lines[0]["Col_3_datetime"])
    assert re.fullmatch(r"2026-01-01T00:00:00\.\d{6}\+00:00", records[0]["Col_3_datetime"])
    assert [messages[0]["type"], messages[-1]["type"]] == ["SCHEMA", "STATE"]


def test_batch_messages_name_each_file(tmp_path: Path) -> None:
    urls = [(tmp_path / name).as_uri() for name in ("0.parquet", "1.parquet")]
    messages = [json.loads(line) for line in infinity.batch_messages(urls, "parquet", "zstd").splitlines()]

    assert [message["type"] for message in messages] == ["SCHEMA", "BATCH", "STATE", "BATCH", "STATE"]
    assert [message["manifest"] for message in messages if message["type"] == "BATCH"] == [[url] for url in urls]
    assert len(messages[0]["schema"]["properties"]) == 150


def test_events_are_the_same_each_time_and_of_the_size_that_was_measured_in_public(tmp_path: Path) -> None:
    tables = list(events.chunks(10_000, 3))
    events.write_json(tmp_path / "json", iter(tables))
    events.write_delimited(tmp_path / "delimited", iter(tables))
    raw, delimited = ((tmp_path / name).read_bytes() for name in ("json", "delimited"))

    assert tables[0].equals(events.events(0, 10_000, 3))
    assert {name: tables[0].schema.field(name).type for name in events.TYPES} == events.TYPES
    assert sum(column.null_count for column in tables[0].columns) == 0
    assert len(raw) / 10_000 == pytest.approx(519, rel=0.01)
    assert len(delimited) / 10_000 == pytest.approx(205, rel=0.01)
    assert len(raw) / len(gzip.compress(raw, 6)) == pytest.approx(28, rel=0.05)
    assert len(raw) / len(gzip.compress(delimited, 6)) == pytest.approx(33, rel=0.05)
    first, fields = json.loads(raw.splitlines()[0]), delimited.splitlines()[0].split(b"|")
    assert list(first) == list(events.TYPES) == list(events.schema()["properties"])
    assert [str(value) for value in first.values()][:7] == [field.decode() for field in fields][:7]
    assert all(line.count(b"|") == len(events.TYPES) - 1 for line in delimited.splitlines())
