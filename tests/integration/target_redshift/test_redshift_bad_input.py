"""Errors of target-redshift for bad settings, access and tables: one line, exit code 1, no change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from forked_programs import ForkedPrograms
from program_errors import check_contains, error_of
from singer_lines import Batches, Message, lines, record, rows, schema, state
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Programs, Ran

pytestmark = [pytest.mark.parametrize("warehouse", ["redshift"], indirect=True), pytest.mark.usefixtures("warehouse")]
PREFIX = "TARGET_REDSHIFT_"
DENIED = "arn:aws:iam::123456789012:role/copy-denied"


class Target:
    """target-redshift as a process that reads given messages."""

    def __init__(self, run: Programs, folder: Path, secrets: list[str]) -> None:
        self._run, self._folder, self._secrets = run, folder, secrets

    def __call__(self, messages: list[Message], **settings: Any) -> Ran:
        env = {
            name: value for name, value in self._run.env.items() if name.removeprefix(PREFIX).lower() not in settings
        }
        ran = ForkedPrograms(env, self._folder)("target-redshift", stdin=lines(messages), config=["ENV", settings])
        for secret in self._secrets:
            assert secret not in ran.stderr + ran.stdout
        return ran

    def error(self, messages: list[Message], **settings: Any) -> str:
        """Return the one error line, and check that no STATE after the last message was written."""
        ran = self(messages, **settings)
        last = messages[-1]["value"] if messages[-1]["type"] == "STATE" else None
        assert last not in [json.loads(line) for line in ran.stdout.splitlines()]
        return error_of(ran)


@pytest.fixture
def target(run: Programs, cloud: Cloud, tmp_path: Path) -> Target:
    names = ("TARGET_REDSHIFT_PASSWORD", "AWS_SECRET_ACCESS_KEY")
    return Target(run, tmp_path, [cloud.env[name] for name in names] + ["sw0rdfish"])


@pytest.fixture
def on_s3(batch: Batches, s3: Any, bucket: str) -> Callable[..., Message]:
    """Return a batch whose file is on S3."""
    return lambda content=None, where=bucket, **more: to_s3(s3, where, batch(content or rows(0, 2), **more))


def to_s3(s3: Any, bucket: str, message: Message) -> Message:
    (url,) = message["manifest"]
    path = url.removeprefix("file://")
    key = f"b/{path.rpartition('/')[2]}"
    s3.upload_file(path, bucket, key)
    return message | {"manifest": [f"s3://{bucket}/{key}"]}


ONE = [schema(), record(id=1, name="a"), state(1)]


# Settings and log-in


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"password": "sw0rdfish"}, ["password", '"demo"', "{host}"]),
        ({"user": "stranger"}, ['"stranger"', "{host}"]),
        ({"dbname": "nothere"}, ['"nothere"', "{host}"]),
        ({"host": "no-such-host.invalid"}, ["no-such-host.invalid", "host"]),
        ({"host": "127.0.0.1", "port": 9}, ["127.0.0.1:9", "port"]),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, dict) else "",
)
def test_a_log_in_that_fails(settings: dict[str, Any], words: list[str], target: Target, warehouse: Warehouse) -> None:
    line = target.error(ONE, **settings)
    check_contains(line, *(word.format(**warehouse.config) for word in words))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"s3_stge": "s3://stage/x"}, ["'s3_stge' does not exist; did you mean 's3_stage'?"]),
        ({"aws": {"regoin": "x"}}, ["regoin", "did you mean", "region"]),
        ({"iam": {"clusteridentifier": "x"}}, ["clusteridentifier", "did you mean", "cluster_identifier"]),
        ({"load_method": "append"}, ["load_method", "append-only"]),
        ({"varchar_max": 70_000}, ["varchar_max", "65535"]),
        ({"s3_stage": "stage/x"}, ["s3_stage", "stage/x", "s3://bucket/prefix"]),
        ({"s3_stage": None}, ["'s3_stage'"]),
        ({"grants": {"selct": ["x"]}}, ["grants", "selct"]),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, dict) else "",
)
def test_settings_that_are_wrong(settings: dict[str, Any], words: list[str], target: Target) -> None:
    ran = target(ONE, **settings)
    assert ran.code == 1
    assert "Traceback" not in ran.stderr
    check_contains(ran.stderr, *words)


# S3


def test_a_stage_that_does_not_exist(target: Target) -> None:
    line = target.error(ONE, s3_stage="s3://no-such-stage-at-all/x")
    check_contains(line, "s3://no-such-stage-at-all does not exist")


def test_a_role_that_may_not_read_the_bucket(target: Target, on_s3: Any, warehouse: Warehouse, bucket: str) -> None:
    line = target.error([schema(), on_s3(batch_id="a"), state(1)], copy_role_arn=DENIED)
    check_contains(line, DENIED, "Access Denied")
    target([schema(), on_s3(batch_id="a"), state(1)]).check()
    assert warehouse.table() == rows(0, 2)


@pytest.fixture
def abroad(s3: Any, bucket: str) -> str:
    """Create a bucket in another region than the cluster's; `bucket` is in the cluster's region."""
    name = f"{bucket}-eu"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    return name


def test_batch_files_in_another_region(target: Target, on_s3: Any, abroad: str, warehouse: Warehouse) -> None:
    line = target.error([schema(), on_s3(where=abroad, batch_id="a"), state(1)])
    check_contains(line, abroad)
    check_contains(line, "region")


def test_a_stage_in_another_region(target: Target, abroad: str) -> None:
    line = target.error(ONE, s3_stage=f"s3://{abroad}/x")
    check_contains(line, abroad)
    check_contains(line, "region")


@pytest.mark.parametrize("batch_id", [None, "a"])
def test_a_missing_file_in_a_manifest(
    batch_id: str | None, target: Target, on_s3: Any, warehouse: Warehouse, bucket: str
) -> None:
    good = on_s3(rows(0, 2), batch_id="good")
    message = on_s3(rows(2, 2), batch_id=batch_id)
    gone = f"s3://{bucket}/b/gone.parquet"
    line = target.error([schema(), good, message | {"manifest": [*message["manifest"], gone]}, state(1)])
    check_contains(line, gone)
    target([schema(), good]).check()
    assert warehouse.table() == rows(0, 2)


# Tables


OTHERS = [
    ("CREATE TABLE {rows} (id VARCHAR(20), name VARCHAR(256))", ["'id'", "VARCHAR", "BIGINT"]),
    ("CREATE TABLE {rows} (id SMALLINT, name VARCHAR(256))", ["'id'", "SMALLINT", "BIGINT"]),
    ("CREATE TABLE {rows} (id BIGINT, name BIGINT)", ["'name'", "VARCHAR", "BIGINT"]),
    ("CREATE TABLE {rows} (id BIGINT, name DATE)", ["'name'", "DATE", "VARCHAR"]),
    ("CREATE TABLE {rows} (id BIGINT, must BIGINT NOT NULL)", ["'must'"]),
    ("CREATE VIEW {rows} AS SELECT 1::BIGINT AS id, 'x'::VARCHAR(256) AS name", ["view"]),
]


@pytest.mark.parametrize(("ddl", "words"), OTHERS, ids=["-".join(words) for _, words in OTHERS])
def test_a_table_of_other_types(
    ddl: str, words: list[str], target: Target, warehouse: Warehouse, rs: psycopg.Connection[Any]
) -> None:
    rs.execute(f'CREATE SCHEMA "{warehouse.schema}"')
    warehouse.query(ddl)
    before = warehouse.columns("rows")
    line = target.error(ONE, on_drift="fail")
    assert f"{warehouse.schema}.rows" in line.replace('"', "")
    check_contains(line, *words)
    assert warehouse.columns("rows") == before
    assert warehouse.one("SELECT COUNT(*) FROM {rows}") == ("VIEW" in ddl,)


def test_a_schema_that_may_not_be_created(target: Target, rs: psycopg.Connection[Any], warehouse: Warehouse) -> None:
    user = f"user_{warehouse.schema}"
    rs.execute(f"CREATE USER {user} PASSWORD 'sw0rdfish-A1'")
    line = target.error(ONE, user=user, password="sw0rdfish-A1")
    check_contains(line, warehouse.schema)
    check_contains(line, "permission denied")


def test_layouts_that_cannot_be(target: Target, warehouse: Warehouse) -> None:
    for settings, words in [
        ({"dist_key": {"rows": "gone"}}, ["dist_key", "'gone'", "'rows'"]),
        ({"sort_keys": {"rows": ["id", "gone"]}}, ["sort_keys", "'gone'", "'rows'"]),
        ({"grants": {"select": ["nobody_at_all"]}}, ["nobody_at_all", "grants"]),
    ]:
        line = target.error(ONE, **settings)
        check_contains(line, *words)
