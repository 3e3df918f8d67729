"""Settings that change between runs take effect at once and duplicate no row."""

from __future__ import annotations

from typing import Any

import pytest
from tap_source import Source, ids_of, state_of

from local_cloud.programs import Programs

CHANGED = "settings that decide about rows have changed"


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    made = Source(s3, bucket, tap)
    made.put("in/a.csv", "id,email,amount\n1,a@x,10\n2,b@x,twenty\n3,c@x,30\n")
    return made


def test_a_run_without_state_follows_the_plan_with_the_columns_of_the_day(source: Source) -> None:
    batches = source.batches()
    first = source.run(source.config(batch_config=batches, metadata_columns=False))
    assert {tuple(row) for row in source.rows(first)} == {("id", "email", "amount")}
    config = source.config(batch_config=batches, metadata_columns=False, stream={"columns": ["id", "amount"]})
    again = source.run(config)
    assert {tuple(row) for row in source.rows(again)} == {("id", "amount")}
    assert all(list(m["schema"]["properties"]) == ["id", "amount"] for m in again.of_type("SCHEMA"))
    assert ids_of(again) == ids_of(first)
    assert again.stderr.count(CHANGED) == 1
    assert CHANGED not in source.run(source.config(batch_config=batches, metadata_columns=False)).stderr
    assert CHANGED in source.run(config, state=state_of(first)).stderr


def test_rules_for_bad_rows_apply_to_what_is_planned_already(source: Source) -> None:
    types = {"schema": {"amount": "integer"}}
    skipping = source.config(batch_config=source.batches(), stream={**types, "on_bad_row": "skip"})
    first = source.run(skipping)
    assert [r["id"] for r in source.rows(first)] == [1, 3]
    failing = source.config(batch_config=source.batches(), stream={**types, "on_bad_row": "fail"})
    ran = source.tap("tap-s3-files", config=failing)
    assert ran.code == 1
    assert "'twenty' is not an integer" in ran.stderr
    rescuing = source.config(batch_config=source.batches(), stream={**types, "on_bad_row": "rescue"})
    again = source.run(rescuing)
    assert [r["id"] for r in source.rows(again)] == [1, 2, 3]
    assert ids_of(again) == ids_of(first)


def test_formats_of_batch_files_and_messages_change_the_files_and_not_the_ids(source: Source) -> None:
    first = source.run(source.config(batch_config=source.batches()))
    again = source.run(source.config(batch_config=source.batches(format="jsonl", compression="gzip")))
    assert ids_of(again) == ids_of(first)
    assert {m["manifest"][0].rpartition("/")[2] for m in again.of_type("BATCH")}.isdisjoint(
        m["manifest"][0].rpartition("/")[2] for m in first.of_type("BATCH")
    )
