"""GEOMETRY and GEOGRAPHY as well-known text."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import WRITERS
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.casting.extension_types import WkbType, to_wkt
from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions

OF_DUCKDB = (
    "c-mc2T}s115T4nFHDCiqoHYv(Vo5@TQd+e>728VagD8|<Kul6=u_{=aClBD8HxSR_aeV3#oGtzom)YUlneSu1VTb)ui-1B(>LeLR"
    "k^tMO004=|*`Nwv?!5_mUSqwYx6h4!1xkb+Vu(ngwd^{ZR__uup5h)@jv63P%RzU`wL|zlBy^_@o>MIHyCS=q=eOhgYqGc=2~SLm"
    "s0LJJh?7~h#(X8Uuj?`REF{o|LPAM3Q0KAT@hs!fvy5W}$=b_xLHlIvn@x<qy3*rhCI1lW9ph2wMEub%{M{dy-(cDOUx6OzNJum8"
    "rJ`hPt51X^NqL*}EGWlM^XcP5P#!j#jb@N!i|MQgiuQ4yW#gmb=0Mkd01nt-k3;^0F9iWE!2"
)


def head(code: int, order: str = "<") -> bytes:
    return struct.pack(f"{order}BI", order == "<", code)


def point(*axes: float, code: int = 1, order: str = "<") -> bytes:
    return head(code, order) + struct.pack(f"{order}{len(axes)}d", *axes)


def count(n: int) -> bytes:
    return struct.pack("<I", n)


def doubles(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


NAN, WHOLE = float("nan"), "GEOMETRYCOLLECTION"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (point(1, 2), "POINT (1 2)"),
        (point(0.1, -1e-9, order=">"), "POINT (0.1 -1e-09)"),
        (point(NAN, NAN), "POINT EMPTY"),
        (point(1, 2, 3, code=1001), "POINT Z (1 2 3)"),
        (point(1, 2, 3, code=2001), "POINT M (1 2 3)"),
        (point(1, 2, 3, 4, code=3001), "POINT ZM (1 2 3 4)"),
        (head(0x20000001) + count(4326) + doubles(1, 2), "POINT (1 2)"),
        (point(1, 2, 3, code=0x80000001), "POINT Z (1 2 3)"),
        (head(2) + count(2) + doubles(0, 0, 1.5, 1), "LINESTRING (0 0, 1.5 1)"),
        (head(2) + count(0), "LINESTRING EMPTY"),
        (head(3) + count(1) + count(3) + doubles(0, 0, 1, 0, 0, 0), "POLYGON ((0 0, 1 0, 0 0))"),
        (head(4) + count(2) + point(1, 2) + point(3, 4), "MULTIPOINT ((1 2), (3 4))"),
        (head(6) + count(1) + head(3) + count(0), "MULTIPOLYGON (EMPTY)"),
        (
            head(7) + count(2) + point(1, 2) + head(7) + count(0),
            "GEOMETRYCOLLECTION (POINT (1 2), GEOMETRYCOLLECTION EMPTY)",
        ),
    ],
)
def test_geometries_as_text(data: bytes, text: str) -> None:
    assert to_wkt(data) == text


@given(st.binary(max_size=60))
def test_damaged_bytes_are_an_error(data: bytes) -> None:
    with suppress(ValueError):
        to_wkt(data)
    with pytest.raises(ValueError, match="it|bytes"):
        to_wkt(point(1, 2) + data + b"x")


def test_a_file_of_another_program(objects: Any) -> None:
    data = zlib.decompress(base64.b85decode("".join(OF_DUCKDB)))
    schema = FORMATS["parquet"].infer(objects.reader(data, "a.parquet"), ReadOptions(), sample_bytes=1)
    assert schema.field("g") == pa.field("g", pa.string())
    (batch,) = FORMATS["parquet"].read(objects.reader(data, "a.parquet"), schema, ReadOptions())
    assert batch.column("g").to_pylist() == ["POINT (1 2)", "POLYGON ((0 0, 1 0, 1 1, 0 0))", None]
    as_before = pa.schema([("g", pa.binary())])
    (batch,) = FORMATS["parquet"].read(objects.reader(data, "a.parquet"), as_before, ReadOptions())
    assert batch.column("g").to_pylist()[0] == point(1, 2)


def test_geometries_within_lists_and_bad_ones(objects: Any) -> None:
    def column(*values: bytes) -> pa.Array:
        storage = pa.array(values, pa.binary())
        return pa.ExtensionArray.from_storage(WkbType(pa.binary()), storage)

    table = pa.table({"l": pa.ListArray.from_arrays([0, 2], column(point(1, 2), point(3, 4)))})
    reader = objects.reader(WRITERS["arrow"](table), "a.arrow")
    (batch,) = FORMATS["arrow"].read(reader, pa.schema([("l", pa.list_(pa.string()))]), ReadOptions())
    assert batch.column("l").to_pylist() == [["POINT (1 2)", "POINT (3 4)"]]
    schema, data = pa.schema([("g", pa.string())]), WRITERS["arrow"](pa.table({"g": column(point(1, 2), b"no")}))
    with pytest.raises(DataError, match=r"a\.arrow.*column 'g'.* is not text"):
        list(FORMATS["arrow"].read(objects.reader(data, "a.arrow"), schema, ReadOptions()))
    skipping = ReadOptions(on_bad_row="skip")
    (batch,) = FORMATS["arrow"].read(objects.reader(data, "a.arrow"), schema, skipping)
    assert batch.to_pylist() == [{"g": "POINT (1 2)"}]


GEO = {
    "version": "1.0.0",
    "primary_column": "g",
    "columns": {"g": {"encoding": "WKB", "geometry_types": []}, "n": {"encoding": "point"}, "id": {"encoding": "WKB"}},
}


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("t", [pa.binary(), pa.large_binary()], ids=str)
def test_columns_that_the_metadata_of_geoparquet_names(objects: Any, kind: str, t: pa.DataType) -> None:
    columns = {"id": [1, 2], "g": pa.array([point(1, 2), None], t), "b": [b"x", b"y"], "n": [{"x": 1.5}, None]}
    data = WRITERS[kind](pa.table(columns).replace_schema_metadata({"geo": json.dumps(GEO)}))
    schema = FORMATS[kind].infer(objects.reader(data, f"a.{kind}"), ReadOptions(), sample_bytes=1)
    assert [str(f.type) for f in schema] == ["int64", "string", "binary", "struct<x: double>"]
    (batch,) = FORMATS[kind].read(objects.reader(data, f"a.{kind}"), schema, ReadOptions())
    assert batch.to_pylist() == [
        {"id": 1, "g": "POINT (1 2)", "b": b"x", "n": {"x": 1.5}},
        {"id": 2, "g": None, "b": b"y", "n": None},
    ]
    as_before = pa.schema([("g", pa.binary())])
    (batch,) = FORMATS[kind].read(
        objects.reader(data, f"a.{kind}"),
        as_before,
        ReadOptions(on_drift="raise", known_columns=frozenset({"id", "b", "n"})),
    )
    assert batch.column("g").to_pylist() == [point(1, 2), None]


@pytest.mark.parametrize(
    "geo", [b"", b"\xff", b"[]", b'{"columns": []}', b'{"columns": {"g": 1}}', b'{"columns": {"g": {}}}'], ids=repr
)
def test_metadata_that_is_not_of_geoparquet_is_passed_over(objects: Any, geo: bytes) -> None:
    data = WRITERS["parquet"](pa.table({"g": [point(1, 2)]}).replace_schema_metadata({"geo": geo}))
    schema = FORMATS["parquet"].infer(objects.reader(data, "a.parquet"), ReadOptions(), sample_bytes=1)
    assert schema.field("g").type == pa.binary()
