"""Descriptions in a SCHEMA, at every depth."""

from __future__ import annotations

from singer_arrow.warehouse.table import MOST_OF_COLUMN, Descriptions, descriptions_of


def test_descriptions_at_every_depth() -> None:
    place = {"type": ["object", "null"], "properties": {"lat": {"type": "number", "description": "north"}}}
    schema = {
        "description": " all orders\n",
        "properties": {
            "id": {"type": "integer", "description": "the key"},
            "at": {"type": "string"},
            "place": place,
            "stops": {"type": "array", "description": "on the way", "items": place},
            "either": {"anyOf": [{"type": "null"}, place]},
            "free": True,
            "hollow": {"description": " "},
        },
    }
    assert descriptions_of(schema) == Descriptions(
        "all orders",
        {
            ("id",): "the key",
            ("place", "lat"): "north",
            ("stops",): "on the way",
            ("stops", "lat"): "north",
            ("either", "lat"): "north",
        },
    )


def test_what_is_no_text_is_nothing_and_what_is_too_long_is_cut() -> None:
    schema = {"description": 5, "properties": {"a": {"description": "x" * 2000}, "b": {"description": ["y"]}}}
    found = descriptions_of(schema)
    assert found.table is None
    assert found.columns == {("a",): "x" * (MOST_OF_COLUMN - 1) + "…"}
    assert descriptions_of({"properties": {"a": {"description": "\0b"}}}).columns == {("a",): "b"}
