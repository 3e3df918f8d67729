"""Violations that the fault suite of the tap detects, and its catalogue."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fault_suite import model_target, pipe, tap_catalogue, walks
from fault_suite.catalogue import LOADS
from fault_suite.lake import Lake
from fault_suite.model_target import Table
from fault_suite.small_s3 import BUCKET, Faults, Request, SmallS3
from fault_suite.source import Comparison
from fault_suite.tap_catalogue import SETUPS, Scenario
from fault_suite.tap_steps import Break, Run, Wake

from singer_arrow.errors import NotFoundError, ServiceError
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

POINTS = ["list", "get", "put", "write", "write"] * 3


@pytest.fixture
def lake() -> Lake:
    found = Lake()
    found.write("in/a.csv", rows=3, at=1)
    found.write("in/b.csv", rows=2, at=1, is_bad=True)
    return found


def test_lost_and_doubled_rows_are_counted(lake: Lake) -> None:
    assert lake.compare(Counter([1, 2, 3, 4])) == Comparison(0, 0)
    assert lake.compare(Counter([1, 2, 3, 4, 5])) == Comparison(0, 0)  # the bad row may be there
    assert lake.compare(Counter([1, 2, 4, 5, 5])) == Comparison(1, 1)
    assert lake.compare(Counter([1, 2, 3, 4, 77])) == Comparison(0, 1)


def test_a_replaced_version_may_be_missing_unless_a_run_came_to_its_end(lake: Lake) -> None:
    lake.write("in/a.csv", rows=1, at=1)
    new = Counter([4, 6])
    assert lake.compare(new) == lake.compare(new + Counter([1, 2, 3])) == Comparison(0, 0)
    lake.completed()
    lake.write("in/a.csv", rows=1, at=1)
    assert lake.compare(Counter([4, 7])) == Comparison(1, 0)
    lake.emptied()
    assert lake.compare(Counter([4, 7])) == Comparison(0, 0)


def test_late_objects_do_not_move_time(lake: Lake) -> None:
    before = lake.newest
    assert lake.write("in/c.csv", rows=1, at=-70)[1] < before == lake.newest


def batch(name: str, rows: int, **more: Any) -> str:
    message = {"type": "BATCH", "stream": "rows", "encoding": {"format": "parquet"}, "manifest": [name]}
    return json.dumps(message | {"batch_id": name, "row_count": rows, **more}) + "\n"


def state(done: int) -> str:
    return json.dumps({"type": "STATE", "value": {"bookmarks": {"rows": {"segment": 0, "done": done}}}}) + "\n"


SCHEMA = json.dumps({"type": "SCHEMA", "stream": "rows"}) + "\n"
FILES = {"a": [1, 2], "b": [3], "c": [4], "d": [5]}


def read(name: str) -> bytes | None:
    out = io.BytesIO()
    if name not in FILES:
        return None
    pq.write_table(pa.table({"id": FILES[name], "_sdc_source_file": [name] * len(FILES[name])}), out)
    return out.getvalue()


def load(table: Table, *lines: str, most: int | None = None) -> model_target.Loaded:
    return model_target.load(table, lines, read, columns=("id",), most=most)


def test_a_batch_is_loaded_once() -> None:
    table = Table()
    assert load(table, SCHEMA, batch("a", 2), state(1), batch("b", 1), state(2)).wrong == []
    found = load(table, SCHEMA, batch("a", 2), state(1))
    assert (found.wrong, len(found.states), table.rows) == ([], 1, Counter([1, 2, 3]))


def test_a_target_that_is_killed_releases_no_further_state() -> None:
    table = Table()
    lines = (SCHEMA, batch("a", 2), state(1), batch("b", 1), state(2), batch("c", 1), batch("d", 1), state(4))
    found = load(table, *lines, most=3)
    assert [s["bookmarks"]["rows"]["done"] for s in found.states] == [1]
    assert table.rows == Counter([1, 2, 4])


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (batch("a", 3), "a batch has 2 rows, and its message counts 3"),
        (batch("none", 1), "none is not there"),
        (batch("b", 1, batch_id="x"), ""),
    ],
)
def test_what_a_target_cannot_load_is_wrong(line: str, wrong: str) -> None:
    found = load(Table(), SCHEMA, line, state(1))
    assert found.wrong == ([wrong] if wrong else [])
    assert len(found.states) == (0 if wrong else 1)


def test_columns_that_are_not_selected_and_states_that_go_back_are_wrong() -> None:
    found = model_target.load(Table(), (SCHEMA, batch("a", 2)), read, columns=("name",))
    assert found.wrong == ["columns ['id'] were loaded that are not selected"]
    assert load(Table(), SCHEMA, state(2), state(1)).wrong == ["its STATEs went back: [(0, 2), (0, 1)]"]
    assert load(Table(), batch("a", 2)).wrong == ["a BATCH came before its SCHEMA"]


def request(method: str, key: str = "", **headers: str) -> Request:
    return Request(method, key, {}, headers, b"")


def test_faults_come_where_they_fit() -> None:
    faults = Faults(1, 2, ("409", "503", "error within 200"))
    create = request("PUT", "a", **{"if-none-match": "*"})
    found = [
        faults.at(n, r) for n, r in enumerate((create, create, create, request("GET", "a"), create, request("GET")))
    ]
    assert found == ["", "409", "", "503", "", "503"]
    gone = Faults(2, 1, ("reset",), lasting=True)
    assert [gone.at(n, create) for n in range(4)] == ["", "", "reset", "reset"]


@pytest.fixture
def small_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallS3]:
    service = SmallS3()
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    yield service
    service.stop()


def storage_of(service: SmallS3) -> Storage:
    keys = {"access_key_id": "test", "secret_access_key": "test"}
    return Storage(AwsOptions(region="us-east-1", endpoint_url=service.url, **keys))


def test_the_small_s3_answers_as_s3_does(small_s3: SmallS3) -> None:
    storage = storage_of(small_s3)
    urls = [Url("s3", BUCKET, f"in/{n}") for n in range(10)]
    for url in urls:
        assert storage.put(url, url.key.encode(), if_absent=True)
    assert not storage.put(urls[0], b"other", if_absent=True)
    assert sorted(o.url for o in storage.list(Url("s3", BUCKET, "in/"))) == urls
    info = storage.head(urls[3])
    assert bytes(storage.get(urls[3], start=1, end=3, version_of=info).data) == b"n/"
    storage.delete(urls[:5])
    assert sorted(small_s3.contents.objects) == [url.key for url in urls[5:]]
    with pytest.raises(NotFoundError):
        storage.head(urls[0])


def test_its_faults_are_counted(small_s3: SmallS3) -> None:
    storage = storage_of(small_s3)
    url = Url("s3", BUCKET, "in/a")
    small_s3.expect(Faults(0, 2, ("503", "reset", "answer lost", "truncated")))
    for _ in range(2):
        storage.put(url, b"data")
        assert bytes(storage.get(url).data) == b"data"
    assert small_s3.came == Counter(["503", "reset", "answer lost", "truncated"])
    small_s3.expect(Faults(0, 1, ("page without token",)))
    with pytest.raises(ServiceError, match="a listing"):
        list(storage.list(url))


def everything() -> list[tap_catalogue.Walk]:
    return tap_catalogue.everything(lambda _: (POINTS, 9), may_mount=True)


def test_the_catalogue_has_every_place_and_kind() -> None:
    cases = everything()
    assert {case.setup for case in cases} == set(SETUPS)
    assert {case.kind for case in cases} >= {"SIGKILL", "SIGTERM", "asleep", "wrong answers", "service gone"}
    assert max(Counter(case.name for case in cases).values()) == 1
    assert {case.load for case in pipe.cases()} == set(LOADS)
    assert max(Counter(case.name for case in pipe.cases()).values()) == 1
    for case in cases:
        last = case.steps[-1]
        assert isinstance(last, Run)
        assert last.fault is None


def test_every_point_is_broken_before_and_after_with_state_and_without() -> None:
    scenario = Scenario("first run", "several segments", ())
    found = list(tap_catalogue.kills(scenario, POINTS))
    faults = [step.fault for case in found for step in case.steps[:1] if isinstance(step, Run)]
    points = {(fault.nth, fault.when) for fault in faults if isinstance(fault, Break)}
    assert points >= {(n, when) for n in range(1, len(POINTS) + 1) for when in ("before", "after")}
    assert (4, "middle") in points


def test_walks_are_the_same_each_time_and_come_to_an_end() -> None:
    for seed in range(200):
        walk = walks.walk(seed)
        assert walk == walks.walk(seed)
        runs = [step for step in walk.steps if isinstance(step, Run)]
        assert 4 <= len(runs) <= walks.MOST_RUNS + 3
        assert runs[-1].fault is None
        asleep = [run for run in runs if isinstance(run.fault, Break) and run.fault.signal.name == "SIGSTOP"]
        assert len(asleep) == sum(isinstance(step, Wake) for step in walk.steps)
