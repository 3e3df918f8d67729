"""Partition columns: values and types from folder names, without loss."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError
from singer_arrow.storage.urls import Url
from tap_s3_files.paths.partition_columns import Partitions

HIVE = Partitions(hive=True)


def url(key: str) -> Url:
    return Url("s3", "b", key)


def test_folders_are_columns_and_names_of_objects_are_not() -> None:
    assert HIVE.texts(url("in/year=2024/re%20gion=a%2Fb=c/x=1.csv")) == {"year": "2024", "re gion": "a/b=c"}
    assert HIVE.texts(url("in/a=__HIVE_DEFAULT_PARTITION__/b=/x.csv")) == {"a": None, "b": None}
    assert HIVE.texts(url("=1/plain/x.csv")) == {}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (["2024", "0", "-5"], pa.int64()),
        (["01", "02"], pa.string()),
        (["1", "01"], pa.string()),
        (["1", "x"], pa.string()),
        (["2024-05-01"], pa.date32()),
        (["2024-05-01", "7"], pa.string()),
        (["20240501"], pa.int64()),
        (["2024-13-01"], pa.string()),
        (["99999999999999999999"], pa.string()),
        (["", "5"], pa.int64()),
        ([""], pa.string()),
    ],
)
def test_types_lose_nothing(said: list[str], kind: pa.DataType) -> None:
    assert HIVE.infer(url(f"in/k={text}/x.csv") for text in said) == [pa.field("k", kind)]


def test_columns_of_all_objects_are_found_in_order() -> None:
    assert [f.name for f in HIVE.infer([url("a=1/b=2/x"), url("c=3/a=2/x"), url("x")])] == ["a", "b", "c"]


def test_values_are_of_the_types_of_the_schema() -> None:
    schema = pa.schema(
        [("a", pa.int64()), ("b", pa.string()), ("c", pa.date32()), ("d", pa.decimal128(5, 2)), ("e", pa.bool_())]
    )
    key = "a=07/b=07/c=2024-05-01/d=1.50/e=true/not_selected=1/x.csv"
    wanted = {"a": 7, "b": "07", "c": date(2024, 5, 1), "d": Decimal("1.50"), "e": True}
    assert HIVE.values(url(key), schema) == wanted
    assert HIVE.values(url("a=__HIVE_DEFAULT_PARTITION__/x"), schema) == {"a": None}


def test_a_value_of_another_type_is_told() -> None:
    with pytest.raises(DataError) as told:
        HIVE.values(url("year=next/x.csv"), pa.schema([("year", pa.int64())]))
    assert str(told.value).startswith("s3://b/year=next/x.csv, column 'year': its key has 'next', which is no int64")
