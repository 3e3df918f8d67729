"""Whatever moment a run is killed at, and whatever STATE it starts with, each task is sent, under the same name."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tap_s3_files.history import History
from tap_s3_files.replication.polling import new_objects
from tap_s3_files.segments import Start, extend, resume, without_plan
from tap_s3_files.store import SegmentStore, safe_name

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.object_info import ObjectInfo
from singer_arrow.storage import Storage
from singer_arrow.urls import Url
from tap_s3_files import plan
from tap_s3_files.bookmarks import Bookmark
from tap_s3_files.listing import Listing
from tap_s3_files.plan import Segment, Task, after_task

START = datetime(2024, 1, 1, tzinfo=UTC)


def info(number: int, *, etag: str = "e", day: int = 0) -> ObjectInfo:
    return ObjectInfo(Url("s3", "b", f"{number:04}"), 10, etag, START + timedelta(days=day, seconds=number))


@pytest.fixture
def store(tmp_path: Path) -> SegmentStore:
    return SegmentStore(Storage(), Url.parse(str(tmp_path)), "orders")


def planned(store: SegmentStore, objects: list[ObjectInfo], start: Start, fingerprint: str = "f") -> list[Segment]:
    new = extend(
        store,
        new_objects(Listing(objects), start.history, start=None, end=None),
        stream="orders",
        fingerprint=fingerprint,
        number=start.next_number,
        history=start.history,
        target_bytes=1 << 20,
    )
    return list(new)


def test_a_segment_survives_its_file(store: SegmentStore, tmp_path: Path) -> None:
    (segment,) = planned(store, [info(1, etag='"a%20"'), info(2)], Start(Bookmark()))
    assert store.numbers() == [0]
    assert store.read(0) == segment
    assert (tmp_path / "_plans" / "orders" / "000000.json").exists()


def test_nothing_is_there_before_the_first_run(store: SegmentStore) -> None:
    assert resume(store, None, "f") == Start(Bookmark())


def test_a_start_without_state_follows_what_is_planned(store: SegmentStore) -> None:
    segments = planned(store, [info(1), info(2)], Start(Bookmark()))
    start = resume(store, None, "f")
    assert (start.bookmark, list(start.segments)) == (Bookmark(), segments)
    assert planned(store, [info(1), info(2)], start) == []


def test_segments_behind_the_state_are_removed(store: SegmentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SEGMENT_OBJECTS", 1)
    monkeypatch.setattr(plan, "BUNDLE_OBJECTS", 1)
    segments = planned(store, [info(n) for n in range(4)], Start(Bookmark()))
    at = Bookmark(segments[1].after, 2)
    start = resume(store, at, "f")
    assert (start.bookmark, list(start.segments)) == (at, segments[2:])
    assert store.numbers() == [2, 3]


def test_other_paths_drop_the_segment_and_nothing_else(store: SegmentStore) -> None:
    planned(store, [info(1), info(2)], Start(Bookmark()))
    start = resume(store, Bookmark(None, 0, 1), "other")
    assert start.segments == ()
    assert start.bookmark == Bookmark(None, 1)  # from the same watermark, under a number that no STATE stands for
    assert store.numbers() == []


def test_a_plan_outside_the_window_is_dropped_and_one_partly_outside_followed(
    store: SegmentStore, caplog: pytest.LogCaptureFixture
) -> None:
    (segment,) = planned(store, [info(1), info(2)], Start(Bookmark()))
    start = resume(store, None, "f", window=(START + timedelta(seconds=2), None))
    assert start.segments == (segment,)
    assert "1 objects outside start_date and end_date" in caplog.text
    assert resume(store, None, "f", window=(START + timedelta(seconds=3), None)) == Start(
        Bookmark(None, 1), (), History(ends=(plan.position(info(2)),), number=1)
    )


def test_a_lost_plan_begins_at_the_watermark_under_a_new_number(store: SegmentStore) -> None:
    assert resume(store, Bookmark(None, 5, 2), "f") == Start(Bookmark(None, 6))
    assert resume(store, Bookmark(None, 5), "f") == Start(Bookmark(None, 5))
    assert without_plan(Bookmark(None, 5, 2)).bookmark == Bookmark(None, 6)


def test_the_tail_of_a_plan_is_no_beginning(store: SegmentStore) -> None:
    planned(store, [info(5)], without_plan(Bookmark(plan.position(info(3)), 4)))
    assert store.numbers() == [4]
    assert resume(store, None, "f").bookmark == Bookmark(None, 5)
    assert resume(store, None, "f").bookmark == Bookmark(None, 5)  # no number is given twice


def test_two_runs_at_once_follow_one_plan(store: SegmentStore) -> None:
    first = planned(store, [info(1), info(2)], Start(Bookmark()))
    second = planned(store, [info(1), info(2), info(3)], Start(Bookmark()))
    assert second[0] == first[0]
    assert [o for s in second for o in s.objects] == [info(1), info(2), info(3)]
    assert second[1].before == first[0].after


def test_two_runs_with_other_paths_are_refused(store: SegmentStore) -> None:
    planned(store, [info(1)], Start(Bookmark()))
    with pytest.raises(ConfigError, match="plan_root of its own"):
        planned(store, [info(2)], Start(Bookmark()), "other")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "tasks": 3}'])
def test_a_damaged_segment_is_named(store: SegmentStore, tmp_path: Path, text: str) -> None:
    planned(store, [info(1)], Start(Bookmark()))
    (tmp_path / "_plans" / "orders" / "000000.json").write_text(text)
    with pytest.raises(DataError, match=r"000000\.json"):
        resume(store, None, "f")


def test_streams_do_not_share_a_folder() -> None:
    assert safe_name("orders_2024-05") == "orders_2024-05"
    assert len({safe_name(n) for n in ("a/b", "a.b", "a b", "a_b")}) == 4
    assert "/" not in safe_name("../../x")


OVERLAP = timedelta(minutes=10)


def run(store: SegmentStore, objects: list[ObjectInfo], state: Bookmark | None) -> Iterator[tuple[Task, Bookmark]]:
    """A run of the tap: each task as it is sent, with the bookmark after it."""
    start = resume(store, state, "f", OVERLAP)
    bookmark = start.bookmark

    def all_segments() -> Iterator[Segment]:
        yield from start.segments
        yield from planned(store, objects, start)

    for segment in all_segments():
        for number, task in enumerate(segment.tasks):
            if segment.number == start.bookmark.segment and start.bookmark.is_sent(number):
                continue
            bookmark = after_task(bookmark, segment, number, durable=True)
            yield task, bookmark


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=6))
def test_all_over_again_makes_the_same_tasks(tmp_path_factory: pytest.TempPathFactory, counts: list[int]) -> None:
    """A stream grows run by run, and in the end its STATE is thrown away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SEGMENT_OBJECTS", 6)
        patch.setattr(plan, "BUNDLE_OBJECTS", 3)
        store = SegmentStore(Storage(), Url.parse(str(tmp_path_factory.mktemp("plans"))), "orders")
        objects: list[ObjectInfo] = []
        sent: list[Task] = []
        state: Bookmark | None = None
        for now, count in enumerate(counts):
            objects += [info(len(objects) + n, day=now) for n in range(count)]
            for task, bookmark in run(store, objects, state):
                sent.append(task)
                state = bookmark
        assert [task for task, _ in run(store, objects, None)] == sent
        assert [task for task, _ in run(store, objects, None)] == sent
        assert len(set(store.numbers())) <= len(sent)


@given(st.data())
def test_interrupted_anywhere_every_object_is_sent_and_in_one_task_only(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Runs that are killed, or start with an older STATE; between them objects appear that are up to 8 minutes late."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SEGMENT_OBJECTS", 6)
        patch.setattr(plan, "BUNDLE_OBJECTS", 3)
        store = SegmentStore(Storage(), Url.parse(str(tmp_path_factory.mktemp("plans"))), "orders")
        objects: list[ObjectInfo] = []
        sent: list[Task] = []
        state: Bookmark | None = None
        for now in range(data.draw(st.integers(1, 5), "runs")):
            for late in data.draw(st.lists(st.integers(0, 8), max_size=9), "minutes late"):
                at = START + timedelta(minutes=5 * now - late)
                objects.append(ObjectInfo(Url("s3", "b", f"{len(objects):04}"), 10, "e", at))
            let_out = [state]
            for task, bookmark in run(store, objects, state):
                sent.append(task)
                let_out.append(bookmark)
                if data.draw(st.booleans(), "killed"):
                    break
            state = let_out[data.draw(st.integers(0, len(let_out) - 1), "the STATE that came through")]
        for task, bookmark in run(store, objects, state):
            sent.append(task)
            state = bookmark
        assert list(run(store, objects, state)) == []

    assert {o.url for t in sent for o in t.objects} == {o.url for o in objects}
    shapes = {t.objects for t in sent}
    assert sum(len(s) for s in shapes) == len(objects)  # each object belongs to one task, however often that was sent
