"""A STATE names the batch before it: a table that lacks it is refused, or gets what is new with a warning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from singer_lines import Batches, Message, record, rows, schema, state
from warehouses import REBUILT, Warehouse

from singer_arrow.errors import IdentityError, LoadError
from singer_arrow.load.stream_ends import WHOLE

METHODS = ["append-only", "upsert"]
EMPTIED = "its table was emptied since it got batch"
NEW_ALONE = "its table is empty, and the tap sends only what is new"
OLDER = {
    "bigquery": "UPDATE {_sdc_batches} SET started_at = TIMESTAMP_SUB(started_at, INTERVAL 10 DAY) WHERE TRUE",
    "redshift": "UPDATE {_sdc_batches} SET loaded_at = loaded_at - INTERVAL '10 days'",
}
CLONE = "CREATE TABLE {rows} AS SELECT * FROM "


@dataclass
class Pipeline:
    """Runs of a tap with a plan log: batch n has the row n, under the id of the log and n."""

    warehouse: Warehouse
    batch: Batches
    log: str = "log"
    source: str = "source"
    continues: Message | None = None

    def run(self, *numbers: int, after: int | str | None = None, **settings: Any) -> None:
        """Load batches, without STATE or with the one after a batch, of this log or of another one."""
        follows = {} if after is None else {"follows": after if isinstance(after, str) else f"{self.log}-{after}"}
        log: Message = {"log": self.log, "source": self.source, "has_state": after is not None, **follows}
        log |= {"continues": self.continues} if self.continues else {}
        messages = [schema() | {WHOLE: after is None}]
        for n in numbers:
            place = {"place": f"{n:041d}"}
            messages += [self.batch(rows(n, 1), batch_id=f"{self.log}-{n}") | {"plan_log": log | place}, state(n)]
        self.warehouse.load(messages, **settings)

    @property
    def ids(self) -> list[int]:
        return [row["id"] for row in self.warehouse.table()]


Begin = Callable[..., Pipeline]


@pytest.fixture
def begin(warehouse: Warehouse, batch: Batches) -> Begin:
    return lambda log="log", source="source", into=warehouse: Pipeline(into, batch, log, source)


@pytest.fixture
def other(warehouse: Warehouse) -> Any:
    """Another schema, with a clone of the table as it is at first; it has no ledger."""
    found = type(warehouse).__new__(type(warehouse))
    found.__dict__ |= warehouse.__dict__
    found.schema = f"{warehouse.schema}_other"
    found.config = warehouse.config | {"default_target_schema": found.schema}
    yield found
    found.drop()


@pytest.mark.parametrize("load_method", METHODS)
@pytest.mark.parametrize("replay", [None, "skip", "load"])
def test_a_clone_without_a_ledger_is_refused_with_the_state(
    warehouse: Warehouse, begin: Begin, other: Warehouse, load_method: str, replay: str | None
) -> None:
    settings = {"load_method": load_method} | ({"replay": replay} if replay else {})
    begin().run(1, load_method=load_method)
    warehouse.run(f"CREATE SCHEMA {other.schema}")
    other.query(CLONE + warehouse.quoted("rows"))
    begin().run(2, after=1, load_method=load_method)
    clone = begin(into=other)
    with pytest.raises(IdentityError, match=r"comes after batch log-2, and the table has rows, but its ledger knows"):
        clone.run(3, after=2, **settings)
    assert clone.ids == [1]
    if load_method == "append-only":
        other.query("DELETE FROM {rows} WHERE TRUE")
    clone.run(1, 2, 3, load_method=load_method)
    clone.run(4, after=3, load_method=load_method)
    assert clone.ids == [1, 2, 3, 4]


@pytest.mark.parametrize("load_method", METHODS)
def test_a_table_that_was_restored_is_refused_with_the_state_whatever_replay_is(
    warehouse: Warehouse, begin: Begin, load_method: str
) -> None:
    """Its ledger has the batch that it lacks."""
    pipeline = begin()
    pipeline.run(1, 2, load_method=load_method)
    warehouse.query("DELETE FROM {rows} WHERE id = 2")
    warehouse.do(REBUILT)
    for replay in ({}, {"replay": "skip"}, {"replay": "load"}):
        with pytest.raises(IdentityError, match="log-2, which went into a former table of that name"):
            pipeline.run(3, after=2, load_method=load_method, **replay)
    if load_method == "append-only":
        with pytest.raises(LoadError, match="empty it, and run the tap without STATE"):
            pipeline.run(1, 2, 3)
        warehouse.query("DELETE FROM {rows} WHERE TRUE")
    pipeline.run(1, 2, 3, load_method=load_method)
    pipeline.run(4, after=3, load_method=load_method)
    assert pipeline.ids == [1, 2, 3, 4]


@pytest.mark.parametrize("has_state", [False, True])
def test_a_whole_copy_is_known_again_after_a_run_with_replay_skip(
    warehouse: Warehouse, begin: Begin, *, has_state: bool
) -> None:
    """With STATE its rows are counted: they must not be fewer than those of the batches."""
    pipeline = begin()
    pipeline.run(1, 2)
    warehouse.do(REBUILT)
    if has_state:
        pipeline.run(3, after=2, replay="skip")
    else:
        pipeline.run(1, 2, 3, replay="skip")
    pipeline.run(4, after=3)
    assert pipeline.ids == [1, 2, 3, 4]


@pytest.mark.parametrize("load_method", METHODS)
@pytest.mark.parametrize("emptied", ["DELETE FROM {rows} WHERE TRUE", "DROP TABLE {rows}"])
def test_each_pipeline_into_a_table_that_was_emptied_is_warned(
    warehouse: Warehouse, begin: Begin, caplog: pytest.LogCaptureFixture, load_method: str, emptied: str
) -> None:
    """The second one finds the rows of the first one."""
    one, two = begin("one", "source_1"), begin("two", "source_2")
    one.run(1, load_method=load_method)
    two.run(11, after=None, load_method=load_method)
    warehouse.query(emptied)
    caplog.clear()
    one.run(2, after=1, load_method=load_method)
    assert (NEW_ALONE in caplog.text, EMPTIED in caplog.text) == (True, False)
    caplog.clear()
    two.run(12, after=11, load_method=load_method)
    assert (NEW_ALONE in caplog.text, EMPTIED in caplog.text) == (False, True)
    caplog.clear()
    one.run(3, after=2, load_method=load_method)
    two.run(13, after=12, load_method=load_method)
    assert EMPTIED not in caplog.text
    assert one.ids == [2, 3, 12, 13]
    with pytest.raises(IdentityError, match="one-9, which the table's ledger lacks, though it has others"):
        one.run(10, after=9, load_method=load_method)


@pytest.mark.parametrize("method_between", ["upsert", "overwrite"])
def test_a_state_is_proved_by_batches_of_each_load_method(begin: Begin, method_between: str) -> None:
    pipeline = begin()
    pipeline.run(1)
    pipeline.run(1, 2, load_method=method_between)
    pipeline.run(3, after=2)
    pipeline.run(4, after=3, load_method="upsert")
    assert pipeline.ids == [1, 2, 3, 4]


def test_the_batches_before_the_last_states_outlive_ledger_keep_days(warehouse: Warehouse, begin: Begin) -> None:
    """Of each plan log, though only one of them brings something; the others of that age are removed."""
    one, two = begin("one", "source_1"), begin("two", "source_2")
    one.run(1, 2)
    two.run(11, 12)
    one.run(3, 4, after=2)
    warehouse.query(OLDER[warehouse.name])
    warehouse.load([schema(), record(id=100, name="x")], ledger_keep_days=9)  # no run of either log
    one.run(5, after=4, ledger_keep_days=9)
    found = [row["batch_id"] for row in warehouse.query("SELECT batch_id FROM {_sdc_batches}")]
    assert sorted(batch for batch in found if batch[:4] in ("one-", "two-")) == ["one-4", "one-5", "two-12"]
    two.run(13, after=12, ledger_keep_days=9)
    one.run(6, after=5, ledger_keep_days=9)
    assert one.ids == [1, 2, 3, 4, 5, 6, 11, 12, 13, 100]
    one.log = "new"
    with pytest.raises(IdentityError, match="from another plan log"):  # the log of before is known, too
        one.run(1)


@pytest.mark.parametrize("state", [None, 1])
def test_a_plan_log_that_is_not_the_last_one_is_refused(begin: Begin, state: int | None) -> None:
    """It does not know what the other one has loaded since; a third one, which continues the second, does."""
    first, second, third = begin("first"), begin("second"), begin("third")
    first.run(1)
    second.run(2, after="first-1")
    with pytest.raises(IdentityError, match="another plan log brought rows of the same paths"):
        first.run(*([1] if state is None else []), 2, after=state)
    assert first.ids == [1, 2]
    for numbers in ([3], [4]):
        second.run(*numbers, after=numbers[0] - 1)
    third.run(5, after="second-4")
    third.run(6, after=5)
    assert first.ids == [1, 2, 3, 4, 5, 6]


def test_a_day_that_is_loaded_again_by_another_plan_log_leaves_the_daily_one_the_last(begin: Begin) -> None:
    """It has a log of its own, as docs/redo-a-day.md has it; once that one goes on, it is the last one."""
    daily, redo = begin("daily"), begin("redo")
    daily.run(1)
    for _ in range(2):
        redo.run(1, replay="load")
    daily.run(2, after=1)
    daily.run(1, 2, 3)
    assert daily.ids == [1, 1, 1, 2, 3]
    redo.run(4, after=1)
    with pytest.raises(IdentityError, match="another plan log brought rows of the same paths"):
        daily.run(5, after=3)


def test_an_upsert_by_a_former_plan_log_makes_it_the_last_one(begin: Begin) -> None:
    first, second = begin("first"), begin("second")
    first.run(1, load_method="upsert")
    second.run(1, 2, load_method="upsert")
    first.run(1, 2, 3, load_method="upsert")
    first.run(4, after=3)
    with pytest.raises(IdentityError, match="another plan log brought rows of the same paths"):
        second.run(3)
    assert first.ids == [1, 2, 3, 4]


@pytest.mark.parametrize("between", ["records", "batches"])
def test_a_state_from_before_rows_without_a_plan_log_is_refused(
    warehouse: Warehouse, batch: Batches, begin: Begin, between: str
) -> None:
    """They may be rows of the same files, by RECORD messages or FULL_TABLE; other STATEs and other taps go on."""
    pipeline = begin()
    pipeline.run(1)
    came = [record(id=2, name="x")] if between == "records" else [batch(rows(2, 1))]
    warehouse.load([schema(), *came])  # of another tap
    pipeline.run(3, after=1)
    for _ in range(2):
        warehouse.load([schema() | {WHOLE: True}, *came])
        with pytest.raises(IdentityError, match="after batch log-3, since which the table got rows by RECORD"):
            pipeline.run(4, after=3)
    pipeline.run(4, after=3, replay="skip")
    pipeline.run(5, after=4)
    pipeline.run(5, after=3, load_method="upsert")
    assert pipeline.ids == [1, 2, 2, 2, 3, 4, 5]


FEWER = "fewer than its ledger counts"


def test_a_backup_that_lacks_rows_is_named_by_a_run_without_state(
    warehouse: Warehouse, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    """The batches are left out, as the ledger has them; a backup that has all of them is right."""
    pipeline = begin()
    pipeline.run(1, 2, 3)
    warehouse.query("CREATE TABLE {backup} AS SELECT * FROM {rows}")
    for kept, fewer in (("TRUE", False), ("id < 3", True)):
        warehouse.query("DELETE FROM {rows} WHERE TRUE")
        warehouse.query(f"INSERT INTO {{rows}} SELECT * FROM {{backup}} WHERE {kept}")
        caplog.clear()
        pipeline.run(1, 2, 3)
        assert (FEWER in caplog.text) is fewer
    assert "Stream 'rows': its table has 2 rows, 1 fewer than its ledger counts" in caplog.text
    caplog.clear()
    pipeline.run(4, after=3)  # which leaves out nothing
    assert FEWER not in caplog.text
    caplog.clear()
    pipeline.run(1, 2, 3, 4, 5)
    assert "its table has 4 rows, 1 fewer than" in caplog.text


def test_a_table_that_has_fewer_rows_than_its_batches_for_a_reason_is_not_named(
    warehouse: Warehouse, begin: Begin, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows that were merged, replaced or rejected."""
    pipeline = begin()
    pipeline.run(1, 2)
    pipeline.run(1, 3, load_method="overwrite")
    pipeline.run(1, 3)
    log = {"plan_log": {"log": "log", "source": "source", "has_state": False}}
    bad = batch([{"id": 4, "name": "x"}, {"id": "no number", "name": "x"}], file_format="jsonl", batch_id="bad") | log
    for _ in range(2):
        warehouse.load([schema() | {WHOLE: True}, bad, state(9)], on_bad_row="dead_letter")
    assert pipeline.ids == [1, 3, 4]
    for load_method in ("upsert", "append-only"):
        warehouse.load([schema(), batch(rows(1, 1), batch_id="same") | log], load_method=load_method)
    assert pipeline.ids == [1, 3, 4]
    assert FEWER not in caplog.text


@pytest.mark.parametrize("load_method", METHODS)
def test_a_plan_log_that_was_begun_at_an_older_state_is_refused(
    warehouse: Warehouse, begin: Begin, load_method: str
) -> None:
    """It would send again what the log before it brought after that STATE; begun at the last one, it goes on."""
    before, new = begin("before"), begin("new")
    before.run(1, load_method=load_method)
    before.run(2, 3, after=1, load_method=load_method)

    def continued(after: int) -> Pipeline:
        new.continues = {"log": "before", "batch": f"before-{after}", "place": f"{after + 1:041d}"}
        return new

    for after, brought in ((1, [2, 3, 4]), (2, [3, 4])):
        if load_method == "upsert":
            break
        with pytest.raises(IdentityError, match="rows that the log before it brought after that STATE"):
            continued(after).run(*brought, after=f"before-{after}")
    with pytest.raises(IdentityError, match="comes after batch before-9"):
        continued(9).run(10, after="before-9", load_method=load_method)
    continued(1 if load_method == "upsert" else 3).run(4, after="before-3", load_method=load_method)
    new.source = "with_another_path"  # of which the ledger knows no log
    warehouse.query(OLDER[warehouse.name])
    for n in (5, 6, 7):
        new.run(n, after=n - 1, load_method=load_method, ledger_keep_days=9)
    assert new.ids == [1, 2, 3, 4, 5, 6, 7]


def test_a_plan_log_that_continues_another_loads_into_a_table_that_was_emptied(
    warehouse: Warehouse, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    before = begin("before")
    before.run(1, 2)
    warehouse.query("DELETE FROM {rows} WHERE TRUE")
    new = begin("new")
    new.continues = {"log": "before", "batch": "before-1", "place": f"{2:041d}"}
    caplog.clear()
    new.run(2, 3, after="before-1")
    assert NEW_ALONE in caplog.text
    new.run(4, after=3)
    assert new.ids == [2, 3, 4]
