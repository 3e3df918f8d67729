"""overwrite: readers see the old rows or the new ones, and all other properties of the table are kept."""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud import bigquery
from singer_lines import Batches, load, record, rows, schema, state
from waiting import wait_until
from warehouses import BigQuery

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from singer_arrow.errors import LoadError
from singer_arrow.naming import STAGING
from target_bigquery import tables
from target_bigquery.connection import Connection
from target_bigquery.load import KEPT

OVERWRITE = {"load_method": "overwrite"}
DAY = timedelta(days=1)


@pytest.fixture
def warehouse(cloud: Cloud, bq: Any, dataset: str) -> BigQuery:
    """Create a table of three rows in the local BigQuery."""
    bq.create_dataset(dataset)
    table = laid_out(bq, f"{dataset}.rows")
    table.description, table.labels, table.friendly_name = "all rows", {"team": "data"}, "Rows"
    bq.create_table(table)
    bq.query_and_wait(f"INSERT INTO `{dataset}.rows` (id, name) VALUES (1, 'old'), (2, 'old'), (3, 'old')")
    return BigQuery(cloud, bq, dataset)


def laid_out(bq: Any, name: str) -> Any:
    """Create a table with partitions, clusters, and a description of a column."""
    number = bigquery.SchemaField("id", "INT64", "REQUIRED", description="its number")
    table = bigquery.Table(f"{bq.project}.{name}", [number, bigquery.SchemaField("name", "STRING")])
    table.range_partitioning = bigquery.RangePartitioning(bigquery.PartitionRange(0, 100, 10), "id")
    table.clustering_fields = ["name"]
    return table


def run(warehouse: BigQuery, batch: Batches, **settings: Any) -> None:
    """Load five new rows, by BATCH and RECORD."""
    lines = [schema(), batch(rows(10, 4)), record(id=14, name="name 14"), state(1)]
    load(lines, warehouse.config | OVERWRITE | settings)


def facts(bq: Any, warehouse: BigQuery) -> dict[str, Any]:
    """Return the properties of a table, without its rows."""
    table = bq.get_table(f"{warehouse.schema}.rows")
    return {
        "description": table.description,
        "labels": {k: v for k, v in table.labels.items() if k != tables.OWNER},
        "friendly_name": table.friendly_name,
        "expires": table.expires,
        "partitions": table.range_partitioning,
        "cluster": table.clustering_fields,
        "columns": [(f.name, f.field_type, f.description) for f in table.schema],
    }


def staging_tables(warehouse: BigQuery) -> list[str]:
    return [name for name in warehouse.tables() if name.startswith(STAGING)]


def jobs(bq: Any, warehouse: BigQuery) -> list[str]:
    """Return the kinds of the jobs that wrote the table itself."""
    found = [j for j in bq.list_jobs() if j.parent_job_id is None]
    path = f"`{warehouse.schema}`.`rows`"
    copies = [j for j in found if j.job_type == "copy" and j.destination.dataset_id == warehouse.schema]
    return [j.job_type for j in copies] + [j.job_type for j in found if j.job_type == "query" and path in j.query]


def test_what_a_table_is_stays(warehouse: BigQuery, batch: Batches, bq: Any) -> None:
    before = facts(bq, warehouse)
    for _ in range(2):
        run(warehouse, batch)
        assert facts(bq, warehouse) == before
        assert warehouse.table() == rows(10, 5)
        assert staging_tables(warehouse) == []
    assert jobs(bq, warehouse) == ["copy", "copy"]


def test_a_table_expires_when_it_did(warehouse: BigQuery, batch: Batches, bq: Any, monkeypatch: Any) -> None:
    """Not when its staging table would have, even if the run ends right after the copy."""
    run(warehouse, batch)
    assert facts(bq, warehouse)["expires"] is None
    table = bq.get_table(f"{warehouse.schema}.rows")
    table.expires = datetime.now(UTC).replace(microsecond=0) + 30 * DAY
    bq.update_table(table, ["expires"])
    seen = list[Any]()
    copy = tables.BigQuery.copy

    def looking(self: Any, source: str, *args: Any, **options: Any) -> Any:
        seen.append(bq.get_table(f"{warehouse.schema}.{source}").expires)
        return copy(self, source, *args, **options)

    monkeypatch.setattr(tables.BigQuery, "copy", looking)
    run(warehouse, batch)
    assert facts(bq, warehouse)["expires"] == table.expires
    assert seen == [table.expires]


def test_labels_that_a_table_did_not_have_go_again(warehouse: BigQuery, bq: Any) -> None:
    """Also labels that another process removed from it while the run's staging table had them."""
    running = warehouse.target(config=warehouse.config)
    try:
        client = running.run.client_of("rows")
        before = client.table("rows")
        table = bq.get_table(f"{warehouse.schema}.rows")
        table.labels, table.description = {"team": "x", "more": "y"}, "others"
        bq.update_table(table, ["labels", "description"])
        client.copy_properties("rows", before, KEPT)
        now = bq.get_table(f"{warehouse.schema}.rows")
        assert (now.labels, now.description) == ({"team": "data"}, "all rows")
    finally:
        running.run.close()


POLICIES = (
    "CREATE ROW ACCESS POLICY everybody ON `{t}` GRANT TO ('allUsers') FILTER USING (TRUE)",
    "CREATE ROW ACCESS POLICY few ON `{t}` GRANT TO ('user:few@example.com') FILTER USING (id > 12)",
)


def policies(bq: Any, warehouse: BigQuery) -> list[str]:
    """Return the names of the table's policies by BigQuery's own API, which Google's client has no method for."""
    path = f"projects/{bq.project}/datasets/{warehouse.schema}/tables/rows/rowAccessPolicies"
    with urllib.request.urlopen(f"{warehouse.config['api_endpoint']}/bigquery/v2/{path}") as answer:
        found = json.load(answer).get("rowAccessPolicies", [])
    return [p["rowAccessPolicyReference"]["policyId"] for p in found]


def protect(bq: Any, warehouse: BigQuery) -> None:
    for text in POLICIES:
        bq.query_and_wait(text.format(t=f"{warehouse.schema}.rows"))


def test_a_copy_takes_row_access_policies_away(warehouse: BigQuery, bq: Any) -> None:
    """Documented by BigQuery, and implemented by the local one."""
    protect(bq, warehouse)
    config = bigquery.CopyJobConfig(write_disposition="WRITE_TRUNCATE")
    bq.create_table(laid_out(bq, f"{warehouse.schema}.other"))
    names = (f"{bq.project}.{warehouse.schema}.{name}" for name in ("other", "rows"))
    bq.copy_table(*names, job_config=config).result()
    assert policies(bq, warehouse) == []


def test_row_access_policies_stay(warehouse: BigQuery, batch: Batches, bq: Any) -> None:
    protect(bq, warehouse)
    before = facts(bq, warehouse)
    run(warehouse, batch)
    assert policies(bq, warehouse) == ["everybody", "few"]
    assert facts(bq, warehouse) == before
    assert warehouse.table() == rows(10, 5)
    assert staging_tables(warehouse) == []
    assert jobs(bq, warehouse) == ["query"]


def test_policies_that_may_not_be_seen_stay_too(
    warehouse: BigQuery, batch: Batches, bq: Any, bq_faults: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    protect(bq, warehouse)
    bq_faults.set({"match": "^GET .*/rowAccessPolicies", "action": "error", "status": 403, "code": "accessDenied"})
    run(warehouse, batch, api_endpoint=bq_faults.url)
    assert policies(bq, warehouse) == ["everybody", "few"]
    assert warehouse.table() == rows(10, 5)
    assert "grant bigquery.rowAccessPolicies.list to spare that" in caplog.text


STREAMING = {"load_via": "storage_write", "load_method": "append-only"}


@pytest.mark.parametrize("protected", [False, True])
@pytest.mark.parametrize("is_shown", [False, True])
def test_rows_that_were_streamed_lately_are_replaced(
    protected: bool, is_shown: bool, warehouse: BigQuery, batch: Batches, bq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BigQuery changes them in no transaction, a copy may keep them, and its API need not show that there are some."""
    load([schema(), batch(rows(20, 2)), state(1)], warehouse.config | STREAMING)
    if protected:
        protect(bq, warehouse)
    if not is_shown:
        monkeypatch.setattr(bigquery.Table, "streaming_buffer", None)
    before = facts(bq, warehouse)
    run(warehouse, batch)
    assert warehouse.table() == rows(10, 5)
    assert facts(bq, warehouse) == before
    assert policies(bq, warehouse) == (["everybody", "few"] if protected else [])
    assert staging_tables(warehouse) == []
    assert "copy" not in jobs(bq, warehouse) or not (protected or is_shown)


def test_the_local_bigquery_keeps_streamed_rows_from_transactions(warehouse: BigQuery, batch: Batches, bq: Any) -> None:
    load([schema(), batch(rows(20, 2)), state(1)], warehouse.config | STREAMING)
    path = f"`{warehouse.schema}.rows`"
    changes = (f"TRUNCATE TABLE {path}", f"DELETE FROM {path} WHERE id = 1")
    refused = [f"BEGIN TRANSACTION; {change}; COMMIT TRANSACTION" for change in changes]
    for text in refused:
        with pytest.raises(GoogleAPICallError, match="would affect rows in the streaming buffer, which is not support"):
            bq.query_and_wait(text)
    client = warehouse.target(config=warehouse.config).run.client_of("rows")
    with pytest.raises(LoadError, match=r"streaming buffer.*; wait until its streaming buffer is empty, 90 minutes"):
        client.query(refused[0], what="Truncating")
    client.close()
    bq.query_and_wait(f"DELETE FROM {path} WHERE id = 1")
    assert [r["id"] for r in warehouse.table()] == [2, 3, 20, 21]


@pytest.mark.parametrize("protected", [False, True])
def test_readers_see_the_old_rows_or_the_new_ones(
    protected: bool, warehouse: BigQuery, batch: Batches, bq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader queries after each call of BigQuery."""
    if protected:
        protect(bq, warehouse)
    call, seen = Connection.call_once, list[tuple[str, ...]]()

    def look() -> None:
        seen.append(tuple(r["name"][:4] for r in warehouse.table()))

    def looking(self: Connection, what: str, function: Callable[[], Any]) -> Any:
        try:
            return call(self, what, function)
        finally:
            look()

    monkeypatch.setattr(Connection, "call_once", looking)
    run(warehouse, batch)
    old, new = ("old",) * 3, ("name",) * 5
    assert set(seen) == {old, new}
    assert seen == sorted(seen, key=lambda names: names == new)


def test_a_reader_that_polls_sees_nothing_else(warehouse: BigQuery, batch: Batches, bq: Any, fail_jobs: Any) -> None:
    """While the swap is in progress."""
    fail_jobs({"job": "copy", "match": warehouse.schema, "delay_s": 0.5})
    seen, is_over = set[tuple[int, int]](), threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            seen.add(warehouse.one("SELECT COUNT(*), COUNTIF(name = 'old') FROM {rows}"))

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        wait_until(lambda: seen)
        run(warehouse, batch)
    finally:
        is_over.set()
        reader.join()
    assert seen - {(5, 0)} == {(3, 3)}


@pytest.mark.parametrize("protected", [False, True])
def test_an_interrupted_run_leaves_the_old_table(
    protected: bool, warehouse: BigQuery, batch: Batches, bq: Any, fail_jobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if protected:
        protect(bq, warehouse)
    before, job = facts(bq, warehouse), "query" if protected else "copy"
    match = "INSERT INTO" if protected else warehouse.schema
    fail_jobs({"job": job, "match": match, "reason": "invalid", "message": "made to fail"})
    with pytest.raises(LoadError, match="made to fail"):
        run(warehouse, batch)
    assert warehouse.table() == [{"id": n, "name": "old"} for n in (1, 2, 3)]
    assert facts(bq, warehouse) == before
    (left,) = staging_tables(warehouse)
    fail_jobs()
    run(warehouse, batch)
    assert warehouse.table() == rows(10, 5)
    assert staging_tables(warehouse) == [left]  # it may belong to a run that is still active
    monkeypatch.setattr(tables, "LEFTOVER_AGE", timedelta(0))
    run(warehouse, batch)
    assert staging_tables(warehouse) == []


def test_redshift_keeps_what_a_table_is(redshift: Any, cloud: Cloud) -> None:
    redshift.sql(f'CREATE SCHEMA "{redshift.schema}"')
    redshift.sql("CREATE TABLE {rows} (id BIGINT NOT NULL, name VARCHAR(300)) DISTKEY (id) COMPOUND SORTKEY (name)")
    redshift.sql("COMMENT ON TABLE {rows} IS 'all rows'")
    redshift.sql("COMMENT ON COLUMN {rows}.id IS 'its number'")
    redshift.sql("CREATE VIEW {seen} AS SELECT COUNT(*) AS n FROM {rows}")
    user = f"reader_{redshift.schema[-12:]}"
    redshift.sql(f"CREATE USER {user} PASSWORD DISABLE")
    try:
        redshift.sql(f"GRANT SELECT ON {{rows}} TO {user}")
        before = redshift_facts(redshift)
        for first in (10, 20):
            redshift.run([schema(), redshift.batch(rows(first, 4)), state(1)], **OVERWRITE)
            assert redshift_facts(redshift) == before
            assert redshift.table() == rows(first, 4)
            assert redshift.sql("SELECT n FROM {seen}") == [(4,)]
            assert redshift.sql(f"SELECT HAS_TABLE_PRIVILEGE('{user}', '{{rows}}', 'select')") == [(True,)]
            assert redshift.staging_tables() == []
    finally:
        redshift.sql(f"REVOKE ALL ON {{rows}} FROM {user}")
        redshift.sql(f"DROP USER {user}")


def redshift_facts(redshift: Any) -> list[Any]:
    return [
        redshift.columns(),
        redshift.sql(
            "SELECT d.description FROM pg_description d JOIN pg_class_info c ON c.reloid = d.objoid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = 'rows' ORDER BY 1",
            redshift.schema,
        ),
        redshift.sql(
            "SELECT column_name, distkey, sortkey FROM svv_redshift_columns WHERE database_name = current_database() "
            "AND schema_name = %s AND table_name = 'rows' ORDER BY 1",
            redshift.schema,
        ),
    ]
