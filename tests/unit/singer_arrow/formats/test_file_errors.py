"""Unreadable files give a one-line error with the file's name, from any layer."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import WRITERS

from singer_arrow.errors import DataError, DriftError, FatalError, SchemaError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.base import naming_file
from singer_arrow.read_options import ReadOptions

TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
TWICE_WITHIN = pa.table({"s": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])})
UNION = pa.table(
    {"u": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])])}
)
MONTHS = pa.table({"m": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
NAMED = pa.table({"XXYYZZ": [1, 2], "b": ["x", "y"]})


def without_utf8(kind: str) -> bytes:
    options = {"store_schema": False} if kind == "parquet" else {}
    return WRITERS[kind](NAMED, **options).replace(b"XXYYZZ", b"XX\xff\xfeZZ")


def without_struct(root: bytes) -> bytes:
    """Return an ORC file whose rows are not a struct."""
    data = WRITERS["orc"](pa.table({"a": [1, 2]}), compression="uncompressed")
    at = data.rindex(b"\x08\x0c")
    return data[:at] + b"\x08" + root + data[at + 2 :]


BAD = {
    "name.parquet": (without_utf8("parquet"), r"must be UTF-8.*b'XX\\xff\\xfeZZ'"),
    "name.arrow": (without_utf8("arrow"), r"must be UTF-8.*b'XX\\xff\\xfeZZ'"),
    "name.orc": (without_utf8("orc"), r"must be UTF-8.*b'XX\\xff\\xfeZZ'"),
    "list.orc": (without_struct(b"\x0a"), "top-level struct"),
    "number.orc": (without_struct(b"\x04"), "top-level struct"),
    "twice.parquet": (WRITERS["parquet"](TWICE), "'a'"),
    "twice.arrow": (WRITERS["arrow"](TWICE), "'a'"),
    "within.parquet": (WRITERS["parquet"](TWICE_WITHIN), r"'s\.a'"),
    "union.arrow": (WRITERS["arrow"](UNION), "'u' is of type sparse_union"),
    "months.arrow": (WRITERS["arrow"](MONTHS), "'m' is of type month_day_nano_interval"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_without_a_schema_is_named(objects: Any, name: str) -> None:
    data, why = BAD[name]
    kind = FORMATS[name.partition(".")[2]]
    with pytest.raises(FatalError, match=rf"/{name}: .*{why}"):
        kind.infer(objects.reader(data, name), ReadOptions(), sample_bytes=1 << 20)


@pytest.mark.parametrize("name", [name for name, (_, why) in BAD.items() if "UTF-8" in why or "struct" in why])
def test_such_a_file_is_named_when_it_is_read(objects: Any, name: str) -> None:
    data, why = BAD[name]
    schema = pa.schema([("b", pa.string())])
    with pytest.raises(DataError, match=rf"/{name}: .*{why}"):
        list(FORMATS[name.partition(".")[2]].read(objects.reader(data, name), schema, ReadOptions()))


def test_a_member_of_an_archive_is_named(objects: Any) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x/a.parquet", BAD["twice.parquet"][0])
    with pytest.raises(SchemaError, match=r"b\.zip!/x/a\.parquet: .*'a'"):
        FORMATS["parquet"].infer(objects.reader(out.getvalue(), "b.zip"), ReadOptions(), sample_bytes=1 << 20)


def test_a_file_without_columns_has_its_rows(objects: Any) -> None:
    data = WRITERS["arrow"](pa.table({"a": [1, 2]}).select([]))
    (batch,) = FORMATS["arrow"].read(objects.reader(data, "a.arrow"), pa.schema([("id", pa.int64())]), ReadOptions())
    assert batch.to_pylist() == [{"id": None}, {"id": None}]


@pytest.mark.parametrize(
    "error",
    [KeyError("a\nb"), IndexError("x"), RecursionError(), pa.ArrowInvalid("x"), OSError("Snappy"), TypeError("x")],
)
def test_an_error_of_a_library_becomes_one_line(error: Exception) -> None:
    with (
        pytest.raises(DataError, match=rf"^s3://b/k: it cannot be read \({type(error).__name__}") as found,
        naming_file("s3://b/k"),
    ):
        raise error
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(28, "No space left"), ConnectionResetError(104, "reset"), DataError("x", url="u")]
)
def test_what_is_no_fault_of_the_file_stays(error: Exception) -> None:
    with pytest.raises(type(error)) as found, naming_file("s3://b/k"):
        raise error
    assert found.value is error


def test_drift_keeps_its_columns() -> None:
    with pytest.raises(DriftError, match="^s3://b/k, column 'x': new") as found, naming_file("s3://b/k"):
        raise DriftError("new", [pa.field("x", pa.int64())], column="x")
    assert found.value.fields == (pa.field("x", pa.int64()),)
