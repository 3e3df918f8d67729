"""Tables of a lake: the library that is missing, versions as keys, values of partition columns."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, FixedType, LongType, NestedField, UUIDType

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import IMMUTABLE, ObjectInfo, Url
from tap_s3_files.lake.delta import DeltaTable
from tap_s3_files.lake.iceberg import IcebergTable
from tap_s3_files.lake.table import TableSettings, TableVersion, is_version, partition_value, value_text

IDENTITY = UUID("00112233-4455-6677-8899-aabbccddeeff")
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


@pytest.mark.parametrize(
    ("value", "t", "expected"),
    [
        (b"\x00\xff", pa.binary(), b"\x00\xff"),
        (b"", pa.binary(), b""),
        (IDENTITY, pa.binary(), IDENTITY.bytes),
        (IDENTITY, pa.string(), str(IDENTITY)),
        ("\0b00", pa.string(), "\0b00"),
        (None, pa.binary(), None),
    ],
)
def test_bytes_and_uuids_pass_through_the_text_of_values(value: Any, t: pa.DataType, expected: object) -> None:
    assert partition_value(value_text(value), pa.field("p", t), URL) == expected


def test_binary_partitions_of_iceberg_keep_their_values(tmp_path: Path) -> None:
    """Files that were imported lack the columns of identity partitions: their values are in the manifest only."""
    catalog = load_catalog("t", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    kinds = [BinaryType(), FixedType(2), UUIDType()]
    fields = [NestedField(n, f"p{n}", kind, required=False) for n, kind in enumerate(kinds, 2)]
    spec = PartitionSpec(*(PartitionField(f.field_id, 1000 + f.field_id, IdentityTransform(), f.name) for f in fields))
    schema = Schema(NestedField(1, "id", LongType(), required=False), *fields)
    table = catalog.create_table("db.t", schema, location=f"file://{tmp_path}/t", partition_spec=spec)
    place = tmp_path / "t/1.parquet"
    own = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table({"id": [7]}, own), place)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=place.as_uri(),
            file_format=FileFormat.PARQUET,
            partition=Record(b"\x00\xff", b"ab", IDENTITY),
            record_count=1,
            file_size_in_bytes=place.stat().st_size,
        )
        file.spec_id = 0
        append.append_data_file(file)
    read = IcebergTable(Storage(), Url.parse(str(tmp_path / "t")), TableSettings())
    (found,) = read.files(None, read.version, ())
    values = [partition_value(found.values[f.name], f, URL) for f in read.schema if f.name != "id"]
    assert values == [b"\x00\xff", b"ab", IDENTITY.bytes]


def test_a_value_of_another_type_is_an_error() -> None:
    with pytest.raises(DataError, match="its partition value 'x' is no int64"):
        partition_value("x", pa.field("p", pa.int64()), URL)


def test_an_immutable_object_is_identified_by_its_size() -> None:
    planned = ObjectInfo(URL, 10, IMMUTABLE, AT)
    assert planned.same_version(ObjectInfo(URL, 10, '"e"', datetime(2025, 1, 1, tzinfo=UTC)))
    assert not planned.same_version(ObjectInfo(URL, 11, '"e"', AT))
