"""Exactly once: replays, clean-ups, and the log messages of both. Interruptions: `tests/faults`."""

from __future__ import annotations

import time
from typing import Any

import pytest
from local_settings import ONE_EACH
from redshift_lines import Loads
from singer_lines import record, rows, schema, some_batches, state, states

from target_redshift import sql
from target_redshift.connection import Session


@pytest.mark.parametrize("where", ["s3", "local"])
@pytest.mark.smoke("s3")
def test_a_replay_grouped_otherwise_loads_nothing_twice(
    where: str, redshift: Loads, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    run = some_batches(redshift.batch, where=where)
    redshift.run(run)
    assert redshift.ids() == list(range(12))
    for size, part in ((0.001, run), (512, run), (512, run[:7]), (512, [run[0], *run[5:]])):
        caplog.clear()
        caplog.set_level("INFO")
        counts = redshift.run(part, max_batch_mb=size)
        assert redshift.ids() == list(range(12))
        assert counts["skipped"] == counts["batches"] == sum(m["type"] == "BATCH" for m in part)
        assert "load_jobs" not in counts
    assert "batch batch-5 was loaded at 20" in caplog.text
    assert "to load it again set replay: load" in caplog.text
    assert states(capsys.readouterr().out)[-1] == 5
    assert redshift.ledger() == {f"batch-{n}": 2 for n in range(6)}


def test_what_is_new_in_a_replay_is_loaded(redshift: Loads) -> None:
    run = some_batches(redshift.batch)
    redshift.run(run[:5], **ONE_EACH)
    counts = redshift.run(run)
    assert redshift.ids() == list(range(12))
    assert (counts["skipped"], counts["rows"], counts["load_jobs"]) == (2, 8, 1)


def test_a_batch_that_comes_twice_in_one_run_is_loaded_once(redshift: Loads) -> None:
    message = redshift.batch(rows(0, 2), batch_id="a")
    redshift.run([schema(), message, message, state(1), message], **ONE_EACH)
    assert redshift.ids() == [0, 1]


def test_replay_load_loads_again(redshift: Loads) -> None:
    run = some_batches(redshift.batch, 2)
    redshift.run(run)
    redshift.run(run, replay="load")
    assert redshift.ids() == sorted([*range(4)] * 2)
    redshift.run(run)
    assert len(redshift.ids()) == 8


def test_an_upsert_merges_a_batch_again_because_later_ones_replaced_its_rows(redshift: Loads) -> None:
    first, second = (redshift.batch([{"id": 1, "name": n}], batch_id=n) for n in "ab")
    between = record(id=1, name="record")
    for run, name in (([first, second], "b"), ([first], "a"), ([first, between, second], "b"), ([second, first], "a")):
        for _ in range(2):
            redshift.run([schema(), *run], load_method="upsert")
            assert redshift.sql("SELECT id, name FROM {rows}") == [(1, name)]
    assert redshift.ledger() == {"a": 1, "b": 1}
    redshift.run([schema(), first, second])  # append-only skips them
    assert redshift.ids() == [1]


def test_other_taps_and_records_are_loaded_as_often_as_they_come(redshift: Loads) -> None:
    run = [schema(), redshift.batch(rows(0, 1)), record(id=1, name="x")]
    for _ in range(2):
        redshift.run(run)
    assert redshift.ids() == [0, 0, 1, 1]
    assert redshift.ledger() == {}


@pytest.mark.parametrize(
    "clean_up",
    [
        "DROP TABLE {rows}",
        "DROP TABLE {rows}; CREATE TABLE {rows} (id BIGINT, name VARCHAR(256))",
        "TRUNCATE TABLE {rows}",
        "DELETE FROM {rows}",
    ],
)
def test_after_a_clean_up_everything_is_loaded_again(clean_up: str, redshift: Loads) -> None:
    run = some_batches(redshift.batch)
    redshift.run(run)
    time.sleep(0.01)
    for text in clean_up.split(";"):
        redshift.sql(text)
    redshift.run(run[:7], **ONE_EACH)
    assert redshift.ids() == list(range(6))
    redshift.run(run)  # and batches from before the clean-up stay void, although the table is not empty any more
    assert redshift.ids() == list(range(12))
    redshift.run(run)
    assert redshift.ids() == list(range(12))


def test_an_emptied_table_is_noticed_whatever_comes_first(redshift: Loads) -> None:
    run = some_batches(redshift.batch, 2)
    redshift.run(run)
    redshift.sql("TRUNCATE TABLE {rows}")
    redshift.run([schema(), record(id=100, name="x")])
    redshift.run(run)
    assert redshift.ids() == [0, 1, 2, 3, 100]


def test_rows_deleted_one_by_one_are_not_missed(redshift: Loads) -> None:
    run = some_batches(redshift.batch)
    redshift.run(run)
    redshift.sql("DELETE FROM {rows} WHERE id < 5")
    redshift.run(run)
    assert redshift.ids() == list(range(5, 12))


@pytest.mark.smoke
def test_another_run_that_loads_a_batch_meanwhile(
    redshift: Loads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A twin commits half of a group after this run has read the ledger, and before it publishes."""
    run = some_batches(redshift.batch)
    execute = Session.execute
    twin: list[bool] = []

    def with_twin(self: Session, text: str, *args: Any, **options: Any) -> Any:
        if text.startswith("COPY") and not twin:
            twin.append(True)
            redshift.run(run[:7])
        return execute(self, text, *args, **options)

    monkeypatch.setattr(Session, "execute", with_twin)
    caplog.set_level("INFO")
    counts = redshift.run(run)
    assert redshift.ids() == list(range(12))
    assert (counts["skipped"], counts["rows"]) == (3, 6)
    assert "batch batch-0 was loaded just now by another run" in caplog.text
    assert redshift.ledger() == {f"batch-{n}": 2 for n in range(6)}


def test_marks_of_old_loads_go(redshift: Loads) -> None:
    redshift.run([schema(), record(id=0, name="x")])
    redshift.sql("UPDATE {_sdc_batches} SET loaded_at = loaded_at - INTERVAL '2 days'")
    redshift.run([schema(), record(id=1, name="x")])
    assert redshift.sql("SELECT COUNT(*) FROM {_sdc_batches}") == [(1,)]
    assert redshift.ids() == [0, 1]


@pytest.mark.smoke
def test_the_ledger_is_locked_first_and_data_commits_with_it(redshift: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    execute = Session.execute

    def noting(self: Session, text: str, *args: Any, **options: Any) -> Any:
        statements.append(text)
        return execute(self, text, *args, **options)

    monkeypatch.setattr(Session, "execute", noting)
    redshift.run(some_batches(redshift.batch, 1))
    load = statements[len(statements) - statements[::-1].index(sql.BEGIN) - 1 :]
    words = [text.split()[0] for text in load[: load.index(sql.COMMIT) + 1]]
    assert words == ["BEGIN", "LOCK", "SELECT", "INSERT", "INSERT", "COMMIT"]
