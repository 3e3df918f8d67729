"""A bookmark only moves forward, for any order of the tasks, and round-trips through STATE."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import ConfigError
from tap_s3_files.plan_model import PendingTask, Segment, Task, after_task
from tap_s3_files.settings import Bookmark, Watermark, latest

merge = pytest.importorskip("meltano.core.utils", reason="Meltano is not beside the oldest versions").merge

MOMENT = datetime(2024, 5, 1, 10, 0, 0, 123456, tzinfo=UTC)
watermarks = st.builds(
    Watermark,
    st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds it
    st.text(),
)


numbers, words = st.integers(0, 10**6), st.sampled_from(["", "5f0c", "3f9c"])
bookmarks = st.builds(
    Bookmark,
    st.none() | watermarks,
    numbers,
    numbers,
    st.sets(numbers, max_size=4).map(lambda found: tuple(sorted(found))),
    numbers,
    words,
    words,
    st.sampled_from([(), ("81d4",)]),
)


def test_state_is_as_documented() -> None:
    bookmark = Bookmark(Watermark(MOMENT, "s3://b/a.csv"), 17, 42, (45, 47))
    assert bookmark.to_state() == {
        "last_modified": "2024-05-01T10:00:00.123456+00:00",
        "key": "s3://b/a.csv",
        "segment": 17,
        "done": 42,
        "ahead": [45, 47],
        "rows": 0,
        "log": "",
        "batch": "",
        "left_out": [],
    }


@given(bookmarks)
def test_a_bookmark_survives_state(bookmark: Bookmark) -> None:
    found = Bookmark.from_state(json.loads(json.dumps(bookmark.to_state())), "s")
    at_start = Bookmark().to_state()
    assert (found or Bookmark()).to_state() == bookmark.to_state()
    assert (found is None) == (bookmark.to_state() == at_start)


@given(bookmarks, bookmarks)
def test_meltano_merges_a_bookmark_into_a_former_one(former: Bookmark, new: Bookmark) -> None:
    """Key by key, as with --full-refresh and --state-strategy=merge; nothing of the former one may remain."""
    assert merge(new.to_state(), former.to_state()) == new.to_state()
    assert {type(value) for value in new.to_state().values()} <= {int, str, list}


@given(bookmarks)
def test_a_state_of_an_earlier_version_is_read_and_merged_into(new: Bookmark) -> None:
    """They had the watermark as an object or null, and left out what was empty."""
    mark = {"last_modified": "2024-05-01T10:00:00+00:00", "key": "s3://b/a.csv"}
    parts = {"segment": 17, "done": 2, "ahead": [4]}
    whole = {"watermark": mark, **parts, "rows": 7, "log": "a1", "batch": "b2", "left_out": "c3"}
    at = Watermark(datetime(2024, 5, 1, 10, tzinfo=UTC), "s3://b/a.csv")
    read = Bookmark.from_state(whole, "s")
    assert read is not None
    assert read.to_state() == Bookmark(at, 17, 2, (4,), 7, "a1", "b2", ("c3",)).to_state()
    assert Bookmark.from_state({"watermark": None, **parts}, "s") == Bookmark(None, 17, 2, (4,))
    for former in (whole, {"watermark": None, **parts}):
        assert Bookmark.from_state(merge(new.to_state(), former), "s") == Bookmark.from_state(new.to_state(), "s")


@given(st.permutations(range(12)))
def test_tasks_may_end_in_any_order(order: list[int]) -> None:
    bookmark = Bookmark()
    for count, task in enumerate(order):
        assert not bookmark.is_sent(task)
        after = bookmark.sent(task)
        assert after.done >= bookmark.done
        assert {t for t in range(12) if after.is_sent(t)} == set(order[: count + 1])
        bookmark = after
    assert (bookmark.done, bookmark.ahead) == (12, ())


@given(st.none() | watermarks, st.none() | watermarks)
def test_a_watermark_never_goes_back(before: Watermark | None, end: Watermark | None) -> None:
    segment = Segment(3, "s", 1, before, end, (Task(()),) * 8)
    after = after_task(Bookmark(before, 3, 7), PendingTask(segment, 7, Task(())), durable=True)
    assert (after.segment, after.done, after.ahead) == (4, 0, ())
    assert after.watermark == latest(before, end)
    assert before is None or (after.watermark is not None and after.watermark >= before)


def test_watermarks_are_ordered_by_time_whatever_the_zone() -> None:
    there = timezone(timedelta(hours=5))
    assert Watermark(MOMENT.astimezone(there), "b") > Watermark(MOMENT, "a")
    assert Watermark(MOMENT.astimezone(there), "z") < Watermark(MOMENT + timedelta(microseconds=1), "a")


def test_empty_state_is_none() -> None:
    assert Bookmark.from_state({}, "s") is None
    assert Bookmark.from_state({"partitions": [], "starting_replication_value": None}, "s") is None
    assert Bookmark.from_state(Bookmark().to_state(), "s") is None


@pytest.mark.parametrize(
    "state",
    [
        {"watermark": "2024-01-01", "segment": 0},
        {"watermark": {"last_modified": "yesterday", "key": "a"}},
        {"watermark": {"last_modified": "2024-01-01T00:00:00+00:00"}},
        {"watermark": {"last_modified": "2024-01-01T00:00:00+00:00", "key": 5}},
        {"segment": "3"},
        {"segment": -1},
        {"segment": 1, "done": 1, "ahead": ["x"]},
        {"segment": 1, "ahead": 5},
        {"replication_key": "updated", "replication_key_value": "2024"},
        {"starting_replication_value": "2024", "modified_since": "2024-05-01"},
        {"partitions": [{"context": {"file": "a"}, "replication_key_value": "2024"}]},
        {"last_modified": "", "key": "", "segment": 3, "done": 0, "ahead": []},  # a part of one
        {**Bookmark(Watermark(MOMENT, "a"), 3).to_state(), "left_out": None},
        {**Bookmark(Watermark(MOMENT, "a"), 3).to_state(), "key": None},
        {**Bookmark(Watermark(MOMENT, "a"), 3).to_state(), "last_modified": ""},
        {"watermark": {"last_modified": "0001-01-01T00:00:00+09:00", "key": "a"}},
        {"watermark": {"last_modified": "9999-12-31T23:59:59-09:00", "key": "a"}},
    ],
)
def test_a_state_that_is_damaged_or_of_another_tap_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="STATE of stream 'orders'"):
        Bookmark.from_state(state, "orders")
