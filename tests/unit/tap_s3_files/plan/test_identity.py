"""STATE, plan log and stream are of each other; else nothing is sent, and one line names both and what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plan_runs
import pytest
from plan_runs import START, folder_of, info, log_in, names, plan_for, run, run_of, segment, stream

from singer_arrow.batch.message import ContinuedLog, place_in_log
from singer_arrow.errors import ConfigError, DataError, IdentityError, SupersededError
from singer_arrow.storage import log_head
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files import plan_log, plan_model
from tap_s3_files.plan import StreamPlan
from tap_s3_files.plan_log import PlanLog, task_name
from tap_s3_files.plan_model import Cut, place_in_order
from tap_s3_files.settings import Bookmark, Watermark


def objects(count: int) -> list[ObjectInfo]:
    return [info(f"{n:02}", 60 * n) for n in range(count)]


def day(folder: Path, count: int, state: Bookmark | None) -> tuple[list[str], Bookmark | None]:
    """Return the names of what one run sends of so many objects, and the STATE after it."""
    found = list(run(log_in(folder), objects(count), state))
    return [n for task, _ in found for n in names(task.objects)], found[-1][1] if found else state


def days(folder: Path, count: int = 4) -> Bookmark:
    """Run on so many days, with one object more on each; return the last STATE."""
    state = None
    for n in range(count):
        sent, state = day(folder, n + 1, state)
        assert sent == [f"{n:02}"]
    assert state is not None
    assert state.log
    return state


def remove(folder: Path) -> None:
    shutil.rmtree(folder / "_plans")


def killed_refresh(folder: Path) -> None:
    """Remove the log; a run without STATE plans all anew and is killed before it sends anything."""
    remove(folder)
    next(run(log_in(folder), objects(5), None))


def unlink(*endings: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for path in list(folder_of(folder).iterdir()):
            if path.name.endswith(endings):
                path.unlink()

    return change


def copy_of_another_stream(folder: Path) -> None:
    log = PlanLog(Storage(), Url.parse(str(folder)), "other")
    log.append(replace(segment(0, info("x")), stream="other"))
    remove_first(folder)
    shutil.copy(folder / "_plans" / "other" / "000000.json", folder_of(folder) / "000000.json")


def remove_first(folder: Path) -> None:
    (folder_of(folder) / "000000.json").unlink()


def entry_of_another_log(folder: Path) -> None:
    """Bring the last entry of another log of the stream."""
    days(folder / "b")
    shutil.copy(folder_of(folder / "b") / "000003.json", folder_of(folder) / "000003.json")


@pytest.mark.parametrize("has_state", [True, False])
@pytest.mark.parametrize(
    ("change", "text", "passes_without_state"),
    [
        (remove, "its STATE is of a plan log that is not there", True),
        (killed_refresh, "its STATE is of another plan log", True),
        (unlink("000003.json"), "its STATE is at segment 4, and the plan log", True),
        (unlink("000002.json"), "000002.json: the plan log lacks this segment", False),
        (unlink("000000.json"), "the beginning of the plan log is gone", False),
        (unlink("log-000000.json"), "the beginning of the plan log is gone|its STATE is of a plan log", False),
        (copy_of_another_stream, "it is of stream 'other', and this is the log of 'orders'", False),
        (entry_of_another_log, "it is of another plan log than the files beside it", False),
    ],
)
def test_a_changed_log_sends_nothing(
    tmp_path: Path, change: Callable[[Path], None], text: str, passes_without_state: bool, has_state: bool
) -> None:
    """Without STATE, a log that is gone, or lost its end, is like a new one: only the target knows more."""
    state = days(tmp_path)
    change(tmp_path)
    before = contents(tmp_path)
    if not has_state and passes_without_state:
        assert day(tmp_path, 5, None)[0] == ["00", "01", "02", "03", "04"]
        return
    with pytest.raises((IdentityError, DataError), match=text) as caught:
        day(tmp_path, 5, state if has_state else None)
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[str, bytes]:
    root = folder / "_plans"
    return {str(p): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()} if root.exists() else {}


def test_a_checkpoint_that_is_removed_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_head, "FANOUT", 3)
    state = days(tmp_path, 5)
    (checkpoint,) = folder_of(tmp_path).glob("checkpoint-*")
    checkpoint.unlink()
    for given in (state, None):
        with pytest.raises(DataError, match="the beginning of the plan log is gone"):
            day(tmp_path, 6, given)


def test_another_root_sends_nothing_with_the_state(tmp_path: Path) -> None:
    state = days(tmp_path / "a")
    with pytest.raises(IdentityError, match="Was plan_root, or the root of the batch storage, changed"):
        day(tmp_path / "b", 5, state)
    assert day(tmp_path / "a", 5, state)[0] == ["04"]


def test_a_new_log_is_begun_from_a_state_on_purpose(tmp_path: Path) -> None:
    """Its beginning is known: with that STATE nothing is sent twice, without one nothing at all."""
    state = days(tmp_path)
    remove(tmp_path)
    begin_anew(tmp_path, state)
    with pytest.raises(IdentityError, match="a run without STATE sends all"):
        day(tmp_path, 5, None)
    for _ in range(2):  # the first one is killed before its first STATE
        sent, after = day(tmp_path, 5, state)
        assert sent == ["04"]
    assert day(tmp_path, 6, after)[0] == ["05"]
    with pytest.raises(IdentityError, match="another plan log"):
        day(tmp_path, 6, replace(state, segment=3))


def test_a_new_log_replaces_one_that_is_there(tmp_path: Path) -> None:
    state = days(tmp_path)
    sleeper = log_in(tmp_path)
    begin_anew(tmp_path, state)
    with pytest.raises(SupersededError, match="run again"):
        sleeper.append(segment(4, info("x")))
    assert day(tmp_path, 5, state)[0] == ["04"]
    begin_anew(tmp_path, None)
    assert day(tmp_path, 5, None)[0] == ["00", "01", "02", "03", "04"]


def begin_anew(
    folder: Path, state: Bookmark | None, known: Iterable[ObjectInfo] | None = None, storage: Storage | None = None
) -> None:
    follows, before = (state.to_state(), state.watermark) if state else (None, None)
    continues = ContinuedLog(state.log, state.batch, place_in_log(state.segment)) if state else None
    root = Url.parse(str(folder))
    PlanLog.begin_anew(storage or Storage(), root, "orders", before, follows, continues=continues, known=known)


def test_streams_of_the_same_paths_are_no_other_logs_of_each_other(tmp_path: Path) -> None:
    """Such as two sheets of the same workbooks, which a target may put into one table."""
    found = set()
    for name in ("orders", "returns"):
        one = replace(run_of([], None, None).object_filter(stream()), stream=name)
        plan = StreamPlan(PlanLog(Storage(), Url.parse(str(tmp_path)), name), None, one, 1 << 20)
        (segment,) = plan.plan(objects(1))
        log_id = plan.log_id(segment)
        assert log_id is not None
        found.add(log_id.source)
    assert len(found) == 2


def test_a_state_without_a_log_begins_one_and_fits_no_other(tmp_path: Path) -> None:
    """From records without a plan_root to batches, back, and to batches again."""
    state = list(run(None, objects(2), None))[-1][1]
    for _ in range(2):  # the first one is killed before its first STATE
        sent, with_log = day(tmp_path, 3, state)
        assert sent == ["02"]
    assert with_log is not None
    found = list(run(None, objects(4), with_log))
    assert [names(t.objects) for t, _ in found] == [["03"]]
    assert not found[-1][1].log
    with pytest.raises(IdentityError, match="written without a plan log"):
        day(tmp_path, 5, found[-1][1])


def test_a_state_within_a_segment_needs_its_log() -> None:
    begun = replace(Bookmark(), done=1, log="x")
    with pytest.raises(IdentityError, match="within segment 0 of a plan log, which this run does not follow"):
        plan_for(run_of([], begun, None), None)


def test_a_plan_is_written_behind_a_beginning_without_state(tmp_path: Path) -> None:
    state = days(tmp_path)
    begin_anew(tmp_path, state)
    shared = run_of(objects(6), None, None)
    plan = shared.plan(stream(), log_in(tmp_path), 1 << 20, is_shared=True, sends=False)
    new = [o for s in shared.listed_segments(stream(), plan) for o in s.objects]
    assert names(new) == ["04", "05"]


class IgnoresConditions(Storage):
    """A storage that replaces objects that exist, as servers do that ignore If-None-Match."""

    def put(self, url: Url, data: Any, *, if_absent: bool = False, **options: Any) -> bool:
        return super().put(url, data, **options)


def test_a_storage_that_ignores_conditional_writes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ignores conditional writes"):
        log_in(tmp_path, IgnoresConditions()).append(segment(0, info("a")))
    assert contents(tmp_path) == {}


def version(etag: str, seconds: float) -> ObjectInfo:
    return info("a", seconds, etag=etag)


def ids(found: Iterable[tuple[Any, Bookmark]]) -> list[str]:
    return [task_name("orders", task) for task, _ in found]


@pytest.mark.parametrize("gap", [timedelta(minutes=1), timedelta(days=9)], ids=["within the overlap", "days apart"])
@pytest.mark.parametrize("etags", ["ABA", "ABAB", "ABCABC", "AABBA", "ABBBAAAB"])
def test_an_object_that_gets_a_former_content_back_is_sent_again(
    tmp_path: Path, etags: str, gap: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change is a batch of its own; writing the same content again is none.

    A run without STATE sends each content once, in its last batch.
    """
    monkeypatch.setattr(log_head, "FANOUT", 3)
    state, sent = None, list[str]()
    for n, etag in enumerate(etags):
        found = list(run(log_in(tmp_path), [version(etag, n * gap.total_seconds())], state))
        assert len(found) == (n == 0 or etags[n - 1] != etag)
        state = found[-1][1] if found else state
        sent += ids(found)
    assert len(set(sent)) == len(sent)
    changes = [etag for etag, _ in groupby(etags)]
    last = [name for n, name in enumerate(sent) if changes[n] not in changes[n + 1 :]]
    assert ids(run(log_in(tmp_path), [], None)) == last


def test_objects_of_a_queue_that_get_a_former_content_back_are_sent_again(tmp_path: Path) -> None:
    filters = run_of([], None, None).object_filter(stream())
    plan = StreamPlan(log_in(tmp_path), None, filters, 1 << 20, from_queue=True)
    for n, etag in enumerate("ABA"):
        plan.queue([version(etag, n)])
    found = [task_name("orders", t) for s in plan.queued_segments() for t in s.tasks]
    assert len(set(found)) == 3


class ShowsNew(Storage):
    """A storage in which the object has its new version."""

    def head(self, url: Url) -> ObjectInfo:
        return version("new", 1)


def test_a_version_that_another_run_planned_before_an_older_one_is_sent_once(tmp_path: Path) -> None:
    """A run lists an object and sleeps; another one plans its new version; the first one opens the log then."""
    old, new = version("old", 0), version("new", 1)
    sent = ids(run(log_in(tmp_path), [new], None))
    runs = run_of([old], None, None)
    plan = plan_for(runs, log_in(tmp_path))
    both = [t for s in runs.listed_segments(stream(), plan) for t in s.tasks]
    assert [o.etag for t in both for o in t.objects] == ["new", "old"]
    plan.replan(ShowsNew(), [old])
    assert not plan.has_queued
    plan.queue([new])
    assert not plan.has_queued
    assert ids(run(log_in(tmp_path), [new], None)) == [*sent, task_name("orders", both[1])]


def test_an_older_version_that_was_planned_late_is_sent_again_when_it_is_back(tmp_path: Path) -> None:
    """The log has the new version before the old one; the object then gets its old content back."""
    state, all_ids = None, list[str]()
    for found in (version("new", 60), version("old", 0), version("old", 120)):
        sent = list(run(log_in(tmp_path), [found], state))
        assert len(sent) == 1
        state = sent[-1][1]
        all_ids += ids(sent)
    assert len(set(all_ids)) == 3
    assert ids(run(log_in(tmp_path), [], None)) == [all_ids[0], all_ids[2]]
    assert list(run(log_in(tmp_path), [version("old", 120)], state)) == []


def test_a_version_with_an_older_time_is_sent_once(tmp_path: Path) -> None:
    """A file is replaced by one that keeps an earlier time; a run that cannot read the first one finds it planned."""
    first, second = version("first", 60), version("second", 0)
    plan = plan_for(run_of([], None, None), log_in(tmp_path))
    plan.queue([first])
    plan.queue([second])
    plan.queue([second])
    found = [t for s in plan.queued_segments() for t in s.tasks]
    assert [o.etag for t in found for o in t.objects] == ["first", "second"]


@pytest.mark.parametrize("seconds", [(0, 0, 0), (0, 0.2, 0.4), (0, 0, 0.4)])
def test_changes_within_a_second_are_each_sent(tmp_path: Path, seconds: tuple[float, ...]) -> None:
    plan = StreamPlan(log_in(tmp_path), None, run_of([], None, None).object_filter(stream()), 1 << 20, from_queue=True)
    for etag, at in zip("ABA", seconds, strict=True):
        plan.queue([version(etag, at)])
    found = [task_name("orders", t) for s in plan.queued_segments() for t in s.tasks]
    assert len(set(found)) == 3


def test_a_bundle_knows_which_of_its_objects_came_back(tmp_path: Path) -> None:
    state = None
    for n, etag in enumerate("ABA"):
        found = [info("0", n, etag=f"{n}"), version(etag, n)]
        state = list(run(log_in(tmp_path), found, state))[-1][1]
    (task,) = log_in(tmp_path).read(2).tasks
    assert (names(task.objects), task.again) == (["0", "a"], ((1, 1),))


@pytest.mark.parametrize("gap", [0, 1, 60 * 24 * 9], ids=["in the same run", "within the overlap", "days later"])
def test_an_object_that_was_gone_when_it_was_to_be_read_is_named_when_it_is_back_unchanged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, gap: int
) -> None:
    """A run that sends the bundle again has it there; a task of its own would double its rows."""
    source, folder = tmp_path / "in", tmp_path / "log"
    source.mkdir()
    (source / "a").write_text("1")
    gone = Storage().head(Url.parse(str(source / "a")))
    found = [gone, info("b", 1)]
    runs = run_of(found, None, None)
    plan = plan_for(runs, log_in(folder), path=f"{source}/*")
    assert len([t for s in runs.listed_segments(stream(), plan) for t in s.tasks]) == 1
    if gap:
        (source / "a").unlink()
    plan.replan(Storage(), [gone])
    assert not plan.has_queued
    log = log_in(folder)
    assert log.head is not None
    state = Bookmark(log.read(0).after, 1, log=log.head.log)
    back = ObjectInfo(gone.url, gone.size, gone.etag, gone.modified + timedelta(minutes=gap))
    if gap:
        assert [*run(log, [back], state)] == []
    assert caplog.text.count("its rows may be missing: change it, or move it to another name") == 1
    assert "overwritten" not in caplog.text
    moved = ObjectInfo(Url.parse(str(source / "c")), back.size, back.etag, back.modified)
    assert [names(t.objects) for t, _ in run(log_in(folder), [back, moved], state)] == [["c"]]


@pytest.fixture
def set_paths(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the paths of the stream; segments are small, and soon compacted."""
    for name in ("SEGMENT_OBJECTS", "BUNDLE_OBJECTS"):
        monkeypatch.setattr(plan_model, name, 1)
    monkeypatch.setattr(log_head, "FANOUT", 2)

    of_one_path = plan_runs.stream

    def set_paths(*names: str, found_by: str = "") -> None:
        paths = tuple(Url("s3", "b", f"in/{name}") for name in names)
        given = (Url("s3", "b", found_by),) if found_by else ()
        made = SimpleNamespace(**vars(of_one_path()) | {"paths": paths, "pattern_urls": given})
        monkeypatch.setattr(plan_runs, "stream", lambda: made)

    return set_paths


def sent(folder: Path, listed: list[ObjectInfo], state: Bookmark | None, **settings: Any) -> tuple[list[str], Bookmark]:
    found = list(run(log_in(folder), listed, state, **settings))
    assert found or state is not None
    return names(o for t, _ in found for o in t.objects), found[-1][1] if found else state  # type: ignore[return-value]


DAY = 24 * 3600


@pytest.mark.parametrize("keys_ascend", [False, True])
@pytest.mark.parametrize("killed", [0, 1, 2, 4])
def test_older_objects_of_a_new_path_are_read_once(
    tmp_path: Path, set_paths: Callable[..., None], killed: int, keys_ascend: bool
) -> None:
    """A run is killed after some of them, or before; the STATE from before follows."""
    first = [info(f"n{n}", DAY + n) for n in range(3)]
    set_paths("n*")
    _, state = sent(tmp_path, first, None)
    older = [info(f"a{n}", n) for n in range(3)]
    set_paths("n*", "a*")
    listed = [*first, *older, info("n9", 2 * DAY)]
    if killed:
        begun = run(log_in(tmp_path), listed, state, keys_ascend=keys_ascend)
        for _ in range(killed):
            next(begun)
    found, state = sent(tmp_path, listed, state, keys_ascend=keys_ascend)
    assert found == ["a0", "a1", "a2", "n9"]
    log = log_in(tmp_path)
    assert len({log.read(n).paths for n in (2, log.next_number - 1)}) == 2
    set_paths("a*", "n*")  # in another order: from here on, old objects are not looked for
    assert sent(tmp_path, [*listed, info("a-late", 5)], state, keys_ascend=keys_ascend)[0] == []


def test_an_inventory_may_have_lacked_what_a_listing_has(tmp_path: Path, set_paths: Callable[..., None]) -> None:
    set_paths("*")
    listed = [info("1"), info("3", DAY)]
    _, state = sent(tmp_path, listed, None, manifest=Url("s3", "b", "inventory/"))
    listed += [info("2", 60)]
    found, state = sent(tmp_path, listed, state)
    assert found == ["2"]
    listed += [info("4", 2 * DAY)]
    _, state = sent(tmp_path, listed, state)
    assert sent(tmp_path, [*listed, info("late", 5)], state)[0] == []  # the log has all that was there


def test_a_queue_may_have_lost_what_a_listing_has(
    tmp_path: Path, set_paths: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    set_paths("*")
    listed = [info("1")]
    _, state = sent(tmp_path, listed, None)
    queued = plan_for(run_of([], state, None, sqs=True), log_in(tmp_path))
    queued.queue([info("3", DAY)])
    for pending in queued.pending_tasks(next(queued.queued_segments())):
        state = plan_model.after_task(queued.bookmark, pending, durable=True)
    listed += [info("2", 60), info("3", DAY), info("4", 2 * DAY)]
    found, state = sent(tmp_path, listed, state)
    assert found == ["2", "4"]
    assert "a queue named its objects before, and s3://b/in/2 is the first object" in caplog.text
    assert sent(tmp_path, [*listed, info("late", 5)], state)[0] == []


MOVED = "One that was moved or renamed counts as new: append-only adds its rows again"


def test_a_new_folder_of_a_path_is_no_changed_path(
    tmp_path: Path, set_paths: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    set_paths("acme/*", found_by="in/{tenant}/*")
    _, state = sent(tmp_path, [info("acme/1", DAY)], None)
    set_paths("acme/*", "globex/*", found_by="in/{tenant}/*")
    listed = [info("acme/1", DAY), info("globex/1", 5), info("globex/2", 2 * DAY)]
    found, state = sent(tmp_path, listed, state)
    assert (found, caplog.text) == (["1", "2"], "")
    set_paths("acme/*", "globex/*", found_by="in/{customer}/*.csv")
    listed.append(info("acme/3", 3 * DAY))
    found, state = sent(tmp_path, listed, state)
    assert found == ["3"]
    assert "its path was changed" not in caplog.text, "it finds the same folders"
    set_paths("globex/*", found_by="in/{customer}/*.csv")
    listed.append(info("globex/4", 4 * DAY))
    found, state = sent(tmp_path, listed, state)
    assert found == ["4"]
    assert MOVED not in caplog.text
    set_paths("globex/*", "initech/*")
    assert sent(tmp_path, [*listed, info("initech/5", 5 * DAY)], state)[0] == ["5"]
    assert caplog.text.count(MOVED) == 1


def test_a_folder_that_was_gone_while_its_objects_were_to_be_sent_is_missed_when_it_is_back(
    tmp_path: Path, set_paths: Callable[..., None]
) -> None:
    set_paths("acme/*", "globex/*", found_by="in/{tenant}/*")
    listed = [info("acme/1", DAY), info("globex/2", DAY + 1)]
    _, state = sent(tmp_path, listed[:1], None)
    planned = run(log_in(tmp_path), listed, state)
    next(planned)  # the run ends before the target has anything of it
    set_paths("acme/*", found_by="in/{tenant}/*")
    _, passed = sent(tmp_path, [*listed[:1], info("acme/3", 2 * DAY)], state)
    assert sent(tmp_path, [*listed[:1], info("acme/3", 2 * DAY)], passed)[0] == []
    set_paths("acme/*", "globex/*", found_by="in/{tenant}/*")
    with pytest.raises(IdentityError, match="passed over objects that were planned before"):
        sent(tmp_path, [*listed, info("acme/3", 2 * DAY)], passed)


def test_two_pipelines_that_share_a_log_change_no_path(
    tmp_path: Path, set_paths: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """Each one's path is named once, where it comes to the log."""
    states: dict[str, Bookmark | None] = {"dev*": None, "prod*": None}
    listed = list[ObjectInfo]()
    for n in range(3):
        for path, state in list(states.items()):
            set_paths(path)
            listed.append(info(f"{path[:-1]}{n}", DAY * n))
            found, states[path] = sent(tmp_path, listed, state)
            assert found[-1:] == [listed[-1].url.name]
    assert MOVED not in caplog.text


def test_a_log_that_begins_at_a_state_names_what_a_new_path_leaves_out(
    tmp_path: Path, set_paths: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    begin = Bookmark(Watermark(START + timedelta(days=1), ""))
    set_paths("n*")
    found, state = sent(tmp_path, [info("n", DAY + 1)], begin)
    assert (found, caplog.text) == (["n"], "")
    set_paths("*")
    assert sent(tmp_path, [info("n", DAY + 1), info("a", 0), info("z", DAY + 2)], state)[0] == ["z"]
    assert "its path was changed; objects from before 2024-01-02" in caplog.text


def test_a_new_log_that_begins_at_a_state_gives_ids_of_its_own(tmp_path: Path, set_paths: Callable[..., None]) -> None:
    """It does not know how often an object had a content before. Each reading of the log gives the same ids."""
    set_paths("*")
    state: Bookmark | None = None
    given = list[str]()
    for n, etag in enumerate("ABCD"):
        found = list(run(log_in(tmp_path), [version(etag, n)], state))
        given, state = [*given, *ids(found)], found[-1][1]
    begin_anew(tmp_path, state)
    at = state
    for n, etag in enumerate("ABCD", 4):
        found = list(run(log_in(tmp_path), [version(etag, n)], at))
        given, at = [*given, *ids(found)], found[-1][1]
    assert len(set(given)) == 8
    assert any(path.suffix == ".parquet" for path in folder_of(tmp_path).iterdir())
    assert ids(run(log_in(tmp_path), [], state)) == given[4:]


@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_a_new_log_begins_with_the_versions_that_were_read(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not sent again where they are there unchanged, whenever; what the former log lacked is."""
    monkeypatch.setattr(plan_log, "SEGMENT_OBJECTS", 2)
    monkeypatch.setattr(plan_log, "KNOWN_AT_ONCE", 4)
    monkeypatch.setattr(log_head, "FANOUT", 3)
    state = days(tmp_path / "former")
    known = [info(f"n{n}", 180 + n) for n in range(count)]
    begin_anew(tmp_path, state, known)
    log = log_in(tmp_path)
    assert log.begin == -(-count // 2)
    later = [o._replace(modified=o.modified + timedelta(days=9)) for o in known]
    changed = [info("n0", 9 * DAY + 60, etag="other"), info("late", 179)]
    at: Bookmark | None = state
    for listed, new in (known, []), (later, []), ([*later[1:], *changed], ["late", "n0"]), ([*later[1:], *changed], []):
        found = list(run(log_in(tmp_path), listed, at))
        at = found[-1][1] if found else at
        assert names(o for task, _ in found for o in task.objects) == new
    for n in range(9):  # until the log is compacted
        found = list(run(log_in(tmp_path), [info(f"m{n}", 20 * DAY + n)], at))
        at = found[-1][1]
    plan = plan_for(run_of([], at, None), log_in(tmp_path))
    log_id = plan.log_id(segment(12))
    assert log_id is not None
    assert log_id.continues == ContinuedLog(state.log, state.batch, place_in_log(4))
    assert all(plan.is_known(o) for o in known[1:])
    with pytest.raises(IdentityError, match="a run without STATE sends all"):
        day(tmp_path, 5, None)


class BreaksLater(Storage):
    """A storage that fails when something is written behind the head of a log."""

    def put(self, url: Url, data: Any, **options: Any) -> bool:
        if not url.name.startswith("log-"):
            raise OSError
        return super().put(url, data, **options)


def test_a_new_log_of_which_known_versions_are_missing_sends_nothing(tmp_path: Path) -> None:
    state = days(tmp_path)
    with pytest.raises(OSError):  # noqa: PT011 - of the storage
        begin_anew(tmp_path, state, objects(4), BreaksLater())
    with pytest.raises(DataError, match="the beginning of the plan log is gone"):
        day(tmp_path, 5, state)
    begin_anew(tmp_path, state, objects(4))
    assert day(tmp_path, 5, state)[0] == ["04"]


@pytest.mark.parametrize("count", [1, 5])
def test_cuts_that_are_removed_end_a_run_that_needs_them(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that cut a large object elsewhere would send its rows under other ids."""
    monkeypatch.setattr(log_head, "FANOUT", 3)
    monkeypatch.setattr(plan_model, "SEGMENT_OBJECTS", 1)
    listed = [info(f"{n}", n, size=9 << 20) for n in range(count)]
    plan = plan_for(run_of(listed, None, None), log_in(tmp_path))
    for made in run_of(listed, None, None).listed_segments(stream(), plan):
        for pending in plan.pending_tasks(made):
            assert pending.cuts is not None
            pending.cuts.add(Cut("file:///x", 0, 7, 7, None))
    folder, log = tmp_path / "_plans" / "orders.cuts", log_in(tmp_path)
    assert len(list(folder_of(tmp_path).glob("cuts-*"))) < max(count, 2)  # compacted like the log
    assert len(day_of(tmp_path, listed, None)) == count
    shutil.rmtree(folder)
    with pytest.raises(IdentityError, match=r"which say where they were cut, were removed"):
        day_of(tmp_path, listed, None)
    assert log.head is not None
    behind = Bookmark(log.read(count - 1).after, count, log=log.head.log)
    assert day_of(tmp_path, listed, behind) == []  # it needs none of them
    begin_anew(tmp_path, None)
    assert len(day_of(tmp_path, listed, None)) == count


def day_of(folder: Path, listed: list[ObjectInfo], state: Bookmark | None) -> list[str]:
    return [n for task, _ in run(log_in(folder), listed, state) for n in names(task.objects)]


def test_state_passes_what_was_written_again_without_a_change(tmp_path: Path) -> None:
    """A new log that is begun at the STATE, where the former one is gone, then takes it as read."""
    state = days(tmp_path)
    again = [replace_time(o, 9 * DAY + n) for n, o in enumerate(objects(4))]
    runs = run_of(again, state, None)
    plan = plan_for(runs, log_in(tmp_path))
    assert list(runs.listed_segments(stream(), plan)) == []
    end = plan.end(plan.bookmark)
    assert end.watermark == place_in_order(again[-1])
    assert day(tmp_path, 5, end)[0] == []  # older than the overlap by now
    begin_anew(tmp_path / "other", end, [o for o in again if place_in_order(o) <= end.watermark])
    assert list(run(log_in(tmp_path / "other"), again, end)) == []


def replace_time(o: ObjectInfo, seconds: int) -> ObjectInfo:
    return o._replace(modified=START + timedelta(seconds=seconds))
