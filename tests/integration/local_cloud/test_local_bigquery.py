"""The local BigQuery behaves like BigQuery or refuses the request, as seen by the public client."""

import datetime as dt
import io
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bigquery_files import Load, avro, rows
from file_bytes import parquet_of
from google.api_core.exceptions import BadRequest, Conflict, Forbidden, GoogleAPICallError, NotFound
from google.cloud import bigquery

from local_cloud import Cloud, LocalCloudError
from local_cloud.faults.client import FaultProxy


def test_appending_other_types_is_refused(bq: Any, here: str, load_bytes: Load) -> None:
    bq.query_and_wait(f"CREATE TABLE {here}.t (a STRING, j JSON, r INT64 NOT NULL)")
    with pytest.raises(BadRequest, match="Field a has changed type from STRING to INTEGER"):
        load_bytes("t", "PARQUET", parquet_of(a=[1]))
    with pytest.raises(BadRequest, match="Field j has changed type from JSON to STRING"):
        load_bytes("t", "AVRO", avro([{"j": "{}"}], ("j", "string")))
    with pytest.raises(BadRequest, match="Field r has changed mode from REQUIRED to NULLABLE"):
        load_bytes("t", "PARQUET", parquet_of(r=[1]))
    with pytest.raises(BadRequest, match="Cannot add fields"):
        load_bytes("t", "AVRO", avro([{"b": 1}], ("b", "long")))
    assert bq.get_table(f"{here}.t").num_rows == 0


def test_names_of_tables_have_case(bq: Any, here: str, load_bytes: Load) -> None:
    for number, name in enumerate(("orders", "Orders", "ÖRDERS", "öRDERS")):
        load_bytes(name, "PARQUET", parquet_of(a=[number]))
    bq.query_and_wait(f"CREATE VIEW {here}.Seen AS SELECT Orders.a FROM {here}.Orders")
    bq.query_and_wait(f"ALTER TABLE {here}.`öRDERS` RENAME TO OrderS")
    assert {t.table_id for t in bq.list_tables(here)} == {"orders", "Orders", "ÖRDERS", "OrderS", "Seen"}
    bq.query_and_wait(f"UPDATE {here}.Orders SET a = o.a + 10 FROM {here}.orders AS o WHERE TRUE")
    merge = f"MERGE {here}.OrderS AS t USING {here}.Orders AS o ON t.a = o.a WHEN NOT MATCHED THEN INSERT ROW"
    bq.query_and_wait(merge)
    bq.query_and_wait(f"DELETE FROM {here}.OrderS WHERE OrderS.a = 3")
    found = {name: [row["a"] for row in rows(bq, f"{here}.{name}")] for name in ("orders", "Orders", "OrderS", "Seen")}
    assert found == {"orders": [0], "Orders": [10], "OrderS": [10], "Seen": [10]}
    suffixes = bq.query_and_wait(f"SELECT _TABLE_SUFFIX AS s FROM `{here}.Order*` ORDER BY s")
    assert [row["s"] for row in suffixes] == ["S", "s"]
    bq.copy_table(f"{here}.Orders", f"{here}.orderS").result()
    bq.delete_table(f"{here}.Orders")
    with pytest.raises(NotFound, match=rf"{here}\.Orders\b"):
        bq.query_and_wait(f"SELECT * FROM {here}.Orders")
    with pytest.raises(Conflict, match=r"Already Exists: Table .*orderS$"):
        bq.create_table(f"{here}.orderS")
    assert rows(bq, f"{here}.orderS") == [{"a": 10}]


def test_names_of_tables_may_be_those_of_python_modules(bq: Any, here: str, load_bytes: Load) -> None:
    for name in ("types", "re"):
        load_bytes(name, "PARQUET", parquet_of(a=[1]))
        load_bytes(name, "PARQUET", parquet_of(a=[2]))
        bq.query_and_wait(f"UPDATE {here}.{name} SET a = a + 1 WHERE a = 2")
        assert [row["a"] for row in rows(bq, f"{here}.{name}")] == [1, 3]


def test_columns_are_added_where_that_is_allowed(bq: Any, here: str, load_bytes: Load) -> None:
    load_bytes("t", "PARQUET", parquet_of(a=[1]))
    load_bytes("t", "PARQUET", parquet_of(b=["x"], a=[2]), schema_update_options=["ALLOW_FIELD_ADDITION"])
    bq.query_and_wait(f"ALTER TABLE {here}.t ADD COLUMN IF NOT EXISTS c JSON, ADD COLUMN d DATE")
    assert rows(bq, f"{here}.t") == [
        {"a": 1, "b": None, "c": None, "d": None},
        {"a": 2, "b": "x", "c": None, "d": None},
    ]


def test_types_of_columns_are_changed_where_values_are_coerced(bq: Any, here: str, load_bytes: Load) -> None:
    bq.query_and_wait(f"CREATE TABLE {here}.t (a INT64 NOT NULL, d DATE, n NUMERIC) PARTITION BY d CLUSTER BY a")
    bq.query_and_wait(f"INSERT INTO {here}.t VALUES ({2**63 - 1}, '2024-02-29', 1.5)")
    created = bq.get_table(f"{here}.t").created
    for change in ("a SET DATA TYPE NUMERIC", "a SET DATA TYPE NUMERIC", "n SET DATA TYPE BIGNUMERIC"):
        bq.query_and_wait(f"ALTER TABLE {here}.t ALTER COLUMN {change}")
    table = bq.get_table(f"{here}.t")
    found = [(f.name, f.field_type, f.mode) for f in table.schema]
    assert found == [("a", "NUMERIC", "REQUIRED"), ("d", "DATE", "NULLABLE"), ("n", "BIGNUMERIC", "NULLABLE")]
    assert (table.created, table.time_partitioning.field, table.clustering_fields) == (created, "d", ["a"])
    assert rows(bq, f"{here}.t") == [{"a": 2**63 - 1, "d": dt.date(2024, 2, 29), "n": Decimal("1.5")}]
    for change in ("a SET DATA TYPE INT64", "d SET DATA TYPE TIMESTAMP", "a SET DATA TYPE STRING"):
        with pytest.raises(BadRequest, match=r"existing column type \(\w+\) is assignable to the new type"):
            bq.query_and_wait(f"ALTER TABLE {here}.t ALTER COLUMN {change}")
    with pytest.raises(BadRequest, match="Field a has changed type from NUMERIC to INTEGER"):
        load_bytes("t", "PARQUET", parquet_of(a=[1]), schema=[bigquery.SchemaField("a", "INTEGER", "REQUIRED")])


def test_fields_are_added_within_columns(bq: Any, here: str, load_bytes: Load) -> None:
    options = bigquery.ParquetOptions()  # type: ignore[no-untyped-call] # google.cloud types its API in part
    options.enable_list_inference = True
    load_bytes("t", "PARQUET", parquet_of(s=[{"x": 1}], l=[[{"y": "a"}]]), parquet_options=options)
    more = parquet_of(l=[[{"z": 2.5, "y": "b"}]], s=[{"x": 2, "w": "new"}])
    with pytest.raises(BadRequest, match=r"Cannot add fields \(field: (l\.z|s\.w)\)"):
        load_bytes("t", "PARQUET", more, parquet_options=options)
    load_bytes("t", "PARQUET", more, parquet_options=options, schema_update_options=["ALLOW_FIELD_ADDITION"])
    load_bytes("t", "PARQUET", parquet_of(s=[{"x": 3}]))  # a missing member is null
    table = bq.get_table(f"{here}.t")
    schema = [field.to_api_repr() for field in table.schema]
    schema[0]["fields"].append({"name": "v", "type": "DATE"})
    table.schema = [bigquery.SchemaField.from_api_repr(field) for field in schema]
    bq.update_table(table, ["schema"])
    found = [dict(row) for row in bq.query_and_wait(f"SELECT * FROM {here}.t ORDER BY s.x")]
    assert found == [
        {"s": {"x": 1, "w": None, "v": None}, "l": [{"y": "a", "z": None}]},
        {"s": {"x": 2, "w": "new", "v": None}, "l": [{"y": "b", "z": 2.5}]},
        {"s": {"x": 3, "w": None, "v": None}, "l": []},
    ]


def test_required_columns_are_relaxed_where_that_is_allowed(bq: Any, here: str, load_bytes: Load) -> None:
    bq.query_and_wait(f"CREATE TABLE {here}.t (a INT64 NOT NULL)")
    load_bytes("t", "PARQUET", parquet_of(a=[1, None]), schema_update_options=["ALLOW_FIELD_RELAXATION"])
    assert bq.get_table(f"{here}.t").schema[0].mode == "NULLABLE"


def test_changes_at_once_wait_for_each_other(bq: Any, here: str, load_bytes: Load) -> None:
    def change(number: int) -> None:
        bq.query_and_wait(f"CREATE TABLE IF NOT EXISTS {here}.t (a INT64)")
        bq.query_and_wait(f"ALTER TABLE {here}.t ADD COLUMN IF NOT EXISTS b{number % 2} STRING")
        load_bytes("t", "PARQUET", parquet_of(a=[number]))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(change, range(6)))
    table = bq.get_table(f"{here}.t")
    assert table.num_rows == 6
    assert {field.name for field in table.schema} == {"a", "b0", "b1"}


def test_a_job_id_is_taken_once(bq: Any, here: str, load_bytes: Load) -> None:
    name = str(uuid.uuid4())
    outcomes: list[type[BaseException] | None] = []

    def insert() -> None:
        try:
            load_bytes("t", "PARQUET", parquet_of(a=[1]), job={"job_id": name})
            outcomes.append(None)
        except Conflict as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=insert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(None) == 1
    assert outcomes.count(Conflict) == 3
    job = bq.get_job(name)
    assert (job.job_type, job.state, job.output_rows) == ("load", "DONE", 1)
    assert bq.get_table(f"{here}.t").num_rows == 1


def test_row_counts_are_exact(bq: Any, here: str, load_bytes: Load) -> None:
    load_bytes("t", "PARQUET", parquet_of(a=[1, 2, 3]))
    bq.query_and_wait(f"DELETE FROM {here}.t WHERE a = 1")
    assert bq.get_table(f"{here}.t").num_rows == 2
    bq.query_and_wait(f"TRUNCATE TABLE {here}.t")
    assert bq.get_table(f"{here}.t").num_rows == 0


def test_the_time_of_creation_stays_until_the_table_is_made_anew(bq: Any, here: str, load_bytes: Load) -> None:
    load_bytes("t", "PARQUET", parquet_of(a=[1]))
    bq.copy_table(f"{here}.t", f"{here}.copy").result()
    before = {name: bq.get_table(f"{here}.{name}").created for name in ("t", "copy")}
    load_bytes("t", "PARQUET", parquet_of(a=[1]))
    assert {name: bq.get_table(f"{here}.{name}").created for name in ("t", "copy")} == before
    assert bq.get_table(f"{here}.t").modified > before["t"]
    bq.delete_table(f"{here}.t")
    load_bytes("t", "PARQUET", parquet_of(a=[1]))
    assert bq.get_table(f"{here}.t").created > before["t"]


def test_copies_take_the_place_of_a_table(bq: Any, here: str, load_bytes: Load) -> None:
    load_bytes("old", "PARQUET", parquet_of(a=[1]))
    load_bytes("new", "PARQUET", parquet_of(a=["x", "y"], b=[1, 2]))
    swap = bigquery.CopyJobConfig(write_disposition="WRITE_TRUNCATE")
    bq.copy_table(f"{here}.new", f"{here}.old", job_config=swap).result()
    assert rows(bq, f"{here}.old") == [{"a": "x", "b": 1}, {"a": "y", "b": 2}]


def test_partitioning_and_clustering_must_agree(bq: Any, here: str, load_bytes: Load) -> None:
    at = pa.array([dt.datetime(2024, 2, 29, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    layout = {"clustering_fields": ["a"], "time_partitioning": bigquery.TimePartitioning(field="at")}
    load_bytes("t", "PARQUET", parquet_of(a=[1], at=at), **layout)
    load_bytes("t", "PARQUET", parquet_of(a=[1], at=at))
    load_bytes("plain", "PARQUET", parquet_of(a=[1], at=at))
    table = bq.get_table(f"{here}.t")
    assert table.clustering_fields == ["a"]
    assert (table.time_partitioning.field, table.time_partitioning.type_) == ("at", "DAY")
    with pytest.raises(BadRequest, match="Incompatible table partitioning specification"):
        load_bytes("t", "PARQUET", parquet_of(a=[1], at=at), clustering_fields=["at"])
    swap = bigquery.CopyJobConfig(write_disposition="WRITE_TRUNCATE")
    with pytest.raises(BadRequest, match="Incompatible table partitioning specification"):
        bq.copy_table(f"{here}.plain", f"{here}.t", job_config=swap).result()
    with pytest.raises(BadRequest, match="Cannot replace a table with a different partitioning spec"):
        bq.query_and_wait(f"CREATE OR REPLACE TABLE {here}.t AS SELECT 1 AS a")
    bq.query_and_wait(
        f"CREATE OR REPLACE TABLE {here}.t PARTITION BY DATE(at) CLUSTER BY a AS SELECT * FROM {here}.plain"
    )
    bq.copy_table(f"{here}.t", f"{here}.copy").result()
    assert bq.get_table(f"{here}.copy").clustering_fields == ["a"]
    with pytest.raises(GoogleAPICallError, match=r"partition t\$20240229"):
        load_bytes("t$20240229", "PARQUET", parquet_of(a=[1], at=at), write_disposition="WRITE_TRUNCATE")


def test_jobs_run_where_their_dataset_is(bq: Any, here: str, load_bytes: Load) -> None:
    elsewhere = bigquery.Dataset(f"{bq.project}.{here}_eu")
    elsewhere.location = "EU"
    bq.create_dataset(elsewhere)
    try:
        data = io.BytesIO(parquet_of(a=[1]))
        config = bigquery.LoadJobConfig(source_format="PARQUET")
        target = f"{here}_eu.t"
        with pytest.raises(NotFound, match="was not found in location US"):
            bq.load_table_from_file(data, target, job_config=config, rewind=True, location="US").result()
        job = bq.load_table_from_file(data, target, job_config=config, rewind=True, location="EU").result()
        assert job.location == "EU"
        assert bq.get_table(target).location == "EU"
        assert bq.query(f"SELECT * FROM {target}").result().total_rows == 1
        with pytest.raises(NotFound, match="was not found in location US"):
            bq.query_and_wait(f"SELECT * FROM {target}", location="US")
        with pytest.raises(NotFound):
            bq.get_job(job.job_id, location="US")
        assert bq.get_job(job.job_id, location="EU").state == "DONE"
    finally:
        bq.delete_dataset(elsewhere, delete_contents=True)


def test_merge(bq: Any, here: str) -> None:
    bq.query_and_wait(f"CREATE TABLE {here}.t AS SELECT 1 AS k, 'a' AS v UNION ALL SELECT 2, 'b'")
    bq.query_and_wait(f"CREATE TABLE {here}.s AS SELECT 2 AS k, 'c' AS v UNION ALL SELECT 3, 'd'")
    merge = (
        f"MERGE {here}.t USING {{}} AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (k, v)"
    )
    assert bq.query_and_wait(merge.format(f"{here}.s")).num_dml_affected_rows == 2
    with pytest.raises(BadRequest, match="at most one source row"):
        bq.query_and_wait(merge.format(f"(SELECT * FROM {here}.s UNION ALL SELECT * FROM {here}.s)"))
    assert rows(bq, f"{here}.t") == [{"k": 1, "v": "a"}, {"k": 2, "v": "c"}, {"k": 3, "v": "d"}]
    bq.query_and_wait(merge.replace("v = s.v", "v = NULL").format("(SELECT 3 AS k, 'e' AS v)"))
    assert rows(bq, f"{here}.t") == [{"k": 1, "v": "a"}, {"k": 2, "v": "c"}, {"k": 3, "v": None}]


def test_names_of_tables_views_and_jobs(bq: Any, here: str) -> None:
    bq.query_and_wait(f"CREATE TABLE {here}.t (n INT64)")
    bq.query_and_wait(f"CREATE VIEW {here}.v AS SELECT n FROM {here}.t")
    for name, kind in (("t", "TABLE"), ("v", "VIEW"), ("v", "VIEW")):
        assert bq.get_table(f"{here}.{name}").table_type == kind
    for lacking in (f"{here}.T", f"{here}.u", f"{here}_not.t"):
        with pytest.raises(NotFound):
            bq.get_table(lacking)
    bq.delete_table(f"{here}.t")
    assert sorted(table.table_id for table in bq.list_tables(here)) == ["v"]
    with pytest.raises(NotFound):
        bq.get_table(f"{here}.t")
    asked = bq.query("SELECT 1")
    asked.result()
    jobs = f"SELECT state FROM `region-us`.INFORMATION_SCHEMA.JOBS WHERE job_id = '{asked.job_id}'"
    assert [row.state for row in bq.query_and_wait(jobs)] == ["DONE"]


def test_labels_and_expiration(bq: Any, here: str, load_bytes: Load) -> None:
    job = load_bytes("t", "PARQUET", parquet_of(a=[1]), labels={"stream": "orders"})
    table = bq.get_table(f"{here}.t")
    table.labels, table.expires = {"team": "x"}, dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    bq.update_table(table, ["labels", "expires"])
    assert bq.get_job(job.job_id).labels == {"stream": "orders"}
    table = bq.get_table(f"{here}.t")
    assert table.labels == {"team": "x"}
    table.expires = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    with pytest.raises(NotFound):  # the answer to the update would be the table
        bq.update_table(table, ["expires"])
    with pytest.raises(NotFound):
        bq.get_table(table)


def test_jobs_fail_on_request(bq: Any, here: str, load_bytes: Load, fail_jobs: Callable[..., Any]) -> None:
    fail_jobs(
        {"job": "load", "match": f"{here}.t$", "reason": "quotaExceeded", "message": "Quota exceeded", "times": 1}
    )
    load_bytes("other", "PARQUET", parquet_of(a=[1]))
    with pytest.raises(Forbidden, match="Quota exceeded"):
        load_bytes("t", "PARQUET", parquet_of(a=[1]))
    load_bytes("t", "PARQUET", parquet_of(a=[1]))
    assert bq.get_table(f"{here}.t").num_rows == 1
    with pytest.raises(LocalCloudError, match="cannot understand the fault"):
        fail_jobs({"reason": "moonPhase"})


def test_jobs_are_slow_on_request(bq: Any, here: str, fail_jobs: Callable[..., Any]) -> None:
    fail_jobs({"job": "load", "match": here, "delay_s": 3600})
    config = bigquery.LoadJobConfig(source_format="PARQUET")
    job = bq.load_table_from_file(io.BytesIO(parquet_of(a=[1])), f"{here}.t", job_config=config)
    assert bq.get_job(job.job_id).state == "RUNNING"
    fail_jobs()
    assert job.result().output_rows == 1


@pytest.mark.parametrize("project", ["emulator", "bq", "temp"])
def test_no_project_is_a_database_of_the_servers_own(bq: Any, project: str) -> None:
    with pytest.raises(BadRequest, match=f"no project {project}, which is a database of its own"):
        bq.create_dataset(f"{project}.x")


def test_jobs_are_not_kept_between_servers_and_tables_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def asked(job_id: str | None) -> Any:
        with Cloud(("bigquery",), data_dir=tmp_path) as cloud, closing(cloud.bigquery_client()) as bq:
            if job_id is not None:
                with pytest.raises(NotFound):
                    list(bq.get_job(job_id).result(retry=None))
                return [table.table_id for table in bq.list_tables("kept")]
            bq.create_dataset("kept")
            bq.create_table("local.kept.t", [bigquery.SchemaField("n", "INTEGER")])
            job = bq.query("SELECT 5 AS n")
            assert [row.n for row in job.result()] == [5]
            return job.job_id

    job_id = asked(None)
    assert capsys.readouterr().err == ""
    folder = tmp_path / "bigquery"
    (folder / "local.ducklake").touch()
    assert asked(job_id) == ["t"]
    warning = f"local-cloud: tables of an earlier version in {folder} (*.ducklake) are not read; load them again\n"
    assert capsys.readouterr().err == warning


def test_requests_fail_on_request(cloud: Cloud, here: str, bq_faults: FaultProxy) -> None:
    client = cloud.bigquery_client(bq_faults.url)
    bq_faults.set(
        {"match": "^POST.*/datasets", "action": "error", "status": 403, "code": "rateLimitExceeded", "times": 1},
        {"match": "^GET.*/tables", "action": "error", "status": 403, "code": "accessDenied", "message": "not yours"},
    )
    client.create_dataset(f"{here}_more")  # the client retries
    with pytest.raises(Forbidden, match="not yours"):
        client.get_table(f"{here}_more.t", retry=None)
    client.delete_dataset(f"{here}_more")
    client.close()
