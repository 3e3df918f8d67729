"""Each object is sent in exactly one task, for runs killed at any moment and started with any STATE."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import plan_runs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_runs import START, folder_of, info, log_in, names, plan_for, run, run_of, segment

from singer_arrow.storage import log_head
from singer_arrow.storage.urls import ObjectInfo
from tap_s3_files import plan_log
from tap_s3_files import plan_model as plan
from tap_s3_files.plan_log import task_name
from tap_s3_files.plan_model import Task, place_in_order
from tap_s3_files.settings import Bookmark, Watermark


@pytest.fixture
def small() -> Iterator[None]:
    """Make segments of few objects, compacted soon."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        yield


def shrink(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan, "SEGMENT_OBJECTS", 6)
    patch.setattr(plan, "BUNDLE_OBJECTS", 3)
    patch.setattr(log_head, "FANOUT", 3)
    patch.setattr(plan_log, "ROWS_AT_ONCE", 7)


def sent(folder: Path, objects: list[ObjectInfo], state: Bookmark | None) -> tuple[list[Task], Bookmark | None]:
    """Return the tasks of an uninterrupted run, and the STATE after it."""
    found = list(run(log_in(folder), objects, state))
    return [t for t, _ in found], found[-1][1] if found else state


@given(st.data())
def test_interrupted_anywhere_every_object_is_sent_and_in_one_task_only(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Runs are killed, or start with an older STATE or none; objects come late, some with the same time."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        folder = tmp_path_factory.mktemp("plans")
        objects: list[ObjectInfo] = []
        tasks: list[Task] = []
        state: Bookmark | None = None
        for now in range(data.draw(st.integers(1, 7), "runs")):
            for late in data.draw(st.lists(st.integers(0, 8), max_size=9), "minutes late"):
                name = f"{data.draw(st.integers(0, 9), 'place in the second')}-{len(objects):03}"
                objects.append(info(name, 60 * (5 * now - late)))
            starts = data.draw(st.sampled_from(["STATE", "STATE", "no STATE"]), "starts with")
            let_out = [state]
            for task, bookmark in run(log_in(folder), objects, state if starts == "STATE" else None):
                tasks.append(task)
                let_out.append(bookmark)
                if data.draw(st.booleans(), "killed"):
                    break
            state = let_out[data.draw(st.integers(0, len(let_out) - 1), "the STATE that is stored")]
        more, state = sent(folder, objects, state)
        tasks += more
        assert sent(folder, objects, state)[0] == []
        assert {o for t in tasks for o in t.objects} == set(objects)
        shapes = {t.objects for t in tasks}
        assert sum(len(s) for s in shapes) == len(objects)  # each is in one task, however often that was sent
        again, _ = sent(folder, objects, None)
        assert {t.objects for t in again} == shapes
        assert len(again) == len(shapes)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=7), min_size=1, max_size=9),
)
@pytest.mark.full
def test_without_state_the_same_tasks_are_sent_in_the_same_order(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[tuple[int, int]]]
) -> None:
    """A stream grows with each run, also by late and simultaneous objects, and its STATE is lost."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        folder = tmp_path_factory.mktemp("plans")
        objects: list[ObjectInfo] = []
        tasks: list[Task] = []
        state: Bookmark | None = None
        for now, found in enumerate(runs):
            objects += [info(f"{place}-{len(objects) + n}", 60 * (now - late)) for n, (late, place) in enumerate(found)]
            more, state = sent(folder, objects, state)
            tasks += more
        for _ in range(2):
            assert sent(folder, objects, None)[0] == tasks
        assert sorted(o.url for t in tasks for o in t.objects) == sorted(o.url for o in objects)


def test_an_object_between_two_of_its_second_moves_no_other(tmp_path: Path) -> None:
    a, b, z = (info(name, 5) for name in "abz")
    (first,), state = sent(tmp_path, [a, z], None)
    (second,), state = sent(tmp_path, [a, b, z], state)
    assert (first.objects, second.objects) == ((a, z), (b,))
    assert sent(tmp_path, [a, b, z], None)[0] == [first, second]
    assert sent(tmp_path, [a, b, z], state)[0] == []


@pytest.mark.full
def test_ten_late_objects_after_200_000_within_the_overlap_are_exactly_what_is_planned(tmp_path: Path) -> None:
    """With the shipped limits, except for the number of objects in each segment of the log."""
    count, each = 200_000, 4_000
    listed = [info(f"{n:06}", n * 500 / count, etag=f"{n:032x}") for n in range(count)]
    log, before = log_in(tmp_path), None
    for number in range(count // each):
        made = segment(number, *listed[number * each : (number + 1) * each], before=before)
        log.append(made)
        before = made.after
    assert log.head is not None
    state = Bookmark(before, count // each, log=log.head.log)
    assert len(list(folder_of(tmp_path).iterdir())) <= 6
    late = [info(f"late-{n}", n * 49.5) for n in range(10)]
    tasks, _ = sent(tmp_path, [*late, *listed], state)
    assert [o for t in tasks for o in t.objects] == late


@pytest.mark.parametrize("sends", [0, 1])
def test_a_late_object_is_found_after_a_run_without_state_was_killed(tmp_path: Path, small: None, sends: int) -> None:
    objects = [info(f"{n:02}", n) for n in range(100, 120)]
    _, state = sent(tmp_path, objects, None)
    without = run(log_in(tmp_path), objects, None)
    for _ in range(sends):
        next(without)
    without.close()
    late = info("late", 119 - 70)
    (task,), state = sent(tmp_path, [late, *objects], state)
    assert task.objects == (late,)
    assert sent(tmp_path, [late, *objects], state)[0] == []


def test_objects_that_changed_before_the_overlap_are_not_looked_for(tmp_path: Path) -> None:
    now = info("now", 3600)
    _, state = sent(tmp_path, [now], None)
    old, late = info("old", 3600 - 601), info("late", 3600 - 599)
    assert [t.objects for t in sent(tmp_path, [old, late, now], state)[0]] == [(late,)]


def test_an_overwritten_object_is_read_again_with_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, state = sent(tmp_path, [info("a", 1), info("b", 2)], None)
    new = info("a", 9, etag="other")
    (task,), state = sent(tmp_path, [new, info("b", 2)], state)
    assert task.objects == (new,)
    assert "in/a was overwritten since it was read; its new version is read too. With load_method append" in caplog.text
    assert "the rows of its former version stay in the table" in caplog.text
    assert sent(tmp_path, [new, info("b", 2)], state)[0] == []


def test_an_overwritten_object_of_a_stream_that_replaces_rows_is_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, state = sent(tmp_path, [info("a", 1)], None)
    caplog.set_level(logging.INFO)
    tap_run = run_of([info("a", 9, etag="other")], state, None)
    plan = plan_for(tap_run, log_in(tmp_path))
    plan.replaces_rows = True
    assert list(tap_run.listed_segments(plan_runs.stream(), plan))
    (found,) = [r for r in caplog.records if "was overwritten since it was read" in r.getMessage()]
    assert found.levelno == logging.INFO


def test_what_came_while_the_listing_was_made_is_looked_for_by_the_next_run(tmp_path: Path) -> None:
    """The service's clock may be ahead; the watermark must not pass objects that the listing lacks."""
    began = START + timedelta(hours=1)
    ahead = info("ahead", 3600 + 1200)
    tasks = list(run(log_in(tmp_path), [ahead], None, began=began))
    assert tasks[-1][1].watermark == Watermark(began, "")
    hidden = info("hidden", 3600 + 5)
    assert [t.objects for t in sent(tmp_path, [hidden, ahead], tasks[-1][1])[0]] == [(hidden,)]


def test_where_keys_ascend_listings_begin_at_a_key_of_the_log(tmp_path: Path) -> None:
    objects = [info(f"{n:03}", 60 * n) for n in range(100)]
    state = list(run(log_in(tmp_path), objects, None, keys_ascend=True))[-1][1]
    plan = plan_for(run_of(objects, state, None, keys_ascend=True), log_in(tmp_path))
    key = plan.last_key
    assert key is not None
    assert key.name == "088"
    more = [*objects, info("100", 6000)]
    assert [names(t.objects) for t, _ in run(log_in(tmp_path), more, state, keys_ascend=True)] == [["100"]]


def test_settings_that_changed_give_one_line(tmp_path: Path, small: None, caplog: pytest.LogCaptureFixture) -> None:
    text = "settings that decide about rows have changed"
    objects = [info(f"{n:02}", n) for n in range(20)]  # of several segments
    state = list(run(log_in(tmp_path), objects, None, identity="old"))[-1][1]
    more = [*objects, info("new", 30)]
    assert text not in caplog.text
    state = list(run(log_in(tmp_path), more, state, identity="new"))[-1][1]
    assert caplog.text.count(text) == 1
    list(run(log_in(tmp_path), more, state, identity="new"))
    assert caplog.text.count(text) == 1, "what was planned last has these settings"
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert len(list(run(log_in(tmp_path), more, None, identity="new"))) == 8
    (line,) = [r for r in caplog.records if text in r.message]
    assert line.levelno == logging.INFO, "without STATE it is not known whether something was loaded"
    assert "empty the table first" in line.message


def test_settings_that_changed_after_a_run_that_loaded_nothing_give_no_warning(
    tmp_path: Path, small: None, caplog: pytest.LogCaptureFixture
) -> None:
    objects = [info(f"{n:02}", n) for n in range(20)]
    next(run(log_in(tmp_path), objects, None, identity="old"))  # planned, and then it failed
    state = Bookmark(log=log_in(tmp_path).head.log)  # type: ignore[union-attr]
    found = run(log_in(tmp_path), [*objects, info("new", 30)], state, identity="new")
    next(found)
    assert "settings" not in caplog.text
    state = list(found)[-1][1]
    list(run(log_in(tmp_path), [*objects, info("new", 30)], state, identity="newer"))
    assert "settings" not in caplog.text, "nothing is read with them"


def test_settings_that_are_the_same_give_no_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        list(run(log_in(tmp_path), [info("a")], None, identity="same"))
    assert "settings" not in caplog.text


def test_a_plan_outside_the_window_is_passed_and_one_partly_outside_is_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sent(tmp_path, [info("1", 1), info("2", 2)], None)
    found = list(run(log_in(tmp_path), [], None, start=START + timedelta(seconds=2)))
    assert [names(t.objects) for t, _ in found] == [["1", "2"]]
    assert "1 objects outside start_date, end_date or path" in caplog.text
    assert list(run(log_in(tmp_path), [], None, start=START + timedelta(seconds=3))) == []


def test_state_does_not_pass_what_a_later_end_date_lets_in(tmp_path: Path) -> None:
    _, state = sent(tmp_path, [info("1", 1)], None)
    sent(tmp_path, [info("1", 1), info("2", 2)], state)  # its STATE is lost
    found = list(run(log_in(tmp_path), [], state, end=START + timedelta(seconds=2)))
    assert found == []
    assert [names(t.objects) for t in sent(tmp_path, [info("1", 1), info("2", 2)], state)[0]] == [["2"]]


def test_without_a_log_the_watermark_moves_with_each_task(small: None) -> None:
    objects = [info(f"{n:02}", n) for n in range(9)]
    found = list(run(None, objects, None))
    assert [len(t.objects) for t, _ in found] == [3, 3, 3]
    assert [b.watermark for _, b in found] == [place_in_order(t.objects[-1]) for t, _ in found]
    state = found[1][1]
    assert [names(t.objects) for t, _ in run(None, objects, state)] == [["06", "07", "08"]]


def test_a_log_that_begins_now_knows_what_runs_without_one_have_read(tmp_path: Path) -> None:
    objects = [info(f"{n:02}", n) for n in range(9)]
    state = list(run(None, objects, None))[-1][1]
    more = [*objects, info("10", 20)]
    (task,), state = sent(tmp_path, more, state)
    assert names(task.objects) == ["10"]
    late = info("late", 15)
    assert [names(t.objects) for t in sent(tmp_path, [*more, late], state)[0]] == [["late"]]


def test_ids_depend_on_stream_and_object_versions_only(tmp_path: Path) -> None:
    tasks = {
        "first": Task((info("a"), info("b"))),
        "other order": Task((info("b"), info("a"))),
        "other version": Task((info("a"), info("b", etag="x"))),
        "fewer": Task((info("a"),)),
        "no ETag": Task((info("a", etag=None),)),
        "no ETag, later": Task((info("a", 1, etag=None),)),
    }
    ids = {task_name("orders", t) for t in tasks.values()} | {task_name("other", tasks["first"])}
    assert len(ids) == len(tasks) + 1
    assert task_name("orders", Task((info("a", 99, size=3),))) == task_name("orders", tasks["fewer"])


def test_changed_objects_are_planned_in_their_new_version_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = plan_runs.Storage()
    path = tmp_path / "a.csv"
    path.write_text("1")
    first = storage.head(plan_runs.Url.parse(str(path)))
    plan = plan_for(run_of([], None, None), log_in(tmp_path), path=f"{tmp_path}/*")
    plan.queue([first])
    assert [list(s.objects) for s in plan.queued_segments()] == [[first]]
    path.write_text("22")
    with caplog.at_level(logging.WARNING):
        plan.replan(storage, [first])
    (again,) = [o for s in plan.queued_segments() for o in s.objects]
    assert (again.url, again.size) == (first.url, 2)
    assert "a.csv has changed during this run, which reads its new version now" in caplog.text
    plan.replan(storage, [first])
    assert not plan.has_queued
    path.unlink()
    plan.replan(storage, [again])
    assert not plan.has_queued


def test_what_a_run_compacts_is_still_known_to_it(tmp_path: Path, small: None) -> None:
    objects = [info(f"{n:02}", 600 + n) for n in range(8 * 6)]
    tasks, _ = sent(tmp_path, objects, None)
    early = [info(f"early-{n}", n) for n in range(13)]
    again, _ = sent(tmp_path, [*objects, *early], None)
    assert again[: len(tasks)] == tasks
    assert [o for t in again[len(tasks) :] for o in t.objects] == early


def test_a_new_version_does_not_carry_the_watermark_past_what_was_not_listed(tmp_path: Path) -> None:
    """A run lists, works for an hour, finds an object replaced; another object came half an hour before that."""
    storage = plan_runs.Storage()
    path = tmp_path / "a.csv"
    path.write_text("1")
    first = storage.head(plan_runs.Url.parse(str(path)))
    began = first.modified + timedelta(seconds=1)
    plan = plan_for(run_of([], None, None), log_in(tmp_path), path=f"{tmp_path}/*")
    (made,) = plan.plan([first], listed=began)
    assert made.after == place_in_order(first)
    path.write_text("22")
    later = (first.modified + timedelta(hours=1)).timestamp()
    os.utime(path, (later, later))
    plan.replan(storage, [first])
    (again,) = plan.queued_segments()
    assert [o.size for o in again.objects] == [2]
    assert again.after == Watermark(began, "")


def test_an_object_written_again_without_a_change_is_known_unless_it_was_another_one_meanwhile(
    tmp_path: Path,
) -> None:
    first, state = sent(tmp_path, [info("a", 0, etag="A"), info("b", 1)], None)
    assert names(first[0].objects) == ["a", "b"]
    for known in (state, None):
        tasks, _ = sent(tmp_path, [info("a", 60, etag="A"), info("b", 1)], known)
        assert len(tasks) == (0 if known else 1)
    _, state = sent(tmp_path, [info("a", 70, etag="B"), info("b", 1)], state)
    back, _ = sent(tmp_path, [info("a", 80, etag="A"), info("b", 1)], state)
    assert [names(t.objects) for t in back] == [["a"]]
