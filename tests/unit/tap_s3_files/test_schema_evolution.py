"""A schema is widened for files that do not match it, if that is allowed and sufficient."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError, DriftError
from tap_s3_files.schema_evolution import SchemaEvolution, evolved, excluded


def schema(**columns: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": [kind, "null"]} for name, kind in columns.items()}}


OLD = schema(id="integer")


def drift(**columns: pa.DataType) -> DriftError:
    return DriftError("no fit", [pa.field(n, t) for n, t in columns.items()])


def test_columns_that_files_have_are_added(caplog: pytest.LogCaptureFixture) -> None:
    evolution = SchemaEvolution(OLD)
    evolution.evolve_for(drift(a=pa.int64()))
    assert evolution.schema == schema(id="integer", a="integer")
    evolution.evolve_for(drift(b=pa.string(), id=pa.float64()))
    assert evolution.schema == schema(id="number", a="integer", b="string")
    assert list(OLD["properties"]) == ["id"]
    assert [r.message for r in caplog.records] == ["no fit. The schema changes from here on"] * 2


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, DataError("broken")),
        ({"is_fixed": True}, drift(a=pa.int64())),
        ({}, drift(id=pa.int64())),
        ({"own": ["a"]}, drift(a=pa.int64())),
        ({"types": {"id": pa.field("id", pa.int64())}}, drift(id=pa.string())),
    ],
    ids=["no drift", "fixed", "holds it already", "not the files'", "by the settings"],
)
def test_where_no_other_schema_helps_the_error_stays(settings: dict[str, Any], error: DataError) -> None:
    evolution = SchemaEvolution(OLD, **settings)
    with pytest.raises(DataError) as caught:
        evolution.evolve_for(error)
    assert caught.value is error
    assert evolution.schema == OLD


def test_a_new_column_has_the_type_of_the_settings() -> None:
    evolution = SchemaEvolution(OLD, types={"a": pa.field("a", pa.string())})
    evolution.evolve_for(drift(a=pa.int64()))
    assert evolution.schema == schema(id="integer", a="string")


def test_keys_stay_keys() -> None:
    wider = evolved(OLD, [pa.field("id", pa.string()), pa.field("a", pa.int64())], ["id"])
    assert {n: p["type"] for n, p in wider["properties"].items()} == {"id": ["string"], "a": ["integer", "null"]}


def test_what_is_excluded_is_named_by_its_path() -> None:
    inner = {"type": "object", "properties": {"x": {}, "y": {}}}
    full = {"properties": {"a": {}, "b": {}, "o": inner, "l": {"items": inner}, "m": {"additionalProperties": inner}}}
    less = {"type": "object", "properties": {"x": {}}}
    some = {"properties": {"a": {}, "o": less, "l": {"items": less}, "m": {"additionalProperties": inner}}}
    assert set(excluded(full, some)) == {"b", "o.y", "l.y"}
