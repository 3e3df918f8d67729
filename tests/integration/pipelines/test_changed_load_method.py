"""Rows that another load method brought, and a run that appends to them: batches are recognised, or it is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from forked_programs import ForkedPrograms
from google.cloud.bigquery import Client
from killed_pipeline import Pipeline
from singer_lines import COLUMNS, Batches, rows, schema, some_batches, state
from warehouses import Warehouse

from local_cloud import Cloud
from singer_arrow.errors import IdentityError
from target_bigquery import load as bigquery_load
from target_bigquery.ledger import StreamLedger
from target_redshift import load as redshift_load

STREAMED = {"load_via": "storage_write"}
WARNED = "its table has rows that came by RECORD messages, by batches without a plan log or by another tool"


@pytest.mark.parametrize(
    ("before", "stream"),
    [
        ("overwrite", {}),
        ("overwrite", {"replication_method": "FULL_TABLE"}),
        ("upsert", {"key_properties": ["id"]}),
    ],
)
def test_a_whole_stream_that_is_appended_to_such_rows_is_named(
    cloud: Cloud, warehouse: Warehouse, s3: Any, bucket: str, tmp_path: Path, before: str, stream: dict[str, Any]
) -> None:
    s3.put_object(Bucket=bucket, Key="in/a.csv", Body=b"id,name\n1,a\n2,b\n")
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")

    def run(load_method: str, **more: Any) -> str:
        source = {"name": "rows", "path": f"s3://{bucket}/in/*.csv", **more}
        target = warehouse.config | {"load_method": load_method}
        pipe = Pipeline(
            ForkedPrograms(env, tmp_path), warehouse.program, [source], bucket, tmp_path, file_mb=1, target=target
        )
        log = pipe.end(*(both := pipe.start(state=False)))[1]
        assert [process.returncode for process in both] == [0, 0], log
        return log

    assert WARNED not in run(before, **stream)
    again = run("append-only")
    recognises = "replication_method" not in stream  # batches of a FULL_TABLE have ids of its run
    assert len(warehouse.table()) == (2 if recognises else 4)
    assert (WARNED in again) is not recognises
    # Batches that were appended are recognised
    assert WARNED not in run("append-only")
    assert len(warehouse.table()) == (2 if recognises else 4)


@pytest.mark.parametrize(
    "runs",
    [
        ["overwrite", "append-only with STATE", "append-only"],
        ["overwrite", "append-only"],
        ["overwrite", "overwrite", "append-only with STATE", "append-only"],
        ["upsert", "append-only with STATE", "append-only"],
        ["upsert", "append-only", "upsert with STATE", "append-only"],
        ["upsert", "upsert", "append-only with STATE", "append-only"],
        ["upsert", "overwrite", "append-only with STATE", "upsert with STATE", "append-only"],
    ],
    ids=", ".join,
)
def test_batches_of_other_load_methods_are_recognised_by_append_only(
    cloud: Cloud, warehouse: Warehouse, s3: Any, bucket: str, tmp_path: Path, runs: list[str]
) -> None:
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")
    source = {"name": "rows", "path": f"s3://{bucket}/in/*.csv", "key_properties": ["id"]}
    pipe = Pipeline(ForkedPrograms(env, tmp_path), warehouse.program, [source], bucket, tmp_path, file_mb=1, target={})
    for number, run in enumerate(runs):
        s3.put_object(Bucket=bucket, Key=f"in/{number}.csv", Body=f"id,name\n{number},a\n".encode())
        pipe.target |= warehouse.config | {"load_method": run.removesuffix(" with STATE")}
        log = pipe.end(*(both := pipe.start(state=run.endswith(" with STATE"))))[1]
        assert [process.returncode for process in both] == [0, 0], log
        assert WARNED not in log
        assert ("skipped because earlier runs loaded them" in log) is (run == "append-only")
        assert [row["id"] for row in warehouse.table()] == [*range(number + 1)]


@pytest.mark.parametrize("load_method", ["append-only", "upsert"])
def test_rows_of_no_batch_are_named_also_after_a_run_with_state(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture, load_method: str
) -> None:
    plan_log = {"plan_log": {"log": "log", "source": "source", "has_state": False}}
    late = {"plan_log": {"log": "log", "source": "source", "has_state": True}}
    warehouse.load([schema(), batch(rows(0, 2)), state(0)])  # without an id, as of other taps or a FULL_TABLE
    warehouse.load([schema(), batch(rows(2, 2), batch_id="b") | late, state(1)], load_method=load_method)
    assert WARNED not in caplog.text
    whole = [schema(), batch(rows(0, 2), batch_id="a") | plan_log, batch(rows(2, 2), batch_id="b") | plan_log, state(1)]
    warehouse.load(whole)
    assert [row["id"] for row in warehouse.table()] == [0, 0, 1, 1, 2, 3]
    assert WARNED in caplog.text
    caplog.clear()
    warehouse.load(whole)
    assert len(warehouse.table()) == 6
    assert WARNED not in caplog.text


@pytest.mark.parametrize("settings", [{}, {"load_method": "upsert"}, STREAMED, STREAMED | {"load_method": "upsert"}])
def test_a_batch_that_the_table_lacks_is_noticed_where_a_run_begins_behind_it(
    warehouse: Warehouse, batch: Batches, settings: dict[str, Any]
) -> None:
    """A batch whose rows are all rejected is in the ledger too; one that went elsewhere is not."""
    own = STREAMED.keys() if warehouse.name == "redshift" else ()
    settings = {"on_bad_row": "dead_letter"} | {name: v for name, v in settings.items() if name not in own}

    def run(batch_id: str, follows: str, row: Any) -> None:
        log = {"log": "log", "source": "source", "has_state": bool(follows), "follows": follows}
        warehouse.load([schema(), batch([row], file_format="jsonl", batch_id=batch_id) | {"plan_log": log}], **settings)

    run("a", "", {"id": 1, "name": "x"})
    run("b", "a", {"id": "no number", "name": "x"})
    run("c", "b", {"id": 3, "name": "x"})
    for replay in ({}, {"replay": "skip"}, {"replay": "load"}):
        settings |= replay
        with pytest.raises(IdentityError, match="comes after batch elsewhere, which the table's ledger lacks"):
            run("d", "elsewhere", {"id": 4, "name": "x"})
    assert [row["id"] for row in warehouse.table()] == [1, 3]
    del settings["replay"]
    run("d", "c", {"id": 4, "name": "x"})
    assert [row["id"] for row in warehouse.table()] == [1, 3, 4]


def test_an_upsert_updates_each_row_of_a_key_that_was_appended_twice(warehouse: Warehouse, batch: Batches) -> None:
    for _ in range(2):
        warehouse.load([schema(), batch(rows(0, 2)), state(0)])
    for name in ("new", "newer"):
        warehouse.load([schema(), batch([{"id": 1, "name": name}]), state(1)], load_method="upsert")
        assert [row["name"] for row in warehouse.table()] == ["name 0", "name 0", name, name]


def test_upsert_into_a_table_that_was_dropped_or_emptied(warehouse: Warehouse, batch: Batches) -> None:
    run = some_batches(batch, 4)
    for gone in ("DROP TABLE {rows}", "DELETE FROM {rows} WHERE true"):
        for before in ("append-only", "upsert"):
            warehouse.load(run, load_method=before)
            warehouse.query(gone)
            warehouse.load(run[:5], load_method="upsert")
            assert warehouse.table() == rows(0, 4)
            for _ in range(2):
                warehouse.load(run)
                assert warehouse.table() == rows(0, 8)
            warehouse.query(gone)


@pytest.mark.parametrize("then", ["append-only", "upsert"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_around_a_merge(
    warehouse: Warehouse, batch: Batches, monkeypatch: pytest.MonkeyPatch, when: str, then: str
) -> None:
    run = some_batches(batch, 4)
    method = bigquery_load.Upsert if warehouse.name == "bigquery" else redshift_load.Upsert
    publish, query, bring = method.publish, Client.query, redshift_load.Upsert.bring

    def published(self: Any, staged: Any) -> None:
        publish(self, staged)
        raise KeyboardInterrupt

    def asked(self: Any, text: str, **more: Any) -> Any:
        if text.startswith("MERGE") and not more["job_config"].dry_run:
            raise KeyboardInterrupt
        return query(self, text, **more)

    def brought(self: Any, tables: Any) -> None:
        bring(self, tables)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if when == "after":
            patch.setattr(method, "publish", published)
        patch.setattr(Client, "query", asked if when == "before" else query)
        patch.setattr(redshift_load.Upsert, "bring", brought if when == "before" else bring)
        with pytest.raises(KeyboardInterrupt):
            warehouse.load(run, load_method="upsert")
    assert warehouse.table() == rows(0, 0 if when == "before" else 8)
    for load_method in (then, "append-only", "upsert"):
        warehouse.load(run, load_method=load_method)
        assert warehouse.table() == rows(0, 8)


def test_what_overwrite_replaced_is_loaded_again(warehouse: Warehouse, batch: Batches) -> None:
    run = some_batches(batch, 4)
    warehouse.load(run)
    warehouse.load(run[:5], load_method="overwrite")
    warehouse.load(run[:5], load_method="overwrite")  # which leaves out none
    assert warehouse.table() == rows(0, 4)
    for _ in range(2):
        warehouse.load(run)
        assert warehouse.table() == rows(0, 8)


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
@pytest.mark.parametrize("when", ["before the job", "after the job"])
def test_killed_around_the_job_that_replaces_the_rows(
    warehouse: Warehouse, batch: Batches, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The ledger is right without the rest of the run, which nothing but a kill would skip."""
    run = some_batches(batch, 4)
    warehouse.load(run)

    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((Client, "copy_table") if when == "before the job" else (StreamLedger, "void")), killed)
        with pytest.raises(KeyboardInterrupt):
            warehouse.load(run[:5], load_method="overwrite")
    assert warehouse.table() == rows(0, 8 if when == "before the job" else 4)
    for _ in range(2):
        warehouse.load(run)
        assert warehouse.table() == rows(0, 8)
    warehouse.load(run[:5], load_method="overwrite")
    assert warehouse.table() == rows(0, 4)


def test_rows_that_batches_brought_are_not_named(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those of this run, before the SCHEMA changes."""
    plan_log = {"plan_log": {"log": "log", "source": "source", "has_state": False}}
    wider = schema(columns=COLUMNS.append(pa.field("more", pa.int64())))
    run = [schema(), batch(rows(0, 2), batch_id="a") | plan_log, state(1)]
    warehouse.load([*run, wider, batch(rows(2, 2), batch_id="b") | plan_log, state(2)])
    warehouse.load([*run, batch(rows(4, 2), batch_id="c") | plan_log])
    assert [row["id"] for row in warehouse.table()] == [*range(6)]
    assert WARNED not in caplog.text
