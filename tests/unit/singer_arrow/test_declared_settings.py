"""Settings that are declared as fields: their JSON Schema, and the object that a configuration makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema
import pytest

from singer_arrow.settings import inline, json_schema, read_settings, setting


@dataclass(frozen=True, slots=True)
class Column:
    name: str = setting("Its name.", required=True)
    width: int = setting("Its width.", default=1, minimum=1)


@dataclass(frozen=True, slots=True)
class Spelling:
    point: str = setting("Between digits.", default=".")
    nulls: tuple[str, ...] = setting("Null.", default=("",), name="csv.nulls", of_object="How CSV is written.")


@dataclass(frozen=True, slots=True)
class Settings:
    table: str = setting("The table.", required=True, minLength=1)
    root: str = setting("The place.", required=True, name="storage.root", of_object="Where files are.")
    size: int = setting("Megabytes.", default=0.5, name="size_mb", kind=float, parse=lambda mb: int(mb * 1024))
    spelling: Spelling = inline(Spelling())
    how: Literal["a", "b"] = setting("How.", default="a")
    columns: tuple[Column, ...] = setting("Columns.", default=())
    first: Column | None = setting("The first.")
    by_stream: str | Mapping[str, str] | None = setting("Of all, or of some.")
    key: str | None = setting("A key.", secret=True)
    labels: Mapping[str, str] = setting("Labels.", default={})
    cores: int = setting("Cores.", factory=lambda: 7, minimum=1)
    counted: int = 0


LEAST: dict[str, Any] = {"table": "t", "storage": {"root": "r"}}


def test_the_json_schema() -> None:
    column = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Its name."},
            "width": {"type": ["integer", "null"], "description": "Its width.", "default": 1, "minimum": 1},
        },
        "required": ["name"],
    }
    text, texts = {"type": "string"}, {"type": ["array", "null"], "items": {"type": "string"}}
    assert json_schema(Settings) == {
        "type": "object",
        "properties": {
            "table": {**text, "minLength": 1, "description": "The table."},
            "storage": {
                "type": "object",
                "description": "Where files are.",
                "properties": {"root": {**text, "description": "The place."}},
                "required": ["root"],
            },
            "size_mb": {"type": ["number", "null"], "description": "Megabytes.", "default": 0.5},
            "point": {"type": ["string", "null"], "description": "Between digits.", "default": "."},
            "csv": {
                "type": ["object", "null"],
                "description": "How CSV is written.",
                "properties": {"nulls": {**texts, "description": "Null.", "default": [""]}},
            },
            "how": {"type": ["string", "null"], "enum": ["a", "b"], "description": "How.", "default": "a"},
            "columns": {"type": ["array", "null"], "items": column, "description": "Columns."},
            "first": {**column, "type": ["object", "null"], "description": "The first."},
            "by_stream": {
                "type": ["string", "object", "null"],
                "additionalProperties": text,
                "description": "Of all, or of some.",
            },
            "key": {"type": ["string", "null"], "description": "A key.", "secret": True, "writeOnly": True},
            "labels": {"type": ["object", "null"], "additionalProperties": text, "description": "Labels."},
            "cores": {"type": ["integer", "null"], "description": "Cores.", "minimum": 1},
        },
        "required": ["table", "storage"],
    }
    jsonschema.Draft202012Validator.check_schema(json_schema(Settings))


def test_defaults() -> None:
    assert read_settings(Settings, LEAST) == Settings("t", "r", 512, Spelling(".", ("",)), labels={}, cores=7)


def test_values_become_those_of_the_class() -> None:
    more = {"size_mb": 2, "point": ",", "csv": {"nulls": ["", "NA"]}, "columns": [{"name": "a", "width": 3}]}
    found = read_settings(Settings, LEAST | more | {"first": {"name": "b"}, "by_stream": {"a": "x"}, "unknown": 1})
    assert (found.size, found.spelling) == (2048, Spelling(",", ("", "NA")))
    assert (found.columns, found.first) == ((Column("a", 3),), Column("b"))
    assert found.by_stream == {"a": "x"}


@pytest.mark.parametrize("name", ["size_mb", "point", "csv", "how", "columns", "first", "by_stream", "labels", "cores"])
def test_null_means_not_set(name: str) -> None:
    assert read_settings(Settings, LEAST | {name: None}) == read_settings(Settings, LEAST)
    assert read_settings(Settings, LEAST | {"csv": {"nulls": None}}) == read_settings(Settings, LEAST)


def test_a_secret_is_in_no_repr() -> None:
    assert "hush" not in repr(read_settings(Settings, LEAST | {"key": "hush"}))
