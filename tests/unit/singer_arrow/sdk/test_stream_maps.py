"""Which stream maps keep the values of batch files unchanged, and the SDK internals that detect them."""

from __future__ import annotations

import copy
import inspect
import logging
from typing import Any

import pyarrow as pa
import pytest
from singer_sdk.mapper import CustomStreamMap, PluginMapper, StreamMap

from singer_arrow.errors import DataError
from singer_arrow.sdk.stream_maps import ExactMapper, columns_made, is_plain, keeps_values

PLACE = {"type": ["object", "null"], "properties": {"x": {"type": "number"}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": ["string", "null"]}, "tag": {"type": "string"}},
}
NESTED = {"type": "object", "properties": {**SCHEMA["properties"], "place": PLACE}}


def maps_of(schema: dict[str, Any] = SCHEMA, definition: Any = ..., **config: Any) -> list[StreamMap]:
    """Return the SDK's maps of a stream `s`."""
    maps = {} if definition is ... else {"stream_maps": {"s": definition}}
    mapper = PluginMapper({"stream_maps": {}, **maps, **config}, logging.getLogger("test"))
    mapper.register_raw_stream_schema("s", schema, ["id"])
    return mapper.stream_maps["s"]


def test_the_privates_that_are_used_exist() -> None:
    (custom,) = maps_of(definition={"name": None, "twice": "id * 2"})
    assert isinstance(custom, CustomStreamMap)
    assert custom._filter_fn.__name__ == "always_true"
    (filtered,) = maps_of(definition={"__filter__": "id > 1"})
    assert isinstance(filtered, CustomStreamMap)
    assert filtered._filter_fn.__name__ != "always_true"
    parsed = inspect.getclosurevars(custom._transform_fn).nonlocals["stream_map_parsed"]
    assert [(name, definition) for name, definition, _ in parsed] == [("name", None), ("twice", "id * 2")]
    (chosen,) = maps_of(definition={"id": "id", "__else__": None})
    assert inspect.getclosurevars(chosen._transform_fn).nonlocals["include_by_default"] is False
    assert {"md5", "sha256"} <= custom.expr_evaluator.functions.keys()
    assert callable(custom._eval)


@pytest.mark.parametrize(
    ("definition", "columns"),
    [
        ({"name": None}, ["id", "tag"]),
        ({"name": "__NULL__", "tag": None}, ["id"]),
        ({"__alias__": "t"}, ["id", "name", "tag"]),
        ({"__alias__": "t", "tag": None}, ["id", "name"]),
        ({"id": "id", "tag": "tag", "__else__": None}, ["id", "tag"]),
        ({"id": "id"}, ["id", "name", "tag"]),
        ({"id": None, "__key_properties__": ["name"]}, ["name", "tag"]),
        ({"name": "name.upper()"}, None),
        ({"__filter__": "id > 1"}, None),
        ({"other": "name"}, None),
        ({"id": "(id)"}, None),
        ({"record": "record"}, None),
        ({"new": "new"}, None),
    ],
    ids=str,
)
def test_maps_that_only_leave_out_and_rename_the_stream(definition: Any, columns: list[str] | None) -> None:
    (found,) = maps_of(copy.deepcopy(SCHEMA), definition)
    assert keeps_values(found, SCHEMA["properties"]) == (columns is not None)
    assert not is_plain(found)
    if columns is not None:
        assert list(found.transformed_schema["properties"]) == columns


def test_without_maps_all_is_as_it_was() -> None:
    (found,) = maps_of()
    assert (is_plain(found), keeps_values(found, SCHEMA["properties"])) == (True, True)


@pytest.mark.parametrize("definition", [..., {"tag": None}], ids=str)
def test_flattening_counts_where_there_is_something_to_flatten(definition: Any) -> None:
    def keep(schema: dict[str, Any], depth: int) -> set[bool]:
        flattening = {"flattening_enabled": True, "flattening_max_depth": depth}
        return {keeps_values(m, schema["properties"]) for m in maps_of(schema, definition, **flattening)}

    assert (keep(SCHEMA, 2), keep(NESTED, 2), keep(NESTED, 0)) == ({True}, {False}, {True})


@pytest.mark.parametrize(
    ("definition", "made"),
    [
        ({"other": "name", "name": None}, {"id": "id", "tag": "tag", "other": "name"}),
        ({"id": "id", "kind": "'a'", "__else__": None}, {"id": "id", "kind": pa.scalar("a")}),
        ({"kind": '"a"'}, {"id": "id", "name": "name", "tag": "tag", "kind": pa.scalar("a")}),
        ({"tag": "name"}, None),
        ({"tag": "'a'"}, None),
        ({"kind": "5"}, None),
        ({"kind": "_"}, None),
        ({"kind": "record"}, None),
        ({"kind": "missing"}, None),
        ({"kind": "name or tag"}, None),
        ({"kind": "str(name)"}, None),
        ({"other": "name", "__filter__": "id > 1"}, None),
    ],
    ids=str,
)
def test_maps_that_make_columns(definition: Any, made: Any) -> None:
    (found,) = maps_of(copy.deepcopy(SCHEMA), definition)
    assert columns_made(found, SCHEMA["properties"]) == made
    if made is not None:
        assert found.transformed_schema["properties"].keys() == made.keys()


FLATTENED = [
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, ["integer", "string", "null"]),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, ["integer", "string", "null"]),
    ({"oneOf": [{"type": "null"}, {"type": "number"}]}, ["number", "null"]),
    ({}, ["string", "number", "integer", "boolean", "null"]),
    ({"anyOf": [{"type": "object"}, {"type": "integer"}]}, ["string", "number", "integer", "boolean", "null"]),
    ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, ["string", "null"]),
]


@pytest.mark.parametrize(("member", "types"), FLATTENED, ids=str)
def test_flattening_keeps_members_of_several_types(member: dict[str, Any], types: list[str]) -> None:
    config = {"flattening_enabled": True, "flattening_max_depth": 2}
    mapper = ExactMapper(config, logging.getLogger("test"))
    inside = {"type": ["object", "null"], "properties": {"a": member}}
    mapper.register_raw_stream_schema("s", {"type": "object", "properties": {"o": inside}}, [])
    (found,) = mapper.stream_maps["s"]
    assert set(found.transformed_schema["properties"]["o__a"]["type"]) == set(types)
    assert found.transform({"o": {"a": 7}}) == {"o__a": 7}


def exact_map(**definition: str) -> StreamMap:
    """Return our map of a stream `s` with the columns of `SCHEMA`."""
    mapper = ExactMapper({"stream_maps": {"s": definition}}, logging.getLogger("test"))
    mapper.register_raw_stream_schema("s", copy.deepcopy(SCHEMA), [])
    return mapper.stream_maps["s"][0]


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("md5(id) if id else None", "string", "c4ca4238a0b923820dcc509a6f75849b"),
        ("None if id == 2 else sha256(id)", "string", None),
        ("str(id) if name else md5(id)", "string", "1"),
        ("md5(id) or 'none'", "string", "c4ca4238a0b923820dcc509a6f75849b"),
        ("'x' if id == 1 else 'y'", "string", "x"),
        ("int(name) if id == 2 else 7", "integer", 7),
        ("tag", "string", "t"),
        ("id + 1", "integer", 2),
        ("id if id else None", "integer", 1),
    ],
)
def test_the_type_of_an_expression_is_that_of_its_values(expression: str, kind: str, value: object) -> None:
    found = exact_map(id=expression)
    assert found.transformed_schema["properties"]["id"]["type"] == [kind, "null"]
    made = found.transform({"id": 1, "name": "a", "tag": "t"})
    assert made is not None
    if value is not None:
        assert made["id"] == value


@pytest.mark.parametrize(
    ("expression", "shown"),
    [("md5(id) if name else id", "'c4ca4238a0b923820dcc509a6f75849b'"), ("[id][0] + 0.5", "1.5")],
)
def test_a_value_of_another_type_names_the_expression(expression: str, shown: str) -> None:
    with pytest.raises(DataError) as caught:
        exact_map(id=expression).transform({"id": 1, "name": "a", "tag": "t"})
    line = f"Stream 's': the expression {expression!r} of stream_maps gives {shown} for 'id', which is of type integer."
    assert str(caught.value).startswith(line)
    assert "str(...)" in str(caught.value)
