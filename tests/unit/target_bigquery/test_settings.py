"""Settings are parsed, or refused with one line that names the setting and the problem."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from singer_sdk.exceptions import ConfigValidationError

from singer_arrow.errors import ConfigError
from singer_arrow.settings import json_schema
from target_bigquery.settings import Settings
from target_bigquery.target import TargetBigQuery

MINIMAL = {"project": "p", "dataset": "d"}


def read(**config: Any) -> Settings:
    return Settings.from_config(MINIMAL | config)


def test_defaults() -> None:
    settings = read()
    assert (settings.project, settings.dataset, settings.load_method, settings.load_format) == (
        *("p", "d", None, "auto"),
    )
    assert (settings.max_parallel_loads, settings.max_batch_age_seconds, settings.max_batch_bytes) == (4, 60, 512 << 20)
    assert settings.replay is None
    assert settings.of_stream("any").load_method == "append-only"


def test_of_the_entries_of_a_stream_the_most_exact_that_has_a_setting_counts() -> None:
    settings = read(
        load_method="upsert",
        partition_by={"events_*": "at"},
        streams={
            "events_a": {"hard_delete": True, "table": "x.y", "partition_by": None},
            "events_*": {"load_method": "overwrite", "partition_by": "day", "hard_delete": False},
            "*": {"on_drift": "fail", "partition_by": "month:month"},
            "events_[ab]": {"partition_by": "hour:hour"},
        },
    )
    a, b, c, other = (settings.of_stream(s, sent="append-only") for s in ("events_a", "events_b", "events_c", "rest"))
    assert [s.load_method for s in (a, b, c, other)] == ["overwrite"] * 3 + ["upsert"]
    assert [s.hard_delete for s in (a, b, c, other)] == [True, False, False, False]
    assert a.partitioning("events_a") == b.partitioning("events_b") == ("hour", "HOUR")
    assert (c.partitioning("events_c"), other.partitioning("rest")) == (("day", "DAY"), ("month", "MONTH"))
    assert (a.place_of("events_a"), a.on_drift) == (("x", "y"), "fail")
    assert read().of_stream("rest", sent="upsert").load_method == "upsert"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"partition_by": "at:week"}, "Setting 'streams.orders': Setting 'partition_by' has 'at:week'"),
        ({"table": "a.b.c"}, "Setting 'streams.orders': Setting 'table' has 'a.b.c'; a table reads"),
        ({"table": "my-dataset.t"}, "Setting 'streams.orders': Setting 'tables' has 'my-dataset'"),
    ],
)
def test_an_entry_of_a_stream_that_cannot_be_used_is_an_error(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        read(streams={"orders": entry})


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"load_metod": "upsert"}, "Setting 'streams.orders.load_metod' does not exist; did you mean 'load_method'?"),
        ({"load_method": "merge"}, "Setting 'streams.orders.load_method' is 'merge', it must be one of"),
        ({"partition_by": {"a": "b"}}, "Setting 'streams.orders.partition_by' must be text, it is an object"),
        ("upsert", "Setting 'streams.orders' must be an object, it is text"),
    ],
)
def test_wrong_entries_of_streams_are_one_line_each(entry: Any, line: str) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        TargetBigQuery(config=MINIMAL | {"streams": {"orders": entry}})
    (found,) = caught.value.errors
    assert found.startswith(line)


@pytest.mark.parametrize(("limit", "bytes_"), [(1e9, 10**9), (10**9, 10**9), (None, None)])
def test_a_limit_is_a_whole_number(limit: Any, bytes_: int | None) -> None:
    found = read(bytes_billed_limit=limit).bytes_billed_limit
    assert (found, type(found)) == (bytes_, type(bytes_))


def test_default_target_schema_names_the_dataset() -> None:
    assert Settings.from_config({"project": "p", "default_target_schema": "s"}).dataset == "s"
    assert read(default_target_schema="d").dataset == "d"
    with pytest.raises(ConfigError, match="'dataset' \\(d\\) and 'default_target_schema' \\(s\\) differ"):
        read(default_target_schema="s")
    with pytest.raises(ConfigError, match="'dataset' is missing"):
        Settings.from_config({"project": "p"})
    with pytest.raises(ConfigError, match="only letters, digits and underscores"):
        read(dataset="a-b")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"gcs_stage": "s3://b/p"}, "'gcs_stage' is 's3://b/p'; it reads gs://bucket/prefix"),
        ({"api_endpoint": "bigquery.example.com"}, "'api_endpoint' is 'bigquery.example.com'; it reads https://host"),
        ({"api_endpoint": "http://u:hidden@h"}, "'api_endpoint' is 'http://h'; .* no user"),
        ({"api_endpoint": "http://h:x"}, "'api_endpoint' is 'http://h:x'"),
        ({"project": "a/b c"}, "'project' is 'a/b c'; a project's id has letters, digits and hyphens"),
        ({"job_project": "a@b"}, "'job_project' is 'a@b'; a project's id has letters, digits and hyphens"),
        ({"gcs_stage": "gs://b/p*"}, "'gcs_stage' is .* it reads gs://bucket/prefix"),
        ({"clean_up_batch_files": True}, "'clean_up_batch_files' needs 'manifest_roots'"),
        (
            {"load_via": "storage_write", "api_endpoint": "http://127.0.0.1:9"},
            "'load_via' is storage_write, and setting 'api_endpoint' .*set 'storage_write_endpoint' too",
        ),
        ({"credentials_path": "a", "credentials_json": "{}"}, "two ways to set the credentials"),
        ({"credentials_json": "not json"}, "'credentials_json' is not valid JSON"),
        ({"credentials_json": "[1]"}, "'credentials_json' must hold a JSON object"),
        ({"partition_by": "at:week"}, "must be one of hour, day, month, year"),
        ({"partition_by": {"x": "at:week"}}, "must be one of hour, day, month, year"),
        ({"cluster_by": ["a", "b", "c", "d", "e"]}, "takes four at most"),
        ({"kms_key": "mine"}, "must read projects/P"),
        ({"reservation": "mine"}, "must read projects/P/locations/L/reservations/R, or none"),
        ({"grants": {"roles/x": ["a@b.c"]}}, "'grants' has roles/x: a@b.c; it reads roles/bigquery.dataViewer"),
        ({"grants": {"select": ["user:a@b.c"]}}, "'grants' has select: user:a@b.c"),
        ({"tables": {"a": "my-set.a"}}, "'tables' has 'my-set'; a dataset's name has only letters"),
        ({"tables": {"a": "p.d.a"}}, "'tables' has 'p.d.a'; a table reads table, schema.table"),
        ({"manifest_roots": ["s3://"]}, "Setting 'manifest_roots' has 's3://'"),
        ({"labels": {"Team": "x"}}, "lower case"),
        ({"labels": {"team": "X"}}, "lower case"),
        ({"batch_config": {"storage": {"params": {"key": "a"}}}}, "belong together"),
    ],
    ids=str,
)
def test_what_is_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read(**config)
    assert "\n" not in str(caught.value)


def test_partitions_and_clusters_by_stream() -> None:
    everywhere = read(partition_by="at", cluster_by=["a"])
    assert everywhere.partitioning("any") == ("at", "DAY")
    assert everywhere.clustering("any") == ["a"]
    by_stream = read(partition_by={"events_*": "at:month", "events_x": "day"}, cluster_by={"users": ["id"]})
    assert by_stream.partitioning("events_1") == ("at", "MONTH")
    assert by_stream.partitioning("events_x") == ("day", "DAY")
    assert by_stream.partitioning("users") is None
    assert by_stream.clustering("users") == ["id"]
    assert by_stream.clustering("events_1") == []


def test_older_forms_of_settings_mean_the_same_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    older = {"tables": {"a": "x.y"}, "partition_by": {"a": "at:month"}, "cluster_by": {"a": ["id"]}}
    newer = {"streams": {"a": {"table": "x.y", "partition_by": "at:month", "cluster_by": ["id"]}}}
    for form in (older, newer):
        TargetBigQuery(config=MINIMAL | form)
        of_a = read(**form).of_stream("a")
        assert (of_a.place_of("a"), of_a.partitioning("a"), of_a.clustering("a")) == (
            ("x", "y"),
            ("at", "MONTH"),
            ["id"],
        )
    assert not [line for line in caplog.records if line.levelname == "WARNING"]


def test_credentials_for_batch_files_are_those_that_the_sdk_hands_to_s3fs() -> None:
    params = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": "http://x", "region_name": "eu-west-1"}}
    aws = read(batch_config={"storage": {"root": "s3://b", "params": params}}).aws
    assert (aws.access_key_id, aws.secret_access_key, aws.endpoint_url, aws.region) == (
        "k",
        "s",
        "http://x",
        "eu-west-1",
    )


def test_secrets_are_not_shown() -> None:
    settings = read(credentials_json=json.dumps({"private_key": "SECRET"}))
    assert settings.credentials == {"private_key": "SECRET"}
    assert "SECRET" not in repr(settings)


def test_every_setting_is_described() -> None:
    assert all(s["description"].endswith((".", ")", "K.")) for s in json_schema(Settings)["properties"].values())
    contract = (
        *("project", "dataset", "default_target_schema", "location", "credentials_path", "credentials_json"),
        *("impersonate_service_account", "api_endpoint", "load_method", "load_format", "load_via", "gcs_stage"),
        *("manifest_roots", "clean_up_batch_files", "storage_write_endpoint"),
        *(
            "max_parallel_loads",
            "max_batch_age_seconds",
            "max_batch_mb",
            "hard_delete",
            "replay",
            "on_drift",
            "partition_by",
            "keys_stay_in_partition",
        ),
        *("cluster_by", "nested", "labels", "kms_key", "table_prefix", "bytes_billed_limit"),
    )
    assert set(json_schema(Settings)["properties"]) >= set(contract)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"projct": "p"}, "Setting 'projct' does not exist; did you mean 'project'?"),
        ({"load_method": "append"}, "Setting 'load_method' is 'append', it must be one of"),
        ({"max_parallel_loads": 0}, "Setting 'max_parallel_loads' is not valid"),
        ({"max_batch_mb": "many"}, "Setting 'max_batch_mb' must be a number, it is text"),
        ({"credentials_json": 7}, "Setting 'credentials_json' must be"),
    ],
    ids=str,
)
def test_the_sdk_gets_one_line_a_problem(config: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        TargetBigQuery(config=MINIMAL | config)
    (found,) = caught.value.errors
    assert found.startswith(line)


def test_settings_of_every_kind_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "PROJECT": "p",
        "DATASET": "d",
        "MAX_BATCH_MB": "0.5",
        "MAX_PARALLEL_LOADS": "3",
        "HARD_DELETE": "true",
        "LABELS": '{"team": "x"}',
        "PARTITION_BY": "at:month",
        "CLUSTER_BY": '["a", "b"]',
        "CREDENTIALS_JSON": '{"type": "x"}',
    }
    for name, value in given.items():
        monkeypatch.setenv(f"TARGET_BIGQUERY_{name}", value)
    settings = TargetBigQuery(config={}, parse_env_config=True).run.settings
    assert (settings.max_batch_bytes, settings.max_parallel_loads, settings.hard_delete) == (1 << 19, 3, True)
    assert settings.labels == {"team": "x"}
    assert settings.partitioning("s") == ("at", "MONTH")
    assert settings.clustering("s") == ["a", "b"]
    assert settings.credentials == {"type": "x"}
    monkeypatch.setenv("TARGET_BIGQUERY_PARTITION_BY", '{"s": "at"}')
    assert TargetBigQuery(config={}, parse_env_config=True).run.settings.partitioning("s") == ("at", "DAY")
    monkeypatch.setenv("TARGET_BIGQUERY_MAX_PARALLEL_LOADS", "many")
    with pytest.raises(ConfigValidationError) as caught:
        TargetBigQuery(config={}, parse_env_config=True)
    assert caught.value.errors == ["Setting 'max_parallel_loads' must be an integer, it is text [config]"]


def test_keys_that_stay_are_set_for_all_streams_or_some() -> None:
    assert not read().keys_stay("a")
    assert read(keys_stay_in_partition=True).keys_stay("a")
    some = read(keys_stay_in_partition={"a*": True, "ab": False})
    assert [some.keys_stay(stream) for stream in ("a", "ab", "b")] == [True, False, False]
