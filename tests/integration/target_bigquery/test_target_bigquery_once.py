"""Exactly once: replays, and clean-ups between them. Interruptions: `test_target_bigquery_killed.py`."""

from __future__ import annotations

import time
from typing import Any

import pytest
from google.cloud import bigquery
from local_settings import ONE_EACH
from singer_lines import Batches, load, record, rows, schema, some_batches, state, states

Config = dict[str, Any]


@pytest.mark.smoke
def test_a_replay_grouped_otherwise_loads_nothing_twice(
    config: Config, batch: Batches, ids: Any, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    run = some_batches(batch)
    load(run, config)
    assert ids() == list(range(12))
    for size, part in ((0.001, run), (512, run), (512, run[:7]), (512, [run[0], *run[5:]])):
        caplog.clear()
        caplog.set_level("INFO")
        target = load(part, config | {"max_batch_mb": size})
        assert ids() == list(range(12))
        counts = target.run.tallies.of("rows").counts()
        assert counts["skipped"] == counts["batches"] == sum(m["type"] == "BATCH" for m in part)
        assert counts["load_jobs"] == 0
    assert "batch batch-5 was loaded at 20" in caplog.text
    assert "to load it again set replay: load" in caplog.text
    assert states(capsys.readouterr().out)[-1] == 5


def test_what_is_new_in_a_replay_is_loaded(config: Config, batch: Batches, ids: Any) -> None:
    run = some_batches(batch)
    load(run[:5], config | ONE_EACH)
    target = load(run, config)
    assert ids() == list(range(12))
    assert target.run.tallies.of("rows").counts()["skipped"] == 2


def test_a_batch_that_comes_twice_in_one_run_is_loaded_once(config: Config, batch: Batches, ids: Any) -> None:
    message = batch(rows(0, 2), batch_id="a")
    load([schema(), message, message, state(1), message], config | ONE_EACH)
    assert ids() == [0, 1]


def test_replay_load_loads_again(config: Config, batch: Batches, ids: Any) -> None:
    run = some_batches(batch, 2)
    load(run, config)
    load(run, config | {"replay": "load"})
    assert ids() == sorted([*range(4)] * 2)
    load(run, config)
    assert len(ids()) == 8


def test_other_taps_and_records_are_loaded_as_often_as_they_come(config: Config, batch: Batches, ids: Any) -> None:
    run = [schema(), batch(rows(0, 1)), record(id=1, name="x")]
    for _ in range(2):
        load(run, config)
    assert ids() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "clean_up",
    [
        "DROP TABLE `{t}`",
        "CREATE OR REPLACE TABLE `{t}` (id INT64, name STRING)",
        "TRUNCATE TABLE `{t}`",
        "DELETE FROM `{t}` WHERE TRUE",
    ],
)
def test_after_a_clean_up_everything_is_loaded_again(
    clean_up: str, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str
) -> None:
    run = some_batches(batch)
    load(run, config)
    time.sleep(0.01)
    bq.query(clean_up.format(t=f"{dataset}.rows")).result()
    load(run[:7], config | ONE_EACH)
    assert ids() == list(range(6))
    load(run, config)  # and batches from before the clean-up stay void, although the table is not empty any more
    assert ids() == list(range(12))
    load(run, config)
    assert ids() == list(range(12))


@pytest.mark.parametrize("via", ["load_job", "storage_write"])
@pytest.mark.parametrize("first", ["record", "other tap"])
def test_an_emptied_table_is_noticed_whatever_comes_first(
    first: str, via: str, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str
) -> None:
    config = config | {"load_via": via}
    run = some_batches(batch, 2)
    load(run, config)
    bq.query(f"TRUNCATE TABLE `{dataset}.rows`").result()
    load([schema(), record(id=100, name="x") if first == "record" else batch(rows(100, 1))], config)
    load(run, config)
    assert ids() == [0, 1, 2, 3, 100]


def test_rows_deleted_one_by_one_are_not_missed(
    config: Config, batch: Batches, ids: Any, bq: Any, dataset: str
) -> None:
    run = some_batches(batch, 2)
    load(run, config)
    bq.query(f"DELETE FROM `{dataset}.rows` WHERE id = 1").result()
    load(run, config)
    assert ids() == [0, 2, 3]


def test_entries_count_for_their_own_table(config: Config, batch: Batches, ids: Any, bq: Any, dataset: str) -> None:
    run = some_batches(batch, 2)
    load([schema()], config | {"table_prefix": "other_"})  # it exists before the batches are loaded elsewhere
    load(run, config)
    load(run, config | {"table_prefix": "other_"})
    assert bq.get_table(f"{dataset}.other_rows").num_rows == len(ids()) == 4


def test_a_new_ledger_has_partitions_and_one_without_them_still_works(
    config: Config, batch: Batches, bq: Any, dataset: str, ids: Any
) -> None:
    run = some_batches(batch, 3)
    load(run[:3], config)
    ledger = bq.get_table(f"{dataset}._sdc_batches")
    assert (ledger.time_partitioning.field, ledger.time_partitioning.type_) == ("started_at", "MONTH")
    assert not ledger.require_partition_filter
    assert ledger.clustering_fields == ["stream", "batch_id"]
    made = list(bq.query(f"SELECT * FROM `{dataset}._sdc_batches`").result())
    bq.delete_table(ledger)
    old = bigquery.Table(ledger.reference, schema=ledger.schema)
    old.clustering_fields = ledger.clustering_fields
    bq.create_table(old)
    values = ", ".join(
        f"('{e.batch_id}', '{e.stream}', '{e.job_id}', {e.rows}, TIMESTAMP '{e.started_at:%Y-%m-%d %H:%M:%S.%f}+00')"
        for e in made
    )
    bq.query(f"INSERT INTO `{dataset}._sdc_batches` VALUES {values}").result()
    load(run, config | {"ledger_keep_days": 2})
    assert ids() == list(range(6))
    load(run, config)
    assert ids() == list(range(6))
    assert bq.get_table(ledger.reference).time_partitioning is None


@pytest.mark.parametrize("via", ["load_job", "storage_write"])
def test_batches_are_recognised_whatever_project_their_jobs_ran_in(
    via: str, config: Config, batch: Batches, ids: Any
) -> None:
    config, run = config | {"load_via": via}, some_batches(batch)
    for count, project in enumerate(("payer", None, "other-payer", config["project"], "example.com:payer")):
        target = load(run[: 5 + 2 * count], config | ({"job_project": project} if project else {}))
        assert ids() == list(range(4 + 2 * count))
        assert target.run.tallies.of("rows").counts()["skipped"] == (2 + count - 1 if count else 0)


@pytest.mark.parametrize("load_method", ["append-only", "upsert", "overwrite"])
def test_all_jobs_run_in_the_project_that_is_set(
    load_method: str, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str
) -> None:
    load(some_batches(batch), config | {"load_method": load_method, "job_project": "payer"})
    payer, own = ([j for j in bq.list_jobs(project=p) if dataset in str(j.to_api_repr())] for p in ("payer", None))
    other = "copy" if load_method == "overwrite" else "query"
    assert (len(own), {"load", other} <= {j.job_type for j in payer}) == (0, True)
    assert ids() == list(range(12))
