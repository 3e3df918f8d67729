"""A stream's schema: sampled from newest and oldest, merged, overridden, projected; keys and metadata columns."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import ConfigError, DataError, DriftError, SchemaError
from singer_arrow.schema.arrow_schema import json_field, parse_type
from singer_arrow.schema.json_schema import from_json_schema, to_json_schema
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.discover import (
    METADATA,
    SchemaEvolution,
    catalog_schema,
    evolved,
    excluded,
    sample_objects,
    set_columns,
    source_schema,
)
from tap_s3_files.listing import Listing
from tap_s3_files.settings import StreamSettings
from tap_s3_files.tap import TapS3Files

START = datetime(2024, 1, 1, tzinfo=UTC)


def stream(**more: Any) -> StreamSettings:
    return StreamSettings(name="orders", urls=(Url("s3", "b", "*.csv"),), **more)


def info(day: int, size: int = 1) -> ObjectInfo:
    return ObjectInfo(Url("s3", "b", f"{day}.csv"), size, "e", START + timedelta(days=day))


def days(objects: list[ObjectInfo]) -> list[int]:
    return [(o.modified - START).days for o in objects]


def test_samples_are_the_newest_and_the_oldest() -> None:
    objects = [info(d) for d in reversed(range(10))]
    assert days(sample_objects(Listing(objects), 5)) == [0, 1, 7, 8, 9]
    assert days(sample_objects(Listing(objects), 2)) == [0, 9]
    assert days(sample_objects(Listing(objects), 1)) == [9]
    assert days(sample_objects(Listing(objects[:3]), 5)) == [7, 8, 9]


def test_samples_hold_something_and_lie_within_the_window() -> None:
    objects = [info(d, size=d % 2) for d in range(10)]
    assert days(sample_objects(Listing(objects), 2)) == [1, 9]
    start, end = START + timedelta(days=4), START + timedelta(days=8)
    assert days(sample_objects(Listing(objects), 5, start=start, end=end)) == [5, 7]
    assert days(sample_objects(Listing(objects), 2, start=START + timedelta(days=99))) == [1, 9]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("string", pa.string()),
        (" Integer ", pa.int64()),
        ("number", pa.float64()),
        ("float", pa.float64()),
        ("boolean", pa.bool_()),
        ("date", pa.date32()),
        ("time", pa.time64("us")),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("decimal(12, 2)", pa.decimal128(12, 2)),
        ("decimal(5)", pa.decimal128(5, 0)),
        ("numeric(38,9)", pa.decimal128(38, 9)),
        ("decimal(76,38)", pa.decimal256(76, 38)),
        ("binary", pa.binary()),
        ("bytes", pa.binary()),
        ("interval", pa.string()),
        ("int32", pa.int32()),
        ("uint64", pa.uint64()),
        ("float32", pa.float32()),
    ],
)
def test_types_have_their_usual_names(text: str, kind: pa.DataType) -> None:
    field = parse_type("c", text)
    assert (field.name, field.type) == ("c", kind)
    assert from_json_schema(catalog_schema(pa.schema([field]), stream(), metadata_columns=False)).field("c") == field


def test_columns_are_set_where_the_schema_has_the_types_of_the_settings() -> None:
    types = {"a": "int32", "b": "json", "c": "string", "d": "string", "e": "time", "gone": "date"}
    source = pa.schema([parse_type(name, text) for name, text in types.items() if name != "gone"])
    schema = from_json_schema(catalog_schema(source, stream(key_properties=("a",)), metadata_columns=True))
    assert set_columns(schema, types) == set("abcde")
    assert set_columns(schema, {**types, "a": "integer", "b": "string", "d": "json"}) == set("ce")


def test_files_are_merged_and_settings_have_the_last_word() -> None:
    files = [
        pa.schema([("id", pa.int64()), ("code", pa.int64()), ("empty", pa.null())]),
        pa.schema([("id", pa.int64()), ("code", pa.string()), ("late", pa.date32())]),
    ]
    merged = source_schema(files, stream(types={"id": "string", "extra": "decimal(3,1)"}))
    assert {f.name: f.type for f in merged} == {
        "id": pa.string(),
        "code": pa.string(),
        "empty": pa.string(),  # nothing is known of it
        "late": pa.date32(),
        "extra": pa.decimal128(3, 1),
    }


@pytest.mark.parametrize("name", ["Amuont", "amount", "order id"])
def test_a_type_for_another_spelling_of_a_column_is_refused(name: str) -> None:
    files = [pa.schema([("Amount", pa.int64()), ("order_id", pa.int64())])]
    meant = "order_id" if name == "order id" else "Amount"
    with pytest.raises(ConfigError, match=f"'schema' names '{name}', which is no column .*; did you mean '{meant}'"):
        source_schema(files, stream(types={name: "string"}))
    both = source_schema(files, stream(types={name: "string", meant: "integer"}))
    assert sorted(both.names) == sorted(["Amount", "order_id", name])
    assert source_schema([], stream(types={name: "string"})).names == [name]
    assert "amount_eur" in source_schema(files, stream(types={"amount_eur": "string"})).names


def test_what_is_empty_within_a_column_stays_open_for_values() -> None:
    null = pa.null()
    file = pa.schema(
        [
            ("tags", pa.list_(null)),
            ("deep", pa.list_(pa.list_(null))),
            ("map", pa.map_(pa.string(), null)),
            ("item", pa.struct([("note", null), ("tags", pa.list_(null)), ("n", pa.list_(pa.int64()))])),
        ]
    )
    item = pa.struct([pa.field("note", pa.string()), json_field("tags"), pa.field("n", pa.list_(pa.int64()))])
    assert source_schema([file], stream()).equals(
        pa.schema([json_field("tags"), json_field("deep"), json_field("map"), pa.field("item", item)]),
        check_metadata=True,
    )


def test_columns_stay_without_a_type_where_no_sample_has_a_value() -> None:
    none, some = pa.schema({"a": pa.null(), "b": pa.null()}), pa.schema({"a": pa.int64(), "b": pa.null()})
    text = pa.schema({"a": pa.string(), "b": pa.string()})
    assert source_schema([none, none], stream()) == none
    assert source_schema([none, some], stream()) == pa.schema({"a": pa.int64(), "b": pa.string()})
    assert source_schema([none], stream(on_drift="rescue")) == text
    assert source_schema([none], stream(types={"a": "integer"})) == some


def test_columns_select_and_keep_the_order_of_the_files() -> None:
    files = [pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])]
    assert source_schema(files, stream(columns=("c", "a"))).names == ["a", "c"]
    with pytest.raises(ConfigError, match="'columns' names 'd', which is no column; there are a, b, c"):
        source_schema(files, stream(columns=("d",)))


def test_a_stream_without_columns_is_an_error() -> None:
    with pytest.raises(SchemaError, match="'orders': no column"):
        source_schema([pa.schema([])], stream())


def test_metadata_columns_are_added_and_keys_are_not_null() -> None:
    schema = catalog_schema(
        pa.schema([("id", pa.int64())]), stream(key_properties=("id", "_sdc_source_file")), metadata_columns=True
    )
    assert list(schema["properties"]) == ["id", *METADATA.names]
    assert schema["properties"]["id"]["type"] == ["integer"]
    assert schema["properties"]["_sdc_source_file"]["type"] == ["string"]
    assert schema["properties"]["_sdc_source_modified_at"]["format"] == "date-time"


def test_a_key_must_be_a_column() -> None:
    with pytest.raises(ConfigError, match="'key_properties' names 'idd', which is no column; did you mean 'id'"):
        catalog_schema(pa.schema([("id", pa.int64())]), stream(key_properties=("idd",)), metadata_columns=True)


def test_a_file_must_not_have_a_metadata_column_itself() -> None:
    with pytest.raises(SchemaError, match="set metadata_columns to false"):
        catalog_schema(pa.schema([("_sdc_source_etag", pa.string())]), stream(), metadata_columns=True)


def test_a_type_without_counterpart_is_an_error_with_its_stream() -> None:
    with pytest.raises(SchemaError, match="'orders': Column 'm'"):
        catalog_schema(pa.schema([("m", pa.month_day_nano_interval())]), stream(), metadata_columns=False)


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


def test_a_column_without_a_type_gets_one_although_the_schema_is_fixed() -> None:
    evolution = SchemaEvolution(to_json_schema(pa.schema({"a": pa.null(), "b": pa.null()})), is_fixed=True)
    evolution.evolve_for(drift(a=pa.int64()))
    assert from_json_schema(evolution.schema) == pa.schema({"a": pa.int64(), "b": pa.null()})
    with pytest.raises(DriftError):
        evolution.evolve_for(drift(a=pa.string(), b=pa.int64()))


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


def test_more_columns_than_a_table_can_have() -> None:
    wide = pa.schema([(f"c{n}", pa.int64()) for n in range(10_001)])
    assert len(source_schema([wide], stream(columns=("c1", "c2")))) == 2
    with pytest.raises(SchemaError, match="'orders': its files have 10,001 columns .* setting 'columns'"):
        source_schema([wide], stream())
    with pytest.raises(DataError, match="line 3: with its columns the stream has 10,00[23] .* setting 'columns'"):
        SchemaEvolution(OLD).evolve_for(DriftError("new columns", list(wide), line=3))


@pytest.mark.parametrize("has_catalog", [False, True], ids=["found", "catalog"])
def test_folders_of_the_same_columns_share_schema_and_selection_in_a_run(tmp_path: Path, *, has_catalog: bool) -> None:
    for folder, text in (("a", "id,x\n1,2\n"), ("b", "id,x\n1,2\n"), ("c", "id,x\n1,2\n"), ("d", "id,y\n1,2\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.csv").write_text(text)
    config = {"streams": [{"name": "of_{folder}", "path": f"{tmp_path}/{{folder}}/*.csv"}]}
    catalog = TapS3Files(config=config).catalog_dict
    of_c = next(s for s in catalog["streams"] if s["tap_stream_id"] == "of_c")
    next(m for m in of_c["metadata"] if m["breadcrumb"] == ["properties", "x"])["metadata"]["selected"] = False
    tap = TapS3Files(config=config, catalog=catalog if has_catalog else None, is_run=True, setup_mapper=True)
    a, b, c, d = (tap.streams[name] for name in ("of_a", "of_b", "of_c", "of_d"))
    for one in (lambda s: s.schema, lambda s: s.selected_schema, lambda s: s.mask, lambda s: s.metadata):
        assert one(a) is one(b)
        assert one(a) is not one(d)
    own = METADATA.names
    assert list(c.selected_schema["properties"]) == (["id", *own] if has_catalog else ["id", "x", *own])
    assert list(d.selected_schema["properties"]) == ["id", "y", *own]
    other = TapS3Files(config=config)
    other.streams["of_a"].selected = False  # outside of a run, each has its own
    assert other.streams["of_b"].selected
