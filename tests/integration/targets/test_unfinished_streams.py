"""The tap fails in the middle of a stream: the resulting table, and the run after it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from interrupted_pipe import Cut, Piped, pipe
from singer_lines import Batches, Message, activate, lines, record, rows, schema, state
from warehouses import Warehouse

from local_cloud.programs import Programs
from singer_arrow.errors import DataError, UnfinishedStreamError

OLD = rows(0, 30)
FILES = (range(1000, 5000), range(5000, 10_030), range(10_030, 10_040))
NEW = [*range(1000, 10_040)]
FAILED = "Stream 'rows': the input ended before the tap marked the end of the stream"


class Pipeline:
    """A stream of CSV objects, its table, and the last STATE that the target wrote."""

    def __init__(self, run: Programs, s3: Any, bucket: str, warehouse: Warehouse, *, batches: bool) -> None:
        self._run, self._s3, self._bucket, self._warehouse = run, s3, bucket, warehouse
        stream = {"name": "rows", "path": f"s3://{bucket}/in/*.csv", "schema": {"id": "integer"}}
        self._tap: dict[str, Any] = {"streams": [stream]}
        if batches:
            storage = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{bucket}/stage"}}
            self._tap["batch_config"] = {**storage, "target_file_mb": 0.01}
        self.state: dict[str, Any] | None = None

    def put(self, number: int, *, bad: bool = False) -> None:
        body = "id,name\n" + "".join(f"{n},name {n}\n" for n in FILES[number])
        text = body.replace("10035,", "no number,") if bad else body
        self._s3.put_object(Bucket=self._bucket, Key=f"in/{number}.csv", Body=text)

    def __call__(self, cut: Cut | None = None) -> Piped:
        known = {"state": self.state} if self.state else {}
        settings = {"load_method": "overwrite", "max_batch_age_seconds": 0.3}
        piped = pipe(self._run, {"config": self._tap, **known}, self._warehouse.program, settings, cut)
        if piped.states:
            self.state = piped.states[-1]
        return piped

    def ids(self) -> list[int]:
        return [row["id"] for row in self._warehouse.query("SELECT id FROM {rows} ORDER BY id")]


@pytest.mark.parametrize(
    ("cut", "batches"),
    [
        pytest.param(None, True, id="a bad row"),
        pytest.param(None, False, id="a bad row, RECORD"),
        pytest.param(Cut("BATCH"), True, id="killed"),
        pytest.param(Cut("BATCH", 2, 0.5), True, id="cut in a line"),
    ],
)
def test_overwrite_keeps_the_old_table_and_the_next_run_replaces_it(
    cut: Cut | None, batches: bool, run: Programs, s3: Any, bucket: str, warehouse: Warehouse
) -> None:
    warehouse.load([schema(keys=()), *(record(**row) for row in OLD)])
    pipeline = Pipeline(run, s3, bucket, warehouse, batches=batches)
    for number in range(len(FILES)):
        pipeline.put(number, bad=cut is None and number == len(FILES) - 1)

    failed = pipeline(cut)
    assert (failed.tap, failed.target, failed.states) == (1 if cut is None else -9, 1, []), failed.log
    assert pipeline.ids() == [row["id"] for row in OLD]
    reason = "is no JSON" if cut is not None and cut.share < 1 else FAILED
    assert [reason in line for line in failed.log.splitlines() if "ERROR" in line] == [True]
    assert "Traceback" not in failed.log

    if cut is None:
        pipeline.put(len(FILES) - 1)
    repaired = pipeline()
    assert (repaired.tap, repaired.target, len(repaired.states)) == (0, 0, 1), repaired.log
    assert pipeline.ids() == NEW
    if cut == Cut("BATCH"):
        new_alone = pipeline()
        assert new_alone.target == 1, new_alone.log
        assert "replication_method to FULL_TABLE" in new_alone.log
        assert pipeline.ids() == NEW


def announced(*columns: Any) -> Message:
    return {**schema(*columns), "end_of_stream": True}


def end(number: int) -> Message:
    return {**state(number), "end_of_stream": "rows"}


OVERWRITE = {"load_method": "overwrite"}


@pytest.mark.parametrize("ended", [announced(), schema()], ids=["marked", "of another tap"])
def test_a_stream_of_which_nothing_comes_keeps_its_table(ended: Message, warehouse: Warehouse) -> None:
    warehouse.load([announced(), *(record(**row) for row in OLD), end(0)], **OVERWRITE)
    left: list[Any] = []
    warehouse.load([ended, state(1), end(2)], on_state=left.append, **OVERWRITE)
    warehouse.load([], **OVERWRITE)
    assert warehouse.table() == OLD
    assert left[-1] == {"n": 2}


def test_the_end_of_the_input_ends_the_streams_of_other_taps(warehouse: Warehouse) -> None:
    """Also when the tap failed, which a target cannot detect; but not in the middle of a line."""
    warehouse.load([schema(), *(record(**row) for row in OLD)], **OVERWRITE)
    begun = [schema(), record(id=1, name="new"), state(1)]
    with pytest.raises(DataError, match="the input ends there: has the tap failed"):
        load_text(warehouse, lines(begun) + '{"type": "STATE", "value": {')
    assert warehouse.table() == OLD
    left: list[Any] = []
    warehouse.load(begun, on_state=left.append, **OVERWRITE)
    assert warehouse.table() == [{"id": 1, "name": "new"}]
    assert left == [{"n": 1}]


def load_text(warehouse: Warehouse, text: str) -> None:
    target = warehouse.target(config=warehouse.config | OVERWRITE)
    try:
        target.listen(io.StringIO(text))
    except Exception as error:
        target.run.abandon(error)
        raise
    finally:
        target.run.close()


def test_the_streams_before_an_unfinished_one_are_replaced(warehouse: Warehouse, batch: Batches) -> None:
    def stream(name: str, first: int, number: int) -> list[Message]:
        begin = {**schema(name), "end_of_stream": True}
        mark = {**state(number), "end_of_stream": name}
        return [begin, batch(rows(first, 2), stream=name), state(number - 1), mark]

    warehouse.load([*stream("a", 0, 1), *stream("b", 0, 3)], **OVERWRITE)
    left: list[Any] = []
    with pytest.raises(UnfinishedStreamError, match="Stream 'b'"):
        warehouse.load([*stream("a", 10, 11), *stream("b", 10, 13)[:-1]], on_state=left.append, **OVERWRITE)
    assert (warehouse.table("a"), warehouse.table("b")) == (rows(10, 2), rows(0, 2))
    assert left == [{"n": 11}]


@pytest.mark.parametrize("method", ["append-only", "upsert"])
@pytest.mark.parametrize("hard", [True, False], ids=["deleted", "marked as deleted"])
def test_former_versions_go_only_once_the_new_one_is_activated(
    method: str, hard: bool, warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows of an incomplete version are loaded beside those of the former one."""
    settings = {"load_method": method, "hard_delete": hard, "add_record_metadata": not hard}

    def there() -> list[int]:
        where = "" if hard else "WHERE _sdc_deleted_at IS NULL "
        return [row["id"] for row in warehouse.query(f"SELECT id FROM {{rows}} {where}ORDER BY id")]

    def sent(version: int, first: int) -> list[Message]:
        files = (batch(rows(n, 2), version=version, batch_id=f"{version}-{n}") for n in (first, first + 2))
        return [announced(), *files, state(version), activate(version), end(version)]

    warehouse.load(sent(1, 0), **settings)
    assert there() == [0, 1, 2, 3]
    begun = sent(2, 10)[:-2]
    left: list[Any] = []
    warehouse.load(begun[:2], on_state=left.append, **settings)
    assert there() == [0, 1, 2, 3, 10, 11]
    assert left == []
    warehouse.load(begun, on_state=left.append, **settings)
    assert set(there()) == {0, 1, 2, 3, 10, 11, 12, 13}
    assert left == [{"n": 2}]  # all rows before it are loaded
    caplog.clear()
    warehouse.load(sent(3, 20)[:-1], on_state=left.append, **settings)
    assert there() == [20, 21, 22, 23]
    assert [r.levelname for r in caplog.records if r.getMessage().startswith(FAILED)] == ["WARNING"]
