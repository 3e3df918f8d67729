"""Load methods in the local BigQuery: upsert, overwrite, and activation of versions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from local_settings import GONE
from singer_lines import COLUMNS, Batches, activate, batch_of, load, record, rows, schema, state, states

from singer_arrow.errors import DataError, NotFoundError, SchemaError
from target_bigquery import sql

Config = dict[str, Any]


@pytest.mark.parametrize("file_format", ["parquet", "jsonl", "arrow"])
@pytest.mark.smoke("parquet")
def test_upsert_keeps_the_last_of_each_key(
    file_format: str, config: Config, batch: Batches, table: Any, bq: Any
) -> None:
    def named(number: int, name: str) -> dict[str, Any]:
        return {"id": number, "name": name}

    lines = [
        schema(),
        batch([named(1, "a"), named(2, "a"), named(1, "b")], file_format=file_format),
        batch([named(2, "c"), named(3, "a")], file_format=file_format),
        record(id=3, name="d"),
        record(id=1, name="e"),
        batch([named(4, "f")], file_format=file_format),
        state(1),
    ]
    expected = [named(1, "e"), named(2, "c"), named(3, "d"), named(4, "f")]
    for size in (512, 0.001):  # one group, then a group for each item
        load(lines, config | {"load_method": "upsert", "max_batch_mb": size})
        assert table() == expected
    assert {t.table_id for t in bq.list_tables(config["dataset"])} == {"rows"}


def test_upsert_refuses_a_null_key(config: Config, batch: Batches, capsys: pytest.CaptureFixture[str]) -> None:
    message = batch([{"id": 1, "name": "a"}, {"id": None, "name": "b"}])
    with pytest.raises(DataError, match=r"1\.parquet, row \d, column 'id': a key property is null"):
        load([schema(), message, state(1)], config | {"load_method": "upsert"})
    assert states(capsys.readouterr().out) == []


def test_upsert_refuses_a_key_that_cannot_be_compared(config: Config, batch: Batches) -> None:
    columns = pa.schema([("id", pa.list_(pa.int64()))])
    with pytest.raises(SchemaError, match="Key property 'id' of stream 'rows' is ARRAY<INTEGER>"):
        load([schema(columns=columns)], config | {"load_method": "upsert"})


def test_upsert_refuses_more_columns_than_a_merge_can_name(
    config: Config, batch: Batches, bq: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a row is loaded; append-only takes them."""
    columns = pa.schema([("id", pa.int64()), *((f"{'column' * 46}_{n}", pa.int64()) for n in range(1_000))])
    message = batch([dict.fromkeys(columns.names, 1)], columns=columns)
    line = r": The MERGE of 1,002 columns of stream 'rows' has 1,1\d\d,\d{3} bytes, and BigQuery takes 1 MB; leave .*"
    with pytest.raises(SchemaError, match=line) as caught:
        load([schema(columns=columns), message, state(1)], config | {"load_method": "upsert"})
    assert "\n" not in str(caught.value)
    assert states(capsys.readouterr().out) == []
    assert bq.get_table(f"{config['dataset']}.rows").num_rows == 0
    load([schema(columns=columns), message, state(1)], config)
    assert bq.get_table(f"{config['dataset']}.rows").num_rows == 1


def test_a_merge_goes_without_bounds_for_which_there_is_no_room(
    config: Config, batch: Batches, table: Any, bq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merges() -> list[str]:
        path = f"`{config['dataset']}`.`rows`"
        return [j.query for j in bq.list_jobs() if j.job_type == "query" and f"MERGE `{bq.project}`.{path}" in j.query]

    config |= {"load_method": "upsert", "cluster_by": ["id"]}
    load([schema(), batch(rows(0, 2)), state(1)], config)
    (text,) = merges()
    assert " AND t.`id` BETWEEN 0 AND 1 WHEN " in text
    monkeypatch.setattr(sql, "MOST_BYTES", len(text.encode()) - 1)
    load([schema(), batch([{"id": 1, "name": "new"}, {"id": 2, "name": "new"}]), state(2)], config)
    assert " BETWEEN " not in merges()[0]
    assert table() == [*rows(0, 1), {"id": 1, "name": "new"}, {"id": 2, "name": "new"}]


@pytest.mark.smoke
def test_overwrite_replaces_all_at_once_at_the_end(
    config: Config, batch: Batches, table: Any, capsys: pytest.CaptureFixture[str], bq: Any
) -> None:
    config["load_method"] = "overwrite"
    load([schema(), batch(rows(0, 3)), state(1), batch(rows(3, 2)), state(2)], config)
    assert table() == rows(0, 5)
    assert states(capsys.readouterr().out) == [2]
    load([schema(), batch(rows(10, 2)), record(id=12, name="name 12"), state(3)], config)
    assert table() == rows(10, 3)
    load([schema(), state(4)], config)
    assert table() == rows(10, 3)
    assert states(capsys.readouterr().out) == [3, 4]
    with pytest.raises(NotFoundError):
        load(
            [schema(), batch(rows(20, 2)), state(5), batch_of(GONE, "parquet"), state(6)],
            config,
        )
    assert table() == rows(10, 3)
    assert states(capsys.readouterr().out) == []
    load([schema(), activate(7), state(7)], config)
    assert table() == []
    assert states(capsys.readouterr().out) == [7]


def test_overwrite_follows_a_schema_that_changes(config: Config, batch: Batches, table: Any) -> None:
    wider = COLUMNS.append(pa.field("more", pa.bool_()))
    content = [{"id": 9, "name": "x", "more": True}]
    lines = [schema(), batch(rows(0, 1)), schema(columns=wider), batch(content, columns=wider)]
    load(lines, config | {"load_method": "overwrite"})
    assert table() == [{"id": 0, "name": "name 0", "more": None}, *content]


def test_batches_are_loaded_again_after_overwrite(config: Config, batch: Batches, table: Any) -> None:
    first = [schema(), batch(rows(0, 2), batch_id="a")]
    load(first, config)
    load([schema(), batch(rows(5, 1), batch_id="b")], config | {"load_method": "overwrite"})
    assert table() == rows(5, 1)
    load(first, config)
    assert table() == [*rows(0, 2), *rows(5, 1)]
    load(first, config)
    assert table() == [*rows(0, 2), *rows(5, 1)]


@pytest.mark.parametrize("method", ["append-only", "upsert"])
def test_activate_version_hard(method: str, config: Config, batch: Batches, table: Any) -> None:
    config |= {"hard_delete": True, "load_method": method}
    load([schema(), batch(rows(0, 2), version=1), record(id=2, name="name 2", version=1), activate(1)], config)
    assert [r["id"] for r in table()] == [0, 1, 2]
    lines = [schema(), record(id=5, name="x", version=2), batch(rows(6, 1), version=2), activate(2)]
    load([*lines, batch(rows(7, 1), version=2)], config)
    assert [(r["id"], r["_sdc_table_version"]) for r in table()] == [(5, 2), (6, 2), (7, 2)]


def test_activate_version_soft(config: Config, batch: Batches, table: Any) -> None:
    config |= {"add_record_metadata": True}
    load([schema(), batch(rows(0, 2), version=1), activate(1), batch(rows(5, 1), version=2), activate(2)], config)
    assert [(r["id"], r["_sdc_deleted_at"] is None) for r in table()] == [(0, False), (1, False), (5, True)]


def test_activate_version_without_versions_is_logged(
    config: Config, batch: Batches, table: Any, caplog: pytest.LogCaptureFixture
) -> None:
    load([schema(), batch(rows(0, 2), version=1), activate(2)], config)
    assert table() == rows(0, 2)
    assert "set add_record_metadata or hard_delete" in caplog.text
