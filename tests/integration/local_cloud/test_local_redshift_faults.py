"""COPY and UNLOAD in sessions of the local Redshift, injected faults, and the statement log."""

import io
import json
from collections.abc import Callable
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redshift_connector
from redshift_client import ROLE, Client, Lost, Open, Refused, refused

from local_cloud import Cloud


def put_parquet(s3: Any, bucket: str, name: str = "f", **columns: Any) -> str:
    """Put a Parquet file, and return its manifest."""
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    s3.put_object(Bucket=bucket, Key=f"{name}.parquet", Body=sink.getvalue())
    entry = {"url": f"s3://{bucket}/{name}.parquet", "mandatory": True, "meta": {"content_length": sink.tell()}}
    s3.put_object(Bucket=bucket, Key=f"{name}.json", Body=json.dumps({"entries": [entry]}))
    return f"'s3://{bucket}/{name}.json' {ROLE} format parquet manifest"


# -- COPY and UNLOAD


def test_copy_is_done_each_time_it_is_executed(sql: Client, s3: Any, bucket: str) -> None:
    source = put_parquet(s3, bucket, id=pa.array([1, 2, 3], pa.int32()), label=["a", None, "ä"])
    sql("create table t (id int, label varchar(2))")
    for _ in range(2):
        sql(f"copy t from {source}")
        assert sql("select pg_last_copy_count()") == [(3,)]
    assert sql("select count(*), count(label) from t") == [(6, 4)]
    [(copies, files)] = sql("select pg_last_copy_id(), count(*) from stl_load_commits where query = pg_last_copy_id()")
    assert copies > 0
    assert files == 1


def test_what_a_copy_did_outlives_its_transaction(
    connect: Open, sql: Client, schema: str, s3: Any, bucket: str
) -> None:
    source = put_parquet(s3, bucket, id=pa.array([1, 2, 3], pa.int32()))
    sql("create table t (id int)")
    client = connect(autocommit=False)
    client(f"copy {schema}.t from {source}")
    client.connection.rollback()
    assert client("select pg_last_copy_count()") == [(3,)]
    assert sql("select count(*) from t") == [(0,)]


def test_a_failed_copy_leaves_its_errors(connect: Open, sql: Client, schema: str, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="f.csv", Body="1,a\nx,b\n")
    long = "c" * 100
    sql(f"create table t (id int, {long} varchar(5))")
    client = connect(autocommit=False)
    error = refused(client, f"copy {schema}.t from 's3://{bucket}/f.csv' {ROLE} csv")
    assert error.code == "XX000"
    assert "sys_load_error_detail" in error.message
    client.connection.rollback()
    found = client(
        "select file_name, line_number, trim(column_name), error_code from sys_load_error_detail"
        " where session_id = pg_backend_pid() order by start_time desc limit 1"
    )
    assert found == [(f"s3://{bucket}/f.csv", 2, "id", 1207)]
    [(line, reason)] = client(
        "select line_number, trim(err_reason) from stl_load_errors where query = pg_last_copy_id()"
    )
    assert line == 2
    assert "Invalid digit" in reason
    assert sql("select count(*) from t") == [(0,)]


def test_copy_takes_long_names_and_refuses_parameters(sql: Client, s3: Any, bucket: str) -> None:
    name = "n" * 100
    s3.put_object(Bucket=bucket, Key="f.json", Body=json.dumps({name: 1}))
    sql(f"create table {name} ({name} int)")
    sql(f"copy {name} ({name}) from 's3://{bucket}/f.json' {ROLE} json 'auto'")
    assert sql(f"select {name} from {name}") == [(1,)]
    assert refused(sql, "copy nowhere from 's3://b/k' " + ROLE).code == "42P01"


@pytest.mark.parametrize(
    ("options", "ending"), [("format parquet", ".parquet"), ("csv header gzip", ".gz"), ("delimiter '|' escape", "")]
)
def test_unload_writes_what_copy_reads(sql: Client, s3: Any, bucket: str, options: str, ending: str) -> None:
    sql("create table t (id int, amount decimal(10,2), name varchar(20), at timestamptz)")
    sql(
        "insert into t values (1, 1.10, 'it''s | \\\\ \"q\"', '2024-02-29 12:00+00'), (2, -3, 'b', null),"
        " (3, null, 'c', null)"
    )
    sql(
        f"unload ('select * from t where name <> \\'x\\' order by id') to 's3://{bucket}/out/' {ROLE}"
        f" {options} manifest"
    )
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert keys == [f"out/0000_part_00{ending}", f"out/0001_part_00{ending}", "out/manifest"]
    sql("create table back (like t)")
    if "parquet" in options:
        table = pq.read_table(io.BytesIO(s3.get_object(Bucket=bucket, Key=keys[0])["Body"].read()))
        assert table.schema.types == [pa.int32(), pa.decimal128(10, 2), pa.string(), pa.timestamp("us", "UTC")]
        assert table.to_pylist()[0]["name"] == 'it\'s | \\ "q"'
    else:
        how = "csv ignoreheader 1 gzip null ''" if "csv" in options else f"{options} emptyasnull"
        sql(f"copy back from 's3://{bucket}/out/manifest' {ROLE} manifest {how}")
        assert sql("select * from back order by id") == sql("select * from t order by id")
    assert "not empty" in refused(sql, f"unload ('select 1 as a') to 's3://{bucket}/out/' {ROLE}").message


# -- faults


def test_an_error_on_purpose(sql: Client, redshift_faults: Callable[..., None], schema: str) -> None:
    sql("create table t (id int)")
    redshift_faults({"match": rf"insert into {schema}", "action": "error", "skip": 1, "times": 1})
    sql(f"insert into {schema}.t values (1)")
    error = refused(sql, f"insert into {schema}.t values (2)")
    assert (error.code, error.message) == ("XX000", "1023")
    sql(f"insert into {schema}.t values (3)")
    assert sql("select id from t order by id") == [(1,), (3,)]
    redshift_faults({"match": schema, "action": "error", "code": "57P01", "message": "shutting down", "at": "after"})
    assert refused(sql, f"insert into {schema}.t values (4)").message == "shutting down"


@pytest.mark.parametrize(("at", "rows"), [("before", 0), ("middle", 0), ("after", 1)])
def test_a_connection_lost_around_a_commit(
    connect: Open, sql: Client, redshift_faults: Callable[..., None], schema: str, at: str, rows: int
) -> None:
    sql("create table t (id int)")
    client = connect(autocommit=False)
    client(f"insert into {schema}.t values (1)")
    if at == "middle":  # of a slow statement
        redshift_faults({"match": "pg_sleep", "action": "kill", "at": at, "delay_s": 0.2, "times": 1})
        with pytest.raises(Lost):
            client("select pg_sleep(20)")
    else:
        redshift_faults({"match": "^commit", "action": "kill", "at": at, "times": 1})
        with pytest.raises((Lost, psycopg.OperationalError, redshift_connector.InterfaceError)):
            client("commit")
    assert sql("select count(*) from t") == [(rows,)]


@pytest.mark.parametrize("action", ["kill", "error"])
def test_a_copy_that_ends_in_the_middle(
    sql: Client, connect: Open, redshift_faults: Callable[..., None], schema: str, s3: Any, bucket: str, action: str
) -> None:
    source = put_parquet(s3, bucket, id=pa.array(range(1000), pa.int32()))
    sql("create table t (id int)")
    redshift_faults({"match": "^copy", "action": action, "at": "middle", "times": 1})
    client = connect()
    with pytest.raises((Lost, Refused)) as caught:
        client(f"copy {schema}.t from {source}")
    assert isinstance(caught.value, Lost if action == "kill" else Refused)
    assert sql("select count(*) from t") == [(0,)]
    connect()(f"copy {schema}.t from {source}")
    assert sql("select count(*) from t") == [(1000,)]


def test_replaced_rules_report_how_often_they_applied(sql: Client, redshift_faults: Callable[..., list[int]]) -> None:
    redshift_faults({"match": "nothing"}, {"match": "", "action": "none", "skip": 1, "times": 3})
    for _ in range(6):
        sql("select 1")
    assert redshift_faults({"match": "", "action": "kill"}) == [0, 3]
    assert redshift_faults() == [0]  # statements that set rules are not subject to them


def test_faults_that_cannot_be_understood(cloud: Cloud) -> None:
    with pytest.raises(psycopg.Error, match="wrong faults: unknown key when"):
        cloud.redshift_faults({"when": "now"})


def test_statements_are_kept_without_credentials(sql: Client, cloud: Cloud, schema: str) -> None:
    keys = "access_key_id 'AKIA' secret_access_key 'hidden1' session_token 'hidden2'"
    assert refused(sql, f"copy {schema}.nowhere from 's3://b/k' {keys}").code == "42P01"
    sql(f'select %s::int as "{schema}"', (1,))
    found = [text for text in cloud.redshift_statements() if schema in text]
    assert "secret_access_key '***'" in found[-2]
    assert "hidden" not in str(found)
    assert found[-1].endswith(f'::int as "{schema}"')
