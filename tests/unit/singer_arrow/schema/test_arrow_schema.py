"""Arrow <-> JSON Schema: exact both ways, and foreign schemas."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from singer_sdk.sql.connector import JSONSchemaToSQL
from sqlalchemy.types import DECIMAL

from singer_arrow.errors import SchemaError
from singer_arrow.schema.arrow_schema import canonical, is_json, json_field, merge_all, merge_schemas
from singer_arrow.schema.json_schema import from_json_schema, to_json_schema

SCALARS = st.one_of(
    st.sampled_from(
        [
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
            *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null(), pa.date32(), pa.date64()),
            *(pa.struct([]), pa.json_(), pa.decimal128(5, -3), pa.decimal128(2, 5), pa.list_view(pa.int8())),
            *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(7)),
            *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.duration("us")),
            pa.dictionary(pa.int8(), pa.string()),
        ]
    ),
    st.builds(pa.timestamp, st.sampled_from(["s", "ms", "us", "ns"]), st.sampled_from([None, "UTC", "Europe/Rome"])),
    st.integers(1, 38).flatmap(lambda p: st.builds(pa.decimal128, st.just(p), st.integers(0, p))),
    st.integers(1, 76).flatmap(lambda p: st.builds(pa.decimal256, st.just(p), st.integers(0, p))),
)
NAMES = st.text(min_size=1, max_size=8)


def structs(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.dictionaries(NAMES, types, min_size=1, max_size=4).map(lambda d: pa.struct(list(d.items())))


TYPES = st.recursive(
    SCALARS,
    lambda t: st.one_of(
        t.map(pa.list_),
        t.map(pa.large_list),
        structs(t),
        st.builds(pa.map_, st.sampled_from([pa.string(), pa.int32()]), t),
    ),
    max_leaves=6,
)


def columns(name: str, kind: pa.DataType | None) -> pa.Field:
    return json_field(name) if kind is None else pa.field(name, kind)


SCHEMAS = st.dictionaries(NAMES, st.one_of(st.none(), TYPES), min_size=1, max_size=6).map(
    lambda d: pa.schema([columns(n, t) for n, t in d.items()])
)


@given(SCHEMAS)
def test_round_trip_through_json_is_exact(schema: pa.Schema) -> None:
    text = json.dumps(to_json_schema(schema))
    assert from_json_schema(json.loads(text)).equals(canonical(schema), check_metadata=True)


@given(SCHEMAS)
def test_canonical_is_stable(schema: pa.Schema) -> None:
    once = canonical(schema)
    assert canonical(once).equals(once, check_metadata=True)


@given(SCHEMAS)
def test_merging_with_itself_changes_nothing(schema: pa.Schema) -> None:
    plain = canonical(schema)
    assert merge_schemas(plain, plain).equals(plain, check_metadata=True)


@given(SCHEMAS, SCHEMAS)
def test_merging_has_the_columns_of_both(a: pa.Schema, b: pa.Schema) -> None:
    merged = merge_schemas(canonical(a), canonical(b))
    assert set(merged.names) == set(a.names) | set(b.names)
    assert merge_schemas(merged, canonical(b)).equals(merged, check_metadata=True)


def test_keys_may_not_be_null() -> None:
    properties = to_json_schema(pa.schema([("a", pa.int64()), ("b", pa.string())]), keys=["a"])["properties"]
    assert properties == {"a": {"type": ["integer"]}, "b": {"type": ["string", "null"]}}


D = pa.decimal128
PLUS_MINUS_1E28 = {"exclusiveMinimum": -(10**28), "exclusiveMaximum": 10**28}
DRAFT_4_1E28 = {"minimum": -1e28, "exclusiveMinimum": True, "maximum": 1e28, "exclusiveMaximum": True}


@pytest.mark.parametrize(
    ("prop", "expected"),
    [
        ({"type": "integer"}, pa.int64()),
        ({"type": ["null", "integer"], "minimum": 0, "maximum": 2**64 - 1}, pa.uint64()),
        ({"type": "integer", "maximum": 10**30}, pa.decimal128(38, 0)),
        ({"type": ["number", "integer", "null"]}, pa.float64()),
        ({"type": "number", "multipleOf": 0.01}, pa.decimal128(38, 2)),
        ({"type": "number", "multipleOf": 1e-18}, pa.decimal256(56, 18)),
        ({"type": "integer", "exclusiveMinimum": -1, "exclusiveMaximum": 2**64}, pa.uint64()),
        ({"type": "integer", "exclusiveMinimum": -(2**63) - 1, "exclusiveMaximum": 2**63}, pa.int64()),
        ({"type": "integer", "minimum": 0, "maximum": 2**64, "exclusiveMaximum": True}, pa.uint64()),
        ({"type": "integer", "minimum": -(2**64), "maximum": 2**64}, pa.decimal128(29, 0)),
        ({"type": "integer", "minimum": -(10**50), "maximum": 10**50}, pa.decimal256(51, 0)),
        ({"type": "number", "multipleOf": 1e-10, **PLUS_MINUS_1E28}, pa.decimal128(38, 10)),
        ({"type": "number", "multipleOf": 1e-10, **DRAFT_4_1E28}, pa.decimal128(38, 10)),
        ({"type": "number", "multipleOf": 1e-10, "maximum": 1e28, "exclusiveMaximum": True}, pa.decimal128(38, 10)),
        ({"type": "number", "multipleOf": Decimal("1E-10"), "exclusiveMaximum": 1e28}, pa.decimal128(38, 10)),
        ({"type": "number", "multipleOf": 1e-10, "minimum": -1e28, "maximum": 1e28}, pa.decimal256(48, 10)),
        ({"type": "number", "multipleOf": 1e-10, "minimum": 0}, pa.decimal256(48, 10)),
        ({"type": "number", "multipleOf": 1e-37, "exclusiveMinimum": -10, "exclusiveMaximum": 10}, D(38, 37)),
        ({"type": "number", "multipleOf": 0.01, **PLUS_MINUS_1E28}, pa.decimal128(31, 2)),
        ({"type": "number", "multipleOf": 1e-9, "minimum": -(10**29), "maximum": 10**29}, pa.decimal256(47, 9)),
        ({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 10**40}, pa.decimal256(43, 2)),
        ({"type": "number", "multipleOf": 0.01, "maximum": Decimal("1e999999999")}, pa.decimal128(38, 2)),
        ({"type": "number", "multipleOf": 1}, pa.decimal128(38, 0)),
        ({"type": "number", "multipleOf": "x", "maximum": "y"}, pa.float64()),
        ({"type": "string", "format": "singer.decimal", "precision": 12, "scale": 3}, pa.decimal128(12, 3)),
        ({"type": "string", "format": "x-singer.decimal"}, pa.decimal128(38, 9)),
        ({"type": "string", "format": "singer.decimal", "precision": 38, "scale": 0}, pa.decimal128(38, 0)),
        ({"type": "string", "format": "singer.decimal", "precision": 6}, pa.decimal128(15, 9)),
        ({"type": "string", "format": "singer.decimal", "precision": "20", "scale": 2.0}, pa.decimal128(20, 2)),
        ({"type": "string", "format": "singer.decimal", "precision": 5, "scale": -2}, pa.decimal128(7, 0)),
        ({"type": "string", "format": "singer.decimal", "precision": 2, "scale": 5}, pa.decimal128(5, 5)),
        ({"type": "string", "format": "singer.decimal", "precision": 50, "scale": 9}, pa.decimal256(50, 9)),
        ({"type": "string", "format": "date-time"}, pa.timestamp("us", "UTC")),
        ({"type": "string", "format": "uuid"}, pa.string()),
        ({"type": ["string", "integer"]}, pa.string()),
        ({"anyOf": [{"type": "string", "format": "date-time"}, {"type": ["string", "null"]}]}, pa.string()),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, pa.int64()),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, pa.float64()),
        ({"type": "array", "items": {"type": "string"}}, pa.list_(pa.string())),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, pa.map_(pa.string(), pa.int64())),
        ({"properties": {"a": {"type": "boolean"}}}, pa.struct([("a", pa.bool_())])),
    ],
)
def test_foreign_schemas(prop: dict[str, object], expected: pa.DataType) -> None:
    assert from_json_schema({"properties": {"c": prop}}).field("c").type == expected


@pytest.mark.parametrize(
    "digits", [{"precision": "x"}, {"precision": -1}, {"scale": True}, {"scale": 1.5}, {"precision": 77, "scale": 0}]
)
def test_decimals_of_digits_that_cannot_be(digits: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match="Column 'c'.*decimals"):
        from_json_schema({"properties": {"c": {"type": "string", "format": "singer.decimal", **digits}}})


@pytest.mark.parametrize(
    "prop",
    [
        {},
        {"type": "object"},
        {"type": "array"},
        {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
        {"type": ["object", "array", "null"]},
        {"type": ["object", "string"]},
        {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
    ],
)
def test_what_json_schema_leaves_open_is_json_text(prop: dict[str, object]) -> None:
    assert is_json(from_json_schema({"properties": {"c": prop}}).field("c"))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.int8(), pa.uint8(), pa.int16()),
        (pa.int64(), pa.uint64(), pa.decimal128(20, 0)),
        (pa.int64(), pa.decimal128(10, 2), pa.decimal128(21, 2)),
        (pa.decimal128(38, 0), pa.decimal128(38, 38), pa.decimal256(76, 38)),
        (pa.decimal256(76, 0), pa.decimal128(38, 38), pa.string()),
        (pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.int64(), pa.string(), pa.string()),
        (pa.null(), pa.bool_(), pa.bool_()),
        (pa.bool_(), pa.int64(), pa.string()),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
        (
            pa.struct([("a", pa.int64())]),
            pa.struct([("b", pa.int64())]),
            pa.struct([("a", pa.int64()), ("b", pa.int64())]),
        ),
    ],
)
def test_merged_types(a: pa.DataType, b: pa.DataType, expected: pa.DataType) -> None:
    assert merge_all([pa.schema([("c", a)]), pa.schema([("c", b)])]).field("c").type == expected
    if not pa.types.is_struct(a):
        assert merge_all([pa.schema([("c", b)]), pa.schema([("c", a)])]).field("c").type == expected


def test_nested_with_scalar_is_json_text() -> None:
    merged = merge_schemas(pa.schema([("c", pa.list_(pa.int64()))]), pa.schema([("c", pa.int64())]))
    assert is_json(merged.field("c"))


@pytest.mark.parametrize("t", [pa.uint64(), D(19, 0), D(38, 0), pa.decimal256(76, 0)], ids=str)
def test_whole_numbers_beyond_int64_are_numbers_to_other_targets(t: pa.DataType) -> None:
    schema = to_json_schema(pa.schema([("a", t), ("b", pa.list_(t))]))
    whole = {"type": ["number", "null"], "multipleOf": 1}
    a, b = schema["properties"]["a"], schema["properties"]["b"]["items"]
    assert {k: v for k, v in a.items() if k != "x-arrow-type"} == whole
    assert a == b
    assert isinstance(JSONSchemaToSQL().to_sql_type(a), DECIMAL)
    assert from_json_schema(schema).field("a").type == t


@pytest.mark.parametrize("t", [pa.int64(), pa.uint32(), D(18, 0)], ids=str)
def test_whole_numbers_of_int64_are_integers(t: pa.DataType) -> None:
    assert to_json_schema(pa.schema([("a", t)]))["properties"]["a"]["type"] == ["integer", "null"]


@pytest.mark.parametrize("schema", [{}, {"properties": {}}, {"properties": []}, {"type": "object"}])
def test_a_schema_without_properties_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match="no properties"):
        from_json_schema(schema)


def test_a_duplicate_column_is_refused() -> None:
    with pytest.raises(SchemaError, match="'a' occurs twice"):
        canonical(pa.schema([("a", pa.int64()), ("a", pa.string())]))
    inner = pa.struct([("a", pa.int64()), ("a", pa.string())])
    with pytest.raises(SchemaError, match=r"'l\.s\.a' occurs twice"):
        canonical(pa.schema([("l", pa.list_(pa.struct([("s", inner)])))]))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.decimal128(5, -3), pa.decimal128(8, 0)),
        (pa.decimal128(38, -3), pa.decimal256(41, 0)),
        (pa.decimal128(2, 5), pa.decimal128(5, 5)),
        (pa.decimal32(9, 2), pa.decimal128(9, 2)),
        (pa.decimal256(20, 3), pa.decimal256(20, 3)),
    ],
    ids=str,
)
def test_decimals_have_a_scale_that_sql_knows(given: pa.DataType, expected: pa.DataType) -> None:
    assert canonical(pa.schema([("c", given)])).types == [expected]


def test_decimals_of_more_digits_than_there_are_types_for_are_refused() -> None:
    with pytest.raises(SchemaError, match="'c' is of type .* may have 79 digits"):
        canonical(pa.schema([("c", pa.decimal256(76, -3))]))


@pytest.mark.parametrize(
    "t",
    [
        pa.json_(),
        pa.struct([]),
        pa.list_(pa.struct([])),
        pa.list_(json_field("item")),
        pa.map_(pa.string(), pa.json_()),
        pa.list_(pa.list_(pa.json_())),
    ],
    ids=str,
)
def test_json_and_objects_without_members_are_json_text(t: pa.DataType) -> None:
    schema = canonical(pa.schema([("c", t), ("s", pa.struct([("m", t)]))]))
    assert is_json(schema.field("c"))
    assert is_json(schema.field("s").type.field("m"))
    assert from_json_schema(to_json_schema(schema)).equals(schema, check_metadata=True)


def test_an_unknown_annotation_is_refused() -> None:
    with pytest.raises(SchemaError, match="'c' has x-arrow-type 'int9'"):
        from_json_schema({"properties": {"c": {"type": "integer", "x-arrow-type": "int9"}}})


def test_a_type_without_counterpart_is_refused() -> None:
    with pytest.raises(SchemaError, match="'c' is of type month_day_nano_interval"):
        to_json_schema(pa.schema([("c", pa.month_day_nano_interval())]))
