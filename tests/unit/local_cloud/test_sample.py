"""The sample data as objects of a bucket."""

import csv
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from local_cloud.seed import SampleObject, sample_objects

ROWS = {"flights": 336_776, "weather": 26_115, "planes": 3_322, "airports": 1_458, "airlines": 16}


@pytest.fixture(scope="module")
def objects() -> list[SampleObject]:
    return list(sample_objects())


def of_stream(objects: list[SampleObject], stream: str) -> list[SampleObject]:
    return [each for each in objects if each.stream == stream]


def test_all_rows_are_there(objects: list[SampleObject]) -> None:
    counted = {stream: sum(each.rows for each in of_stream(objects, stream)) for stream in ROWS}
    assert counted == ROWS
    assert len({each.key for each in objects}) == len(objects) == 365 + 12 + 4 + 1 + 1


def test_the_bytes_are_the_same_each_time(objects: list[SampleObject]) -> None:
    again = sample_objects()
    assert [next(again) for _ in range(20)] == objects[:20]


def test_flights_are_csv_by_day(objects: list[SampleObject]) -> None:
    first, *_, last = of_stream(objects, "flights")
    assert first.key == "flights/2013/01/flights-2013-01-01.csv.gz"
    assert last.key == "flights/2013/12/flights-2013-12-31.csv.gz"
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(first.data).decode())))
    assert len(rows) == first.rows == 842
    assert {(row["year"], row["month"], row["day"]) for row in rows} == {("2013", "1", "1")}
    assert any(row["dep_time"] == "" for row in rows)
    assert not any("NA" in row.values() for row in rows)


def test_weather_is_json_by_month(objects: list[SampleObject]) -> None:
    first, *_ = of_stream(objects, "weather")
    assert first.key == "weather/2013/weather-2013-01.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(first.data).splitlines()]
    assert len(rows) == first.rows
    assert rows[0]["wind_gust"] is None
    assert {type(row["temp"]) for row in rows} <= {float, type(None)}


def test_planes_are_parquet(objects: list[SampleObject]) -> None:
    planes = of_stream(objects, "planes")
    table = pa.concat_tables(pq.read_table(io.BytesIO(each.data)) for each in planes)
    assert len(planes) == 4
    assert table.num_rows == 3_322
    assert table.schema.field("year").type == pa.int32()
    assert table.schema.field("engines").type == pa.struct([("kind", pa.string()), ("count", pa.int32())])
    assert table["engines"][0].as_py() == {"count": 2, "kind": "Turbo-fan"}
    assert "engine" not in table.schema.names
    assert table["speed"].null_count > 3_000
    assert len(set(table["tailnum"].to_pylist())) == table.num_rows
