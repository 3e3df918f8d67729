"""Settings: parsed values, and the text of errors."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from singer_arrow.errors import ConfigError
from singer_arrow.settings import json_schema
from target_redshift.connection import address, login
from target_redshift.settings import Settings

LEAST: dict[str, Any] = {
    "host": "h.example",
    "user": "u",
    "password": "hush",
    "dbname": "d",
    "default_target_schema": "Sales",
    "s3_stage": "s3://bucket/stage",
}
WITHOUT_LOGIN = {k: v for k, v in LEAST.items() if k not in ("host", "user", "password")}
ROLE = "arn:aws:iam::123456789012:role/path/Copy"


def read(**more: Any) -> Settings:
    config = {k: v for k, v in (LEAST | more).items() if v is not ...}
    jsonschema.validate({k: v for k, v in config.items() if v is not None}, json_schema(Settings))  # as targets do
    return Settings.from_config(config)


def test_the_least() -> None:
    settings = read()
    assert (settings.host, settings.port, settings.dbname, settings.schema) == ("h.example", 5439, "d", "sales")
    assert (settings.ssl, settings.varchar_max, settings.upload_format) == (True, 65_535, "parquet")
    assert str(settings.stage) == "s3://bucket/stage"
    assert settings.slices is None
    assert "hush" not in repr(settings)


def test_empty_text_and_null_mean_not_set() -> None:
    settings = read(copy_role_arn="", slices=None, iam=None, grants=None)
    assert settings.copy_role_arn is None
    assert settings.iam is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"host": ...}, "'host' is missing"),
        ({"user": ""}, "'user' is missing"),
        ({"password": None}, "'password' is missing"),
        ({"default_target_schema": None}, "'default_target_schema' is missing"),
        ({"default_target_schema": "a\0b"}, "'default_target_schema' is not the name"),
        ({"default_target_schema": "ü" * 64}, "'default_target_schema' is not the name"),
        ({"tables": {"a": "a.b.c"}}, "'tables' has 'a.b.c'; a table reads table, schema.table"),
        ({"tables": {"a": f"{'x' * 128}.a"}}, "'tables' has what is not the name of a schema"),
        ({"ssl": False, "sslmode": "verify-ca"}, "needs an encrypted connection"),
        ({"s3_stage": None}, "'s3_stage' is missing"),
        ({"s3_stage": "gs://bucket/x"}, "must read s3://bucket/prefix"),
        ({"s3_stage": "/tmp/stage"}, "must read s3://bucket/prefix"),
        ({"s3_stage": "s3://"}, "names no bucket"),
        ({"s3_stage": "s3://bucket/a\nb"}, "must read s3://bucket/prefix"),
        ({"copy_role_arn": "copy-role"}, "'copy_role_arn' has 'copy-role'"),
        ({"copy_role_arn": f"{ROLE}, {ROLE}"}, "'copy_role_arn' has ' arn:aws"),
        ({"copy_role_arn": f"{ROLE}' x"}, "'copy_role_arn' has"),
        ({"aws": {"anonymous": True}}, "leaves COPY without credentials"),
        ({"aws": {"access_key_id": "a"}}, "belong together"),
        ({"grants": {"own": ["x"]}}, "'grants' has 'own'"),
        ({"sort_keys": ["c"] * 401}, "takes 400 at most"),
        ({"iam": {"workgroup": "w"}}, "two ways to log in"),
        ({"manifest_roots": ["s3://b/../c"]}, "'manifest_roots' has 's3://b/../c'"),
        ({"iam": {"region": "r"}, "password": None}, "one of cluster_identifier and workgroup"),
        ({"iam": {"workgroup": "w", "cluster_identifier": "c"}, "password": None}, "one of cluster_identifier"),
        ({"iam": {"cluster_identifier": "c"}, "user": None, "password": None}, "'iam.db_user' is missing"),
        ({"iam": {"workgroup": "w"}, "password": None, "ssl": False}, "iam needs it"),
        ({"copy_options": ["STATUPDATE ON", "maxerror 5"]}, "'copy_options' has 'maxerror 5'; rows would be left out"),
        ({"copy_options": ["TRUNCATECOLUMNS"]}, "texts would be cut; set long_text"),
        ({"copy_options": ["ACCEPTINVCHARS AS '?'"]}, "texts would change, also of keys"),
        ({"copy_options": ["FILLRECORD"]}, "it is set by the files"),
        ({"copy_options": ["EMPTYASNULL BLANKSASNULL"]}, "depend on the format of its file"),
        ({"copy_options": ["NULL AS 'x'"]}, "depend on the format of its file"),
        ({"copy_options": ["IAM_ROLE 'x'"]}, "set copy_role_arn"),
        ({"copy_options": ["CSV QUOTE AS '%'"]}, "it is set by the files"),
        ({"copy_options": ["STATUPDATE PRESET"]}, "has 'PRESET'; it takes COMPUPDATE, COMPROWS, STATUPDATE and REGION"),
        ({"copy_options": ["COMPUPDATE ONLY"]}, "has 'ONLY'; it takes"),
        ({"copy_options": ["REGION 'x' ; DROP TABLE t"]}, "has '; DROP TABLE t'; it takes"),
        ({"streams": {"a": {"copy_options": ["NOLOAD"]}}}, "'copy_options' has 'NOLOAD'; rows would be left out"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"port": 0},
        {"port": 70_000},
        {"varchar_max": 65_536},
        {"varchar_max": 0},
        {"slices": 0},
        {"ssl": "no"},
        {"sslmode": "require"},
    ],
)
def test_what_the_json_schema_refuses(given: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        read(**given)


def test_what_is_given_stream_by_stream() -> None:
    settings = read(dist_key={"events_*": "user_id", "events_x": "x"}, sort_keys=["at", "id"])
    assert settings.distribution("events_1") == "user_id"
    assert settings.distribution("events_x") == "x"
    assert settings.distribution("orders") is None
    assert settings.sorting("orders") == ["at", "id"]


def test_options_of_copy_in_one_text_or_several() -> None:
    several = ["compupdate  on", "COMPROWS 200000", "STATUPDATE", "REGION AS 'eu-west-1'"]
    found = ("COMPUPDATE on", "COMPROWS 200000", "STATUPDATE", "REGION AS 'eu-west-1'")
    assert read(copy_options=several).copy_options == read(copy_options=[" ".join(several)]).copy_options == found
    settings = read(copy_options=several, streams={"a": {"copy_options": []}})
    assert (settings.of_stream("a").copy_options, settings.of_stream("b").copy_options) == ((), found)


def test_grants_one_by_one() -> None:
    settings = read(grants={"SELECT": ["a", "group:x"], "all": ["role:y"]})
    assert list(settings.grantees) == [("select", "a"), ("select", "group:x"), ("all", "role:y")]


def test_batch_files_are_read_by_aws_or_by_what_the_sdk_hands_to_s3fs() -> None:
    params = {"storage": {"root": "s3://b", "params": {"key": "k", "secret": "s"}}}
    assert Settings.from_config({**LEAST, "batch_config": params}).aws.access_key_id == "k"
    assert Settings.from_config({**LEAST, "batch_config": params, "aws": {"profile": "p"}}).aws.profile == "p"


class TestLogin:
    def test_with_a_password(self) -> None:
        arguments = login(read(ssl=False), {})
        assert arguments["host"] == "h.example"
        assert (arguments["user"], arguments["password"], arguments["ssl"]) == ("u", "hush", False)
        assert arguments["tcp_keepalive"]
        assert "iam" not in arguments

    @pytest.mark.parametrize("mode", ["verify-ca", "verify-full", None])
    def test_how_much_is_checked(self, mode: str | None) -> None:
        assert login(read(sslmode=mode), {}).get("sslmode") == mode

    def test_to_a_cluster_with_iam(self) -> None:
        iam = {"cluster_identifier": "c", "db_user": "etl", "region": "eu-west-1"}
        settings = Settings.from_config({**WITHOUT_LOGIN, "iam": iam})
        arguments = login(settings, {"access_key_id": "a", "secret_access_key": "s", "token": "t"})
        assert arguments["iam"]
        assert (arguments["cluster_identifier"], arguments["db_user"], arguments["region"]) == ("c", "etl", "eu-west-1")
        assert arguments["session_token"] == "t"
        assert "password" not in arguments
        assert address(settings) == "c/d"

    def test_to_a_workgroup_with_iam(self) -> None:
        settings = Settings.from_config({**WITHOUT_LOGIN, "host": "h", "iam": {"workgroup": "w"}})
        arguments = login(settings, {"access_key_id": "a", "secret_access_key": "s"})
        assert (arguments["is_serverless"], arguments["serverless_work_group"]) == (True, "w")
        assert arguments["host"] == "h"
        assert address(settings) == "h:5439/d"
