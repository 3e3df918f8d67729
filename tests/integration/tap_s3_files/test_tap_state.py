"""Resuming the tap against real S3: with the last STATE, without it, and after kill -9."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from meltano.core.utils import merge
from tap_source import Source, ids_of, moment, state_of

from local_cloud.programs import Programs, Ran
from singer_arrow.batch.message import place_in_log
from tap_s3_files.settings import Bookmark


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


def test_the_same_input_gives_the_same_messages_also_without_state(source: Source) -> None:
    for n in range(5):
        source.csv(f"in/{n}.csv", n * 10)
    first, second = source.run(), source.run()
    assert first.stdout == second.stdout
    assert len(ids_of(first)) == 1  # small objects are bundled
    assert [r["id"] for r in source.rows(first)] == list(range(50))


@pytest.mark.smoke
def test_only_what_is_new_is_sent(source: Source) -> None:
    source.csv("in/a.csv", 0, at=moment(0))
    first = source.run()
    nothing = source.run(state=state_of(first))
    assert nothing.of_type("BATCH") == []
    assert state_of(nothing) == state_of(first)
    source.csv("in/b.csv", 10, at=moment(1))
    source.csv("in/a.csv", 100, at=moment(1))
    source.s3.delete_object(Bucket=source.bucket, Key="in/none.csv")
    second = source.run(state=state_of(first))
    assert sorted(r["id"] for r in source.rows(second)) == [*range(10, 20), *range(100, 110)]
    mark = state_of(second)["bookmarks"]["rows"]
    assert mark["key"] == f"s3://{source.bucket}/in/b.csv"


def test_records_continue_at_the_watermark_too(source: Source) -> None:
    config = source.config()
    source.csv("in/a.csv", 0, at=moment(0))
    first = source.run(config)
    assert [r["id"] for r in source.rows(first)] == list(range(10))
    assert source.rows(source.run(config, state=state_of(first))) == []
    source.csv("in/b.csv", 10, at=moment(1))
    assert [r["id"] for r in source.rows(source.run(config, state=state_of(first)))] == list(range(10, 20))


def test_an_unfinished_plan_is_followed_whatever_came_since(source: Source) -> None:
    """Without the plan the new object would be bundled with the old ones, and loaded twice."""
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10, at=moment(0))
    first = source.run()
    source.csv("in/0-new.csv", 30, at=moment(1))
    second = source.run()  # its STATE was lost with the target
    assert ids_of(second)[: len(ids_of(first))] == ids_of(first)
    assert [r["id"] for r in source.rows(second)] == list(range(40))


@pytest.mark.parametrize("lines", [1, 2, 9, 14, 20])
@pytest.mark.smoke("2")
def test_after_kill_minus_nine_the_same_batches_come_again(lines: int, source: Source) -> None:
    with ThreadPoolExecutor(8) as pool:  # three tasks, each of several batch files
        list(pool.map(lambda n: source.csv(f"in/{n:03}.csv", n * 50, 50), range(450)))
    config = source.config(batch_config=source.batches(file_mb=0.02))
    process = source.tap.start("tap-s3-files", config=config)
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline()) for _ in range(lines)]
    process.kill()
    process.communicate()
    states = [m["value"] for m in seen if m["type"] == "STATE"]
    rest = source.run(config, **({"state": states[-1]} if states else {}))
    sent, again = (
        [{key: value for key, value in m.items() if key != "plan_log"} for m in messages if m["type"] == "BATCH"]
        for messages in (seen, rest.messages)  # the key is that of runs without STATE
    )
    manifests = {m["batch_id"]: m for m in [*sent, *again]}
    assert all(m == manifests[m["batch_id"]] for m in sent)
    rows = [r["id"] for m in manifests.values() for r in source.read(m)]
    assert sorted(rows) == list(range(450 * 50))


def test_other_paths_lose_nothing_and_send_nothing_twice(source: Source) -> None:
    source.csv("in/a.csv", 0)
    first = source.run()
    source.csv("in/b/c.csv", 10)
    source.csv("other/d.csv", 20)
    wider = {"path": [f"s3://{source.bucket}/in/**", f"s3://{source.bucket}/other/*"]}
    ran = source.run(source.config(batch_config=source.batches(), stream=wider))
    assert sorted(r["id"] for r in source.rows(ran)) == list(range(30))
    assert ids_of(ran)[:1] == ids_of(first)
    narrow = source.run(source.config(batch_config=source.batches(), stream={"path": f"s3://{source.bucket}/in/a.csv"}))
    assert ids_of(narrow) == ids_of(first)


def test_the_plan_log_is_only_appended_to_and_compacted(source: Source, tmp_path: Path) -> None:
    def plans() -> list[str]:
        return sorted(p.name for p in (tmp_path / "stage" / "_plans" / "rows").glob("[!l]*"))

    folder, state, sent = tmp_path / "in", {}, list[str]()
    folder.mkdir()
    batches = {**source.batches(), "storage": {"root": f"file://{tmp_path}/stage"}}
    config = source.config(stream={"path": f"{folder}/*.csv"}, batch_config=batches)
    for number in range(17):
        path = folder / f"{number:02}.csv"
        path.write_text(f"id\n{number}\n")
        os.utime(path, (1_700_000_000 + number,) * 2)
        ran = source.run(config, **({"state": state} if state else {}))
        state, sent = state_of(ran), [*sent, *ids_of(ran)]
    assert plans() == ["000016.json", "checkpoint-000000-000015-20231114T221335000000.parquet"]
    assert len(sent) == len(set(sent)) == 17
    assert ids_of(source.run(config)) == sent


def test_late_objects_stay_entries_of_their_own(source: Source, tmp_path: Path) -> None:
    """Without STATE, `b` must not join the bundle of `a` and `z`, which have the same time of change."""
    folder = tmp_path / "in"
    folder.mkdir()
    config = source.config(stream={"path": f"{folder}/*.csv"}, batch_config=source.batches())

    def put(name: str, second: int) -> None:
        (folder / name).write_text(f"name\n{name}\n")
        os.utime(folder / name, (1_700_000_000 + second,) * 2)

    put("a.csv", 0)
    put("z.csv", 0)
    first = source.run(config)
    put("b.csv", 0)
    second = source.run(config, state=state_of(first))
    assert [r["name"] for r in source.rows(second)] == ["b.csv"]
    assert ids_of(source.run(config)) == ids_of(first) + ids_of(second)
    process = source.tap.start("tap-s3-files", config=config)  # without STATE, and killed
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    put("c.csv", -70)
    third = source.run(config, state=state_of(second))
    assert [r["name"] for r in source.rows(third)] == ["c.csv"]


def test_all_over_again_gives_the_same_batches_as_bit_by_bit(source: Source) -> None:
    source.csv("in/b.csv", 0, at=moment(0))
    first = source.run()
    source.csv("in/a.csv", 10, at=moment(1))
    second = source.run(state=state_of(first))
    third = source.run(state=state_of(second))
    assert third.of_type("BATCH") == []
    again = source.run()
    assert ids_of(again) == ids_of(first) + ids_of(second)


def test_an_object_that_appears_late_is_read_once(source: Source, tmp_path: Path) -> None:
    def put(name: str, minutes_ago: float) -> None:
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"name\n{name}\n")
        os.utime(path, (now - 60 * minutes_ago,) * 2)

    def names(ran: Ran) -> list[str]:
        return [r["name"] for r in source.rows(ran)]

    now = time.time()
    config = source.config(
        stream={"path": f"{tmp_path}/in/*.csv"}, batch_config=source.batches(), metadata_columns=False
    )
    put("a.csv", 9)
    put("z.csv", 2)
    first = source.run(config)
    assert names(first) == ["a.csv", "z.csv"]
    put("late.csv", 5)
    put("too-late.csv", 20)
    second = source.run(config, state=state_of(first))
    assert names(second) == ["late.csv"]
    put("new.csv", 1)
    third = source.run(config, state=state_of(second))
    assert names(third) == ["new.csv"]
    longer = source.run(config | {"replication": {"overlap_minutes": 30}}, state=state_of(third))
    assert names(longer) == ["too-late.csv"]
    assert names(source.run(config, state=state_of(longer))) == []


@pytest.mark.parametrize("path", ["*.csv", "{date:%Y-%m-%d}.csv"])
@pytest.mark.parametrize("has_batches", [True, False])
def test_a_relative_start_loses_nothing_after_a_pause(
    source: Source, tmp_path: Path, path: str, *, has_batches: bool
) -> None:
    """A shorter time in the second run is as if the first one had been so much earlier."""
    folder, now = tmp_path / "in", datetime.now(UTC)
    folder.mkdir()

    def put(days: int) -> None:
        moment = now - timedelta(days=days)
        file = folder / f"{moment:%Y-%m-%d}.csv"
        file.write_text(f"days\n{days}\n")
        os.utime(file, (moment.timestamp(),) * 2)

    def days(start: str, method: str = "INCREMENTAL", **options: Any) -> tuple[Ran, list[int]]:
        stream = {"path": f"{folder}/{path}", "replication_method": method}
        more = {"batch_config": source.batches()} if has_batches else {}
        ran = source.run(source.config(stream=stream, start_date=start, **more), **options)
        return ran, sorted(r["days"] for r in source.rows(ran))

    put(9)
    put(6)
    first, read = days("-7d")
    assert read == [6]
    put(5)
    put(1)
    second, read = days("-3d", state=state_of(first))
    assert read == [1, 5]
    assert days("-3d", state=state_of(second))[1] == []
    assert days("-3d", "FULL_TABLE", state=state_of(second))[1] == [1]


def test_a_window_bounds_what_is_read(source: Source) -> None:
    source.csv("in/a.csv", 0, at=moment(0))
    source.csv("in/b.csv", 10, at=moment(1))
    text = moment(1).isoformat()
    before = source.run(source.config(end_date=text))
    after = source.run(source.config(start_date=text))
    assert [r["id"] for r in source.rows(before)] == list(range(10))
    assert [r["id"] for r in source.rows(after)] == list(range(10, 20))
    assert source.rows(source.run(source.config(start_date="2100-01-01"))) == []


def test_a_full_table_is_read_whole_each_time(source: Source) -> None:
    source.csv("in/a.csv", 0)
    config = source.config(batch_config=source.batches(), emit_activate_version_messages=True)
    catalog = json.loads(source.run(config, discover=True).stdout)
    (stream,) = catalog["streams"]
    stream["replication_method"] = "FULL_TABLE"
    stream["metadata"][0]["metadata"]["selected"] = True
    first = source.run(config, catalog=catalog)
    time.sleep(1.1)  # the resolution of a version is a second
    second = source.run(config, catalog=catalog, state=state_of(first))
    versions = [m["version"] for m in second.of_type("ACTIVATE_VERSION", "BATCH")]
    assert len(set(versions)) == 1
    assert len(versions) == 2
    assert [r["id"] for r in source.rows(second)] == list(range(10))
    assert ids_of(first) != ids_of(second)  # of another version, so it is no replay


def test_a_signal_ends_the_run_with_whole_lines(source: Source) -> None:
    for n in range(30):
        source.csv(f"in/{n:02}.csv", n * 1000, 1000)
    process = source.tap.start("tap-s3-files", config=source.config())
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert all(json.loads(line) for line in [first, *out.splitlines()])
    assert b"Traceback" not in err


def large_objects(source: Source, count: int) -> dict[str, Any]:
    """Put objects of 600 rows each, which become several batch files; return the configuration of two streams."""
    for n in range(count):
        rows = (f"{n * 600 + row},{os.urandom(7200).hex()}\n" for row in range(600))
        source.put(f"in/{n}.csv", "id,pad\n" + "".join(rows), at=moment(n))
    source.csv("small/a.csv", 0)
    small = {"name": "small", "path": f"s3://{source.bucket}/small/*.csv"}
    config = source.config(batch_config=source.batches(file_mb=1), max_workers=1, stream={"schema": {"id": "integer"}})
    return {**config, "streams": [*config["streams"], small]}


def test_a_run_continues_at_a_state_that_meltano_has_merged(source: Source) -> None:
    """It merges a STATE into the former one, key by key, with --full-refresh and --state-strategy=merge."""
    config = large_objects(source, 2)
    states = [message["value"]["bookmarks"] for message in source.run(config).of_type("STATE")]
    assert states[0]["small"] == {**Bookmark().to_state(), "shard": ""}  # of the stream that comes last
    for former, new in product(states, repeat=2):
        assert merge(new, deepcopy(former)) == new

    within = next(state for state in states if state["rows"]["rows"])
    behind = next(state for state in states if state["rows"]["done"] == 1 and not state["rows"]["rows"])
    merged = merge(behind, deepcopy(within))
    rest = source.run(config, state={"bookmarks": merged})
    assert [row["id"] for row in source.rows(rest)] == list(range(600, 1200))
    assert len(source.rows(rest, "small")) == 10

    # Earlier versions left `rows` out where it was 0, so that a merged STATE of theirs may have that of another object
    mark = {name: behind["rows"].pop(name) for name in ("last_modified", "key")}
    stale = {**behind["rows"], "watermark": mark if mark["key"] else None, "rows": within["rows"]["rows"] + 1}
    ran = source.tap("tap-s3-files", config=config, state={"bookmarks": {"rows": stale}})
    assert f"its STATE is behind row {stale['rows']} of s3://{source.bucket}/in/1.csv" in ran.stderr
    assert not source.rows(ran)


@pytest.mark.parametrize("mode", ["BATCH", "RECORD", "passthrough"])
def test_content_that_is_there_again_is_sent_once_by_a_run_without_state(source: Source, mode: str) -> None:
    """An object with a neighbour gets another content, then its former one back; a run comes after each."""
    passes = mode == "passthrough"
    more = {"passthrough": True, "metadata_columns": False} if passes else {}
    more |= {"plan_root": f"s3://{source.bucket}/plans"} if mode == "RECORD" else {"batch_config": source.batches()}
    path = f"s3://{source.bucket}/in/*.{'parquet' if passes else 'csv'}"
    config = source.config(**more, stream={"path": path})

    def put(name: str, first: int, second: int) -> None:
        if not passes:
            source.csv(f"in/{name}.csv", first, 2, at=moment(second))
            return
        buffer = io.BytesIO()
        pq.write_table(pa.table({"id": [first, first + 1]}), buffer)
        source.put(f"in/{name}.parquet", buffer.getvalue(), at=moment(second))

    put("z", 50, 0)
    state, sent = {}, list[str]()
    for second, first in enumerate((0, 10, 0)):
        put("a", first, second)
        ran = source.run(config, **({"state": state} if state else {}))
        state, sent = state_of(ran), [*sent, *ids_of(ran)]
    whole = source.run(config)
    assert [row["id"] for row in source.rows(whole)] == [50, 51, 0, 1]
    assert set(ids_of(whole)) <= set(sent)
    put("a", 20, 3)
    assert [row["id"] for row in source.rows(source.run(config))] == [50, 51, 20, 21]


def test_an_object_that_the_path_no_longer_names_is_read_as_it_was_planned_alone(source: Source) -> None:
    """A bundle of the log holds it, with one that the path names."""
    source.csv("in/x/a.csv", 0)
    source.csv("in/y/b.csv", 10)
    source.run()
    narrow = {"path": f"s3://{source.bucket}/in/x/*.csv"}
    config = source.config(batch_config=source.batches(), stream=narrow)
    assert len(source.rows(source.run(config))) == 20
    source.csv("in/y/b.csv", 20)
    assert [row["id"] for row in source.rows(source.run(config))] == list(range(10))


@pytest.mark.parametrize("is_gone", [False, True], ids=["beside the former one", "in another place"])
def test_a_new_plan_log_knows_what_was_read_before(source: Source, is_gone: bool) -> None:
    """By version: an object that was uploaded again without a change is not read again."""
    roots = [f"s3://{source.bucket}/plans", f"s3://{source.bucket}/{'other' if is_gone else 'plans'}"]
    former, config = (source.config(batch_config=source.batches(), plan_root=root) for root in roots)
    source.csv("in/a.csv", 0, at=moment(0))
    source.csv("in/b.csv", 10, at=moment(1))
    first = source.run(former)
    state, (batch,) = state_of(first), first.of_type("BATCH")
    source.tap("tap-s3-files", "--new-plan-log", config=config, state=state).check()
    source.csv("in/a.csv", 0, at=moment(9))
    source.csv("in/c.csv", 20, at=moment(9))
    second = source.run(config, state=state)
    assert [row["id"] for row in source.rows(second)] == list(range(20, 30))
    said = second.of_type("BATCH")[0]["plan_log"]
    continued = {"log": batch["plan_log"]["log"], "batch": batch["batch_id"], "place": place_in_log(1)}
    assert (said["continues"], said["follows"], said["has_state"]) == (continued, batch["batch_id"], True)
    assert batch["plan_log"]["place"] == place_in_log(0)
    assert source.rows(source.run(config, state=state_of(second))) == []


@pytest.mark.parametrize("mode", ["BATCH", "RECORD"])
def test_places_of_later_dates_are_read_once_the_end_moves_on(source: Source, mode: str) -> None:
    """Their objects may be older than all that was read; a run without a plan log knows by STATE what it has listed."""
    batches = {"batch_config": source.batches()} if mode == "BATCH" else {}
    path = f"s3://{source.bucket}/in/{{date:%Y-%m-%d}}/*.csv"
    dates = {"start_date": "2024-05-01", "replication": {"overlap_minutes": 0}, **batches}
    source.csv("in/2024-05-01/a.csv", 0, at=moment(9))
    source.csv("in/2024-05-02/b.csv", 10, at=moment(5))
    source.csv("in/2024-05-03/c.csv", 20, at=moment(3))
    state, found = {}, list[list[int]]()
    for end in ("2024-05-02", "2024-05-03", "2024-05-02", "2024-05-04", "2024-05-04"):
        config = source.config(**dates, end_date=end, stream={"path": path})
        ran = source.run(config, **({"state": state} if state else {}))
        found.append([row["id"] for row in source.rows(ran)])
        state = state_of(ran)
    assert found == [list(range(10)), list(range(10, 20)), [], list(range(20, 30)), []]


def test_without_an_end_date_places_are_read_when_their_date_has_come(source: Source) -> None:
    now, path = datetime.now(UTC), f"s3://{source.bucket}/in/{{date:%Y-%m-%d}}/*.csv"
    places = [f"{now + timedelta(days=day):%Y-%m-%d}" for day in (-3, -1, 3)]
    config = source.config(
        start_date=places[0], replication={"overlap_minutes": 0}, metadata_columns=False, stream={"path": path}
    )
    for n, place in enumerate(places):
        source.csv(f"in/{place}/a.csv", 10 * n, at=moment(9 - n))
    first = source.run(config)
    assert [row["id"] for row in source.rows(first)] == [*range(10, 20), *range(10)]
    state = state_of(first)
    (text,) = state["bookmarks"]["rows"]["left_out"]
    assert now < datetime.fromisoformat(text.removeprefix("dates from ")) - timedelta(days=1) < datetime.now(UTC)
    assert source.rows(source.run(config, state=state)) == []
    # as if the first run had been two days before
    state["bookmarks"]["rows"]["left_out"] = [f"dates from {(now - timedelta(days=1.5)).isoformat()}"]
    assert [row["id"] for row in source.rows(source.run(config, state=state))] == list(range(10, 20))
