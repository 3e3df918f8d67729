"""Parsing of the settings that all targets share."""

from __future__ import annotations

from typing import Any

import pytest

from singer_arrow.errors import ConfigError
from singer_arrow.settings import json_schema
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.warehouse.settings import (
    STORAGE_PARAMS,
    LoadSettings,
    each_value,
    given_settings,
    of_stream,
    storage_options,
)


def test_defaults_are_those_that_are_declared() -> None:
    declared = json_schema(LoadSettings)["properties"]
    defaults = {name: part["default"] for name, part in declared.items() if "default" in part}
    assert LoadSettings() == LoadSettings.from_config(defaults) == LoadSettings.from_config({})


def test_loads_are_read() -> None:
    given = {"load_method": "upsert", "max_batch_mb": 0.5, "replay": "load", "hard_delete": True, "dataset": "d"}
    settings = LoadSettings.from_config(given)
    assert settings == LoadSettings(load_method="upsert", max_batch_bytes=512 << 10, replay="load", hard_delete=True)


def test_every_declared_name_of_aws_is_read() -> None:
    given = {"anonymous": True, "requester_pays": True, "sse_customer_key": "a" * 43 + "="}
    given["role_arn"] = "arn:aws:iam::123456789012:role/reader"
    values: dict[str, Any] = {name: name for name in json_schema(AwsOptions)["properties"]} | given
    options = AwsOptions.from_config(values)
    assert all(getattr(options, name) == value for name, value in values.items())


def test_secrets_are_declared_as_such() -> None:
    secrets = {name for name, setting in json_schema(AwsOptions)["properties"].items() if setting.get("secret")}
    assert secrets == {"access_key_id", "secret_access_key", "session_token", "sse_customer_key"}
    assert STORAGE_PARAMS["secret"]


def test_storage_params_in_the_words_of_s3fs() -> None:
    params = {
        "key": "k",
        "secret": "s",
        "token": "t",
        "client_kwargs": {"endpoint_url": "http://e", "region_name": "r"},
    }
    assert storage_options({"storage": {"params": params}}) == AwsOptions(
        access_key_id="k", secret_access_key="s", session_token="t", endpoint_url="http://e", region="r"
    )
    assert storage_options(None) == storage_options({"storage": {}}) == AwsOptions()
    with pytest.raises(ConfigError, match="'secret' of 'batch_config.storage.params' belong together"):
        storage_options({"storage": {"params": {"key": "k"}}})


def test_null_and_empty_text_are_not_set() -> None:
    assert given_settings({"a": None, "b": "", "c": 0, "d": False}) == {"c": 0, "d": False}


def test_a_setting_of_all_streams_or_of_each() -> None:
    assert of_stream("day", "any") == "day"
    given = {"events_*": 1, "events_new": 2}
    assert [of_stream(given, s) for s in ("events_new", "events_old", "flights")] == [2, 1, None]
    assert list(each_value(given)) == [1, 2]
    assert list(each_value(["a"])) == [["a"]]
    assert list(each_value(None)) == []


def test_where_streams_go() -> None:
    tables = {"orders": "sales.all_orders", "events_*": "web.*", "users": "people", "raw_*": "*_old"}
    settings = LoadSettings.from_config({"tables": tables, "table_prefix": "p_"})
    places = {s: settings.place_of(s) for s in ("orders", "events_x", "users", "raw_1", "z")}
    assert places == {
        "orders": ("sales", "all_orders"),
        "events_x": ("web", "events_x"),
        "users": (None, "people"),
        "raw_1": (None, "raw_1_old"),
        "z": (None, None),
    }
    assert (settings.other_schemas, settings.table_prefix) == ({"sales", "web"}, "p_")


@pytest.mark.parametrize("spec", ["a.", ".b", "a.b.c", "*.b", "."])
def test_what_is_no_table(spec: str) -> None:
    with pytest.raises(
        ConfigError, match=r"Setting 'tables' has '.*'; a table reads table, schema.table or schema\.\*"
    ):
        LoadSettings.from_config({"tables": {"s": spec}})
