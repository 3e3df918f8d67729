"""Inputs of a tap: catalog, STATE and settings, and files without any of them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import waiting_tap
from singer_sdk.exceptions import ConfigValidationError
from singer_sdk.plugin_base import _ConfigInput
from singer_sdk.singerlib.json import deserialize_json
from waiting_tap import SCHEMA, TapThings, Things, sync

from singer_arrow.errors import ConfigError
from singer_arrow.sdk.tap import exact_catalog


def test_state_of_an_earlier_run_is_known_during_discovery() -> None:
    known: list[Any] = []

    class Curious(TapThings):
        def discover_streams(self) -> list[Things]:
            known.append(self.given_state("things"))
            return super().discover_streams()

    Curious(config={}, state={"bookmarks": {"things": {"done": 7}}})
    assert known == [{"done": 7}]


def catalog() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TapThings(config={}).catalog_json_text)
    return found


def test_a_catalog_keeps_every_keyword_on_its_way_out_and_in() -> None:
    given = catalog()
    assert given["streams"][0]["schema"] == SCHEMA
    (schema, *_) = sync({"batches": True}, catalog=given)
    assert schema["schema"] == SCHEMA


def test_numbers_of_a_catalog_are_those_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    price = {"type": ["number", "null"], "multipleOf": 0.01, "maximum": 10**28}
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "price": price}}
    monkeypatch.setattr(waiting_tap, "SCHEMA", schema)
    read: dict[str, Any] = deserialize_json(json.dumps(catalog()).replace("1" + "0" * 28, "1e28"))
    assert read["streams"][0]["schema"] != schema  # the SDK makes Decimals of them
    stream = TapThings(config={}, catalog=read).streams["things"]
    assert isinstance(stream, Things)
    assert stream.selected_schema == stream.catalog_schema() == schema
    assert json.loads(json.dumps(stream.selected_schema)) == schema


def test_deselected_columns_are_not_in_the_schema() -> None:
    given = catalog()
    for entry in given["streams"][0]["metadata"]:
        if entry["breadcrumb"] in ([], ["properties", "id"]):
            entry["metadata"]["selected"] = True
        else:
            entry["metadata"]["selected"] = False
    (schema, *_) = sync({"batches": True}, catalog=given)
    assert list(schema["schema"]["properties"]) == ["id"]


def test_an_object_of_which_nothing_is_selected_is_deselected(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {"type": "string"}}}}}
    monkeypatch.setattr(
        waiting_tap, "SCHEMA", {"type": "object", "properties": {"a": inner, "id": {"type": "integer"}}}
    )
    given = catalog()
    for entry in given["streams"][0]["metadata"]:
        entry["metadata"]["selected"] = entry["breadcrumb"][-1:] != ["c"]
    (schema, *_) = sync({"batches": True}, catalog=given)
    assert list(schema["schema"]["properties"]) == ["id"]


@pytest.mark.parametrize(
    "catalog", [{"streams": [{}]}, {"streams": 5}, {"streams": [{"tap_stream_id": "a", "metadata": [{}]}]}]
)
def test_a_wrong_catalog_is_one_line(catalog: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--discover"):
        exact_catalog(catalog)


@pytest.mark.parametrize("state", [{"bookmarks": []}, {"bookmarks": {"things": 5}}])
def test_a_damaged_state_is_one_line(state: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="STATE is damaged"):
        TapThings(config={}, state=state)


@pytest.mark.parametrize("state", [{"type": "STATE", "value": {"bookmarks": {}}}, {"things": {"done": 7}}])
def test_a_state_without_bookmarks_is_no_empty_one(state: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="give the value of the last STATE message"):
        TapThings(config={}, state=state)
    for empty in ({}, {"bookmarks": {}}, {"bookmarks": {"things": {}}}):
        assert TapThings(config={}, state=empty).given_state("things") == {}


def test_settings_are_checked_in_discovery_too() -> None:
    assert TapThings.dynamic_catalog
    with pytest.raises(ConfigValidationError) as found:
        TapThings(config={"batchs": True})
    assert found.value.errors == ["Setting 'batchs' does not exist; did you mean 'batches'? [config]"]
    with pytest.raises(ConfigError, match="13"):
        TapThings(config={"n": 13})


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is not valid JSON"), ("[]", "must hold a JSON object"), ("", "is not valid JSON")]
)
@pytest.mark.parametrize("option", ["state", "catalog"])
def test_a_file_that_is_no_json_is_one_line(option: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"--{option} {words}"):
        TapThings.invoke(config=_ConfigInput({}), **{option: io.StringIO(text)})  # type: ignore[arg-type]
