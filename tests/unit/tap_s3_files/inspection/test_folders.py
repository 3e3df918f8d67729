"""Objects below a URL are divided into streams."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from singer_arrow.storage.urls import ObjectInfo, Url, glob_match
from tap_s3_files.init import Candidate, candidates, unique_names


def found(keys: Iterable[str], size: int = 10) -> tuple[list[Candidate], list[ObjectInfo]]:
    return candidates(ObjectInfo(Url("s3", "b", key), size, "e", datetime(2024, 1, 1, tzinfo=UTC)) for key in keys)


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        (["orders/a.csv", "orders/a.csv"], "s3://b/orders/*.csv"),
        (["orders/2024/01/a.csv.gz", "orders/2025/12/a.csv.gz"], "s3://b/orders/[0-9]*/[0-9]*/*.csv.gz"),
        (["ev/day=1/part-0.snappy.parquet", "ev/day=2/part-1.snappy.parquet"], "s3://b/ev/day=*/*.parquet"),
        (["a*b/[x]{y}/1.jsonl"], "s3://b/a[*]b/[[]x]{[y}/*.jsonl".replace("{[", "[{]")),
        (["top.avro"], "s3://b/*.avro"),
    ],
)
def test_folders_that_differ_in_dates_and_numbers_are_one_stream(keys: list[str], path: str) -> None:
    (candidate,), unknown = found(keys)
    assert (candidate.path, unknown, candidate.parts) == (path, [], ())
    pattern = Url.parse(path).key
    assert all(glob_match(pattern, key) for key in keys)


def test_folders_formats_and_compressions_are_streams_of_their_own() -> None:
    keys = ["orders/a.csv", "orders/archive/a.csv", "orders/b.parquet", "orders/c.csv.gz"]
    streams, _ = found(keys)
    assert [c.path for c in streams] == [
        "s3://b/orders/*.csv",
        "s3://b/orders/*.csv.gz",
        "s3://b/orders/*.parquet",
        "s3://b/orders/archive/*.csv",
    ]
    for key in keys:
        assert sum(glob_match(Url.parse(c.path).key, key) for c in streams) == 1
    assert unique_names(streams) == ["orders", "orders_2", "orders_parquet", "archive"]


def test_objects_of_other_names_may_be_streams_of_their_own() -> None:
    keys = ["x/orders_2024-01.csv", "x/orders_2024-02.csv", "x/orders.csv", "x/customers-1.csv"]
    (candidate,), _ = found(keys)
    paths = ["s3://b/x/orders_[0-9]*.csv", "s3://b/x/orders.csv", "s3://b/x/customers-[0-9]*.csv"]
    assert [part.path for part in candidate.parts] == paths
    for key in keys:
        assert sum(glob_match(Url.parse(path).key, key) for path in paths) == 1
    assert unique_names(candidate.parts) == ["orders", "orders_2", "customers"]
    (many,), _ = found(f"x/{chr(97 + n)}{chr(97 + n)}-1.csv" for n in range(21))
    assert many.parts == ()


def test_marks_and_empty_objects_belong_to_no_stream() -> None:
    assert found(["_SUCCESS", ".hidden.csv", "orders/_delta_log/0.json"]) == ([], [])
    assert found(["orders/a.csv"], size=0) == ([], [])
    streams, unknown = found(["a.xyz"])
    assert streams == []
    assert [str(o.url) for o in unknown] == ["s3://b/a.xyz"]
