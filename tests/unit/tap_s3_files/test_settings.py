"""Settings are documented and complete, and invalid ones give a one-line error."""

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from singer_sdk.exceptions import ConfigValidationError

from singer_arrow.batch.message import BatchSettings
from singer_arrow.errors import ConfigError
from singer_arrow.read_options import FixedColumn, ReadOptions
from singer_arrow.settings import json_schema
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.urls import Url
from tap_s3_files import paths
from tap_s3_files.paths import Partitions
from tap_s3_files.run import TapRun
from tap_s3_files.settings import Replication, Settings, StreamSettings, rows_identity
from tap_s3_files.tap import TapS3Files

STREAM = {"name": "a", "path": "s3://b/*.csv"}
BATCH = {"encoding": {"format": "parquet"}, "storage": {"root": "s3://stage/x"}}

QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/events"
SQS = {"method": "sqs", "queue_url": QUEUE}


def read(**config: Any) -> Settings:
    return Settings.from_config({"streams": [STREAM], **config})


def test_flat_names_of_aws_settings_are_accepted() -> None:
    def aws(**config: Any) -> AwsOptions:
        return TapS3Files(config={"streams": [STREAM], **config}, setup_mapper=False).settings.aws

    flat = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    assert aws(**flat, aws={"requester_pays": True}) == AwsOptions(
        access_key_id="k", secret_access_key="s", requester_pays=True
    )
    assert aws(aws_profile="p", aws=None) == AwsOptions(profile="p")
    with pytest.raises(ConfigError, match="Settings 'aws_profile' and 'aws.profile' are the same; leave one out"):
        aws(aws_profile="p", aws={"profile": "q"})


def test_defaults() -> None:
    settings = read(max_workers=3)
    assert settings == Settings((StreamSettings("a", (Url("s3", "b", "*.csv"),)),), workers=3)
    assert (settings.start, settings.end, settings.batch, settings.plan_root) == (None, None, None, None)
    assert (settings.sqs, settings.dask, settings.shard, settings.range_bytes) == (None, None, None, None)
    assert settings.replication.overlap == timedelta(minutes=10)
    assert (settings.replication.keys_ascend, settings.replication.manifest, settings.passthrough) == (
        False,
        None,
        False,
    )
    assert settings.metadata_columns
    assert settings.aws == AwsOptions()
    assert (settings.max_workers, settings.memory_bytes) == (3, 512 << 20)
    assert (settings.sample_files, settings.sample_bytes) == (5, 1 << 20)
    assert settings.streams[0].read == ReadOptions(loose_text=True)
    assert read().max_workers >= 2


def test_everything_set() -> None:
    settings = read(
        streams=[
            {
                "name": "a",
                "path": ["s3://b/1/**", "gs://c/2/*.json"],
                "format": "csv",
                "compression": "gzip",
                "key_properties": ["id"],
                "schema": {"id": "integer"},
                "columns": ["id", "x"],
                "csv": {"delimiter": ";", "null_values": ["", "NA"], "quote": None},
                "fixed_width": [{"name": "id", "start": 1, "width": 5}],
                "on_bad_row": "fail",
                "on_drift": "evolve",
                "partition_columns": True,
            }
        ],
        start_date="2024-05-01",
        end_date="2024-05-02T00:00:00+05:00",
        replication={"method": "polling", "overlap_minutes": Decimal("0.5")},
        batch_config={
            "encoding": {"format": "parquet", "compression": "snappy"},
            "storage": {"root": "file:///tmp/out", "prefix": "p-"},
            "target_file_mb": Decimal("0.5"),
        },
        plan_root="s3://plans/x",
        passthrough=False,
        metadata_columns=False,
        aws={"profile": "p", "region": None},
        max_workers=1,
        memory_limit_mb=100,
        executor="threads",
        schema_sample_files=2,
        schema_sample_mb=Decimal("0.25"),
    )
    (stream,) = settings.streams
    assert stream.paths == (Url("s3", "b", "1/**"), Url("gs", "c", "2/*.json"))
    assert (stream.name, stream.format, stream.key_properties) == ("a", "csv", ("id",))
    assert (stream.types, stream.columns) == ({"id": "integer"}, ("id", "x"))
    columns = (FixedColumn("id", 1, 5),)
    csv = ReadOptions("gzip", loose_text=True, delimiter=";", null_values=("", "NA"), fixed_width=columns)
    assert stream.read == csv
    assert stream.partitions == Partitions(hive=True)
    assert settings.start == datetime(2024, 5, 1, tzinfo=UTC)
    assert settings.end == datetime(2024, 5, 2, tzinfo=timezone(timedelta(hours=5)))
    assert settings.batch == BatchSettings("parquet", Url("file", "", "tmp/out"), "snappy", "p-", 512 << 10)
    assert settings.plan_root == Url("s3", "plans", "x")
    assert settings.replication.overlap == timedelta(seconds=30)
    assert not settings.metadata_columns
    assert settings.aws == AwsOptions(profile="p")
    assert (settings.max_workers, settings.memory_bytes) == (1, 100 << 20)
    assert (settings.sample_files, settings.sample_bytes) == (2, 256 << 10)


ALL: dict[str, Any] = {
    "name": "a",
    "path": ["s3://b/1/{date:%Y/%m/%d}/{c:*}/**", "s3://b/2/{date:%Y/%m/%d}/{c:*}/**"],
    "format": "jsonl",
    "compression": "gzip",
    "schema": {"id": "integer"},
    "columns": ["id"],
    "csv": {"comment": "#", "delimiter": ";", "encoding": "latin-1", "escape": "\\", "header": "auto", "quote": "'"},
    "date_formats": ["%d/%m/%Y"],
    "decimal_point": ",",
    "type_tolerance": 0.01,
    "fixed_width": [{"name": "x", "start": 1, "width": 2}],
    "excel": {"sheet": 2},
    "on_bad_row": "skip",
    "on_drift": "rescue",
    "partition_columns": True,
}


@pytest.mark.parametrize(("stream", "identity"), [(STREAM, "62ed15523699bf14"), (ALL, "bfe185dd59dbbfd0")])
def test_plan_logs_of_earlier_versions_are_of_the_same_settings(stream: dict[str, Any], identity: str) -> None:
    (found,) = read(streams=[stream]).streams
    assert rows_identity(found, (), metadata_columns=True) == identity


def test_plans_are_kept_with_the_batch_files() -> None:
    assert read(batch_config=BATCH).plan_root == Url("s3", "stage", "x")


def test_a_queue() -> None:
    assert read(batch_config=BATCH, replication=SQS).sqs == Replication("sqs", queue_url=QUEUE)
    more = {"visibility_timeout": 30, "max_wait_seconds": Decimal("0.5"), "unmatched_events": "delete"}
    assert read(plan_root="s3://p", replication={**SQS, **more}).sqs == Replication(
        "sqs",
        queue_url=QUEUE,
        visibility_timeout=30,
        max_wait_seconds=0.5,
        delete_unmatched=True,
    )


@pytest.mark.parametrize(("kind", "compression"), [("parquet", "zstd"), ("jsonl", "gzip")])
def test_the_default_compression(kind: str, compression: str) -> None:
    batch = read(batch_config={**BATCH, "encoding": {"format": kind}}).batch
    assert batch is not None
    assert (batch.compression, batch.target_bytes) == (compression, 128 << 20)


@pytest.mark.parametrize(
    ("name", "path", "words"),
    [
        ("{tenant}_{kind}", "s3://b/{tenant}/*.csv", "has no {kind}, which 'name' has"),
        ("orders", "s3://b/{tenant}/*.csv", "has 'tenant' in braces, and 'name' has not"),
        ("{tenant}", "s3://b/in/{tenant}.csv", "has a placeholder of 'name' in the names of files"),
        ("{tenant}", "s3://b/**/{tenant}/*.csv", "has a **, a date or folders in braces before a placeholder"),
        ("{tenant}", "s3://b/{date:%Y}/{tenant}/*.csv", "has a **, a date or folders in braces before a placeholder"),
        ("{tenant}", "s3://b/{a/b,c}/{tenant}/*.csv", "has a **, a date or folders in braces before a placeholder"),
        ("{a}{b}", "s3://b/{a}{b}/*.csv", "has a * right beside another one"),
        ("{a}", "s3://b/{a}/{a}/*.csv", "has two groups named 'a'"),
        ("{a", "s3://b/x/*.csv", "name' is '{a': braces are for placeholders such as {tenant}"),
        ("{a:*}", "s3://b/{a:*}/*.csv", "name' is '{a:*}': braces are for placeholders such as {tenant}"),
    ],
)
def test_placeholders_that_name_no_folder_are_an_error(name: str, path: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(streams=[{"name": name, "path": path}])
    assert words in str(caught.value)
    assert str(caught.value).startswith("Setting 'streams[0].")


def test_folders_are_not_found_by_a_queue() -> None:
    config = {"streams": [{"name": "{a}", "path": "s3://b/{a}/*"}], "replication": SQS, "plan_root": "s3://b/p"}
    with pytest.raises(ConfigError, match="is sqs, and the folders of '{a}' are found by listing; use polling"):
        TapS3Files(config=config, setup_mapper=False)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"executor": "dask"}, "Setting 'dask_scheduler' is missing"),
        ({"dask_scheduler": "tls://h:1"}, "Setting 'dask_scheduler' is for executor dask"),
        ({"executor": "dask", "dask_scheduler": "h:8786"}, "Setting 'dask_scheduler' is 'h:8786'; it must be"),
        ({"executor": "dask", "dask_scheduler": "tcp://127.0.0.1.x.org:1"}, "run code on the workers"),
        ({"executor": "dask", "dask_scheduler": "tcp://[::2]:1"}, "run code on the workers"),
        ({"executor": "dask", "dask_scheduler": "tcp://[::1]:1"}, "needs 'batch_config'"),
        (
            {"executor": "dask", "dask_scheduler": "tcp://localhost:1", "dask_tls": {"ca_file": "a"}},
            "for a scheduler at",
        ),
        (
            {"executor": "dask", "dask_scheduler": "tls://h:1", "dask_tls": {"ca_file": "a", "cert_file": "b"}},
            "'dask_tls.key_file' is missing",
        ),
        ({"replication": {"method": "inventory"}}, "'replication.manifest_url' is missing"),
        ({"replication": {"manifest_url": "s3://b/m"}}, "'replication.manifest_url' is for the method inventory"),
        (
            {
                "replication": {"method": "inventory", "manifest_url": "s3://b/m"},
                "streams": [{"name": "a", "path": "x"}],
            },
            "'replication.method' is inventory, which lists objects on S3 only",
        ),
        ({"replication": {"queue_url": QUEUE}}, "'replication.queue_url' is for the method sqs"),
        ({"replication": SQS}, "'replication.method' is sqs: it needs 'plan_root'"),
        ({"replication": {"method": "sqs"}, "plan_root": "s3://p"}, "'replication.queue_url' is missing: the URL"),
        ({"replication": {**SQS, "queue_url": "arn:aws:sqs:x"}, "plan_root": "s3://p"}, "must be the queue's URL"),
        (
            {"replication": SQS, "plan_root": "s3://p", "streams": [{"name": "a", "path": "gs://b/*"}]},
            "'replication.method' is sqs, which names objects on S3 only; gs://b/* needs polling",
        ),
        ({"streams": [STREAM, STREAM]}, "two streams named 'a'"),
        ({"streams": []}, "'streams' is empty"),
        ({"streams": [{"name": "", "path": "x"}]}, "must not be empty"),
        ({"streams": [{"name": "a", "path": []}]}, "must not be empty"),
        ({"streams": [{**STREAM, "columns": []}]}, "'streams[0].columns' is empty"),
        ({"streams": [{"name": "a", "path": "s3:///x"}]}, "names no bucket"),
        ({"start_date": "tomorrow"}, "'start_date' is 'tomorrow'"),
        (
            {"start_date": "-7m"},
            "'start_date' is '-7m', it must be a date or a time like 2024-05-01T00:00:00Z, or like",
        ),
        ({"start_date": "2024-05-02", "end_date": "2024-05-02"}, "'start_date' must be before 'end_date'"),
        (
            {"batch_config": {**BATCH, "encoding": {"format": "jsonl", "compression": "zstd"}}},
            "'batch_config.encoding.compression' is 'zstd', jsonl batch files have gzip or none",
        ),
        ({"aws": {"access_key_id": "x"}}, "belong together"),
        ({"aws": {"sse_customer_key": "a" * 43 + "="}, "passthrough": True}, "only aws.sse_customer_key decrypts"),
    ],
)
def test_invalid_settings_are_an_error(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**config)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (
            {"streams": [{**STREAM, "fromat": "csv"}]},
            "Setting 'streams[0].fromat' does not exist; did you mean 'format'?",
        ),
        ({"streams": [STREAM], "max_worker": 1}, "Setting 'max_worker' does not exist; did you mean 'max_workers'?"),
        ({"streams": [{"name": "a"}]}, "Setting 'streams[0]' lacks 'path'"),
        ({}, "The settings lack 'streams', for example"),
        ({"streams": ["s3://b/*.csv"]}, "Setting 'streams[0]' must be an object, it is text"),
        ({"streams": [STREAM], "batch_config": "s3://b"}, "Setting 'batch_config' must be an object, it is text"),
        ({"streams": [{**STREAM, "format": "docx"}]}, "Setting 'streams[0].format' is 'docx', it must be one of"),
        ({"streams": [STREAM] * 2, "defaults": {"path": "x"}}, "Setting 'defaults.path' does not exist"),
        (
            {"streams": [STREAM] * 2, "defaults": {"csv": {"skip_rows": "1"}}},
            "Setting 'defaults.csv.skip_rows' must be an integer, it is text",
        ),
        ({"streams": [STREAM], "max_workers": 0}, "Setting 'max_workers' is not valid: 0 is less than"),
        (
            {"streams": [STREAM], "batch_config": {**BATCH, "batch_size": 5}},
            "Setting 'batch_config.batch_size' does not exist; batch_config has encoding, storage, target_file_mb",
        ),
    ],
)
def test_wrong_and_unknown_settings_are_one_line_each(config: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigValidationError) as found:
        TapS3Files(config=config)
    (problem,) = found.value.errors
    assert problem.startswith(line)


def test_every_setting_has_a_description() -> None:
    def check(schema: dict[str, Any], where: str) -> None:
        for name, setting in schema.get("properties", {}).items():
            assert setting.get("description"), f"{where}{name}"
            check(setting, f"{where}{name}.")
            check(setting.get("items", {}), f"{where}{name}[].")

    check(json_schema(Settings), "")


def test_secrets_are_marked() -> None:
    aws = json_schema(Settings)["properties"]["aws"]["properties"]
    secret = {"access_key_id", "secret_access_key", "session_token", "sse_customer_key"}
    assert {n for n, s in aws.items() if s.get("secret")} == secret
    assert set(aws) == set(AwsOptions.__dataclass_fields__)


def test_how_values_are_written_is_set_by_stream() -> None:
    spelling: dict[str, Any] = {"date_formats": ["%d/%m/%Y"], "decimal_point": ",", "type_tolerance": 0.01}
    (stream,) = read(streams=[{**STREAM, **spelling, "true_values": ["ja"], "false_values": None}]).streams
    expected = {**spelling, "date_formats": ("%d/%m/%Y",), "true_values": ("ja",)}
    assert stream.read == ReadOptions(loose_text=True, **expected)
    with pytest.raises(ConfigError, match="is not a date format"):
        read(streams=[{**STREAM, "date_formats": ["dd/mm/yyyy"]}])


def test_local_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (path,) = read(streams=[{"name": "a", "path": "data/*.csv"}]).streams[0].paths
    assert path.local_path() == tmp_path / "data" / "*.csv"


@pytest.mark.parametrize("name", ["batch_config", "replication", "aws", "plan_root"])
def test_null_means_not_set(name: str) -> None:
    assert TapS3Files(config={"streams": [STREAM], name: None}, setup_mapper=False).settings == read()


@pytest.mark.parametrize(
    ("memory", "workers", "held"), [(512, 2, 32), (512, 1, 64), (512, 8, 8), (64, 2, 8), (512, 64, 8), (8192, 32, 32)]
)
def test_rows_that_are_gathered_are_an_eighth_of_the_memory(memory: int, workers: int, held: int) -> None:
    config = {"streams": [{"name": "a", "path": "s3://b/a.csv"}], "memory_limit_mb": memory, "max_workers": workers}
    assert Settings.from_config(config).held_bytes == held << 20


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({"streams": [{"name": "a", "path": ["s3://b/*.csv", "s3://b/${DAY}/*.csv"]}]}, "'streams[0].path[1]'"),
        ({"plan_root": "s3://${DAY:-x}/plans"}, "'plan_root'"),
    ],
)
def test_a_variable_that_is_left_in_a_path_is_a_fault_of_the_settings(more: dict[str, Any], setting: str) -> None:
    config = {"streams": [{"name": "${not a place}", "path": "s3://b/*.csv"}]} | more
    with pytest.raises(ConfigValidationError) as caught:
        TapS3Files(config=config, setup_mapper=False)
    (line,) = caught.value.errors
    assert line.startswith(f"Setting {setting} holds ${{DAY")
    assert "which nothing has replaced; set the variable, or write its value" in line


def test_streams_have_the_defaults_that_they_do_not_replace() -> None:
    config = {
        "defaults": {
            "format": "csv",
            "on_bad_row": "skip",
            "csv": {"delimiter": ";", "quote": "'"},
            "schema": {"id": "integer"},
            "key_properties": ["id"],
            "load_method": "upsert",
        },
        "streams": [
            {"name": "a", "path": "s3://b/a", "csv": {"delimiter": "|"}, "schema": {"at": "date"}, "load_method": None},
            {"name": "b", "path": "s3://b/b", "format": "auto", "on_bad_row": "fail", "key_properties": []},
        ],
    }
    a, b = TapS3Files(config=config, setup_mapper=False).settings.streams
    assert (a.format, a.read.on_bad_row, a.read.delimiter, a.read.quote) == ("csv", "skip", "|", "'")
    assert (a.types, a.key_properties, a.load_method) == ({"id": "integer", "at": "date"}, ("id",), None)
    assert (b.format, b.read.on_bad_row, b.read.delimiter, b.key_properties) == ("auto", "fail", ";", ())
    assert (b.types, b.load_method) == ({"id": "integer"}, "upsert")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("-7d", "2024-05-01T00:00"),
        ("-1w", "2024-05-01T00:00"),
        ("-3h", "2024-05-08T10:00"),
        ("today", "2024-05-08T00:00"),
        ("yesterday", "2024-05-07T00:00"),
        ("monday", "2024-05-06T00:00"),
        ("wednesday", "2024-05-08T00:00"),
        ("thursday", "2024-05-02T00:00"),
        ("2024-05-01", "2024-05-01T00:00"),
    ],
)
def test_dates_may_be_relative_to_now(text: str, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wednesday(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls(2024, 5, 8, 13, 30, 5, 7, tzinfo=tz)

    monkeypatch.setattr(paths, "datetime", Wednesday)
    assert read(start_date=text).start == datetime.fromisoformat(start).replace(tzinfo=UTC)


def test_a_plan_log_is_of_the_same_source_each_day() -> None:
    def source(**window: str) -> str:
        settings = read(**window)
        given = TapRun(settings, lambda _: {}).object_filter(settings.streams[0])
        return str(given.moments)

    assert source(start_date="-7d", end_date="today") == "('-7d', 'today')"
    assert source(start_date="2024-05-01") == source() == "()"


def test_variables_of_configuration_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAD", "s3://lake")
    monkeypatch.setenv("EMPTY", "")
    (tmp_path / ".env").write_text("OF_FILE=orders\nFILES=7\n")
    config = {
        "streams": [{"name": "${OF_FILE}", "path": ["${LEAD}/a/**", "${NOT_SET:-s3://x}/${EMPTY:-e}"], "comment": 1}],
        "schema_sample_files": "${FILES}",
        "metadata_columns": "${META:-false}",
        "stream_maps": {"orders": {"price": "$${X} ${LEAD}"}},
    }
    (tmp_path / "c.json").write_text(json.dumps(config))
    assert TapS3Files.read_config([str(tmp_path / "c.json")]) == {
        "streams": [{"name": "orders", "path": ["s3://lake/a/**", "s3://x/e"], "comment": 1}],
        "schema_sample_files": 7,
        "metadata_columns": False,
        "stream_maps": {"orders": {"price": "${X} s3://lake"}},
    }
    (tmp_path / "c.json").write_text(json.dumps({"aws": {"secret_access_key": "${KEY_OF_NOBODY}"}}))
    (tmp_path / "d.json").write_text('{"plan_root": "${EMPTY}"}')
    assert TapS3Files.read_config([str(tmp_path / "d.json")]) == {"plan_root": ""}
    with pytest.raises(ConfigError, match=r"c\.json needs variable KEY_OF_NOBODY, which is not set; set it, or write"):
        TapS3Files.read_config([str(tmp_path / "c.json")])


@pytest.mark.parametrize("sheet", ["2", 2])
def test_a_name_of_digits_in_a_file_is_no_number(sheet: str | int, tmp_path: Path) -> None:
    """A sheet that is named 2 need not be the second one."""
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"streams": [{**STREAM, "excel": {"sheet": sheet}}]}))
    (stream,) = TapS3Files(config=dict(TapS3Files.read_config([str(path)])), setup_mapper=False).settings.streams
    assert (stream.read.sheet, type(stream.read.sheet)) == (sheet, type(sheet))
