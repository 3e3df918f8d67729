"""Tables of a lake: the library that is missing, versions as keys, values of partition columns."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import IMMUTABLE, ObjectInfo, Url
from tap_s3_files.lake.delta import DeltaTable
from tap_s3_files.lake.iceberg import IcebergTable
from tap_s3_files.lake.table import TableSettings, TableVersion, is_version, partition_value

URL, AT = Url("s3", "b", "t"), datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("kind", "extra"), [(DeltaTable, "delta"), (IcebergTable, "iceberg")])
def test_a_missing_library_is_named_with_its_extra(kind: Any, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, {"delta": "deltalake", "iceberg": "pyiceberg"}[extra], None)
    with pytest.raises(ConfigError, match=rf"pip install 'singer-arrow-tap-s3-files\[{extra}\]'"):
        kind(Storage(), URL, TableSettings())


def test_versions_are_keys() -> None:
    for version in (TableVersion("delta", "a-b", 7, AT), TableVersion("iceberg", "a-b", 1714, AT, 4711)):
        assert TableVersion.of(version.key, AT) == version
        assert is_version(version.key)
    assert TableVersion.of("s3://b/a.csv", AT) is None
    assert not is_version("s3://b/delta:a-b:00000000000000000007")


@pytest.mark.parametrize(
    ("text", "t", "value"),
    [
        ("1", pa.int16(), 1),
        ("nan", pa.float64(), "nan"),
        ("NaN", pa.float64(), "nan"),
        ("true", pa.bool_(), True),
        ("2024-01-01", pa.date32(), date(2024, 1, 1)),
        ("2024-01-01 00:00:00", pa.timestamp("us", "UTC"), AT),
        ("2024-01-01 00:00:00.000000Z", pa.timestamp("us", "UTC"), AT),
        ("2024-01-01T00:00:00+00:00", pa.timestamp("us", "UTC"), AT),
        ("1.20", pa.decimal128(10, 2), Decimal("1.20")),
        (" null ", pa.string(), " null "),
        ("ab", pa.binary(), b"ab"),
        (None, pa.int64(), None),
    ],
)
def test_partition_values_are_typed(text: str | None, t: pa.DataType, value: Any) -> None:
    found = partition_value(text, pa.field("p", t), URL)
    assert (str(found) if value == "nan" else found) == value


def test_a_value_of_another_type_is_an_error() -> None:
    with pytest.raises(DataError, match="its partition value 'x' is no int64"):
        partition_value("x", pa.field("p", pa.int64()), URL)


def test_an_immutable_object_is_identified_by_its_size() -> None:
    planned = ObjectInfo(URL, 10, IMMUTABLE, AT)
    assert planned.same_version(ObjectInfo(URL, 10, '"e"', datetime(2025, 1, 1, tzinfo=UTC)))
    assert not planned.same_version(ObjectInfo(URL, 11, '"e"', AT))
