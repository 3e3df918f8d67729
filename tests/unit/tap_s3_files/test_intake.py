"""What a queue told of is in exactly one task, whatever came twice, was killed, or lost its STATE."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tap_s3_files.segments import resume, take_up
from tap_s3_files.store import SegmentStore

from singer_arrow.aws import AwsOptions
from singer_arrow.errors import ConfigError
from singer_arrow.object_info import ObjectInfo
from singer_arrow.storage import Storage
from singer_arrow.urls import Url
from tap_s3_files import plan
from tap_s3_files.bookmarks import Bookmark, Watermark
from tap_s3_files.config import SqsSettings
from tap_s3_files.objects import Claim
from tap_s3_files.plan import Task, after_task, unsent
from tap_s3_files.replication.intake import Intake, Receiver
from tap_s3_files.replication.queue import Message, Queue

START = datetime(2024, 1, 1, tzinfo=UTC)


def info(number: int, etag: str = "e") -> ObjectInfo:
    return ObjectInfo(Url("s3", "b", f"in/{number:04}"), 10, etag, START + timedelta(seconds=number % 7))


def store_in(folder: Path) -> SegmentStore:
    return SegmentStore(Storage(), Url.parse(str(folder)), "orders")


def receiver(store: SegmentStore, state: Bookmark | None = None) -> Receiver:
    return Receiver(Claim("orders", (Url("s3", "b", "in/*"),)), store, state, 1 << 20)


def objects_of(told: Receiver) -> list[ObjectInfo]:
    return [o for s in told.segments() for o in s.objects]


def test_what_is_planned_is_durable_and_given_once(tmp_path: Path) -> None:
    told = receiver(store_in(tmp_path))
    told.plan([info(2), info(1)])
    assert objects_of(receiver(store_in(tmp_path))) == [info(1), info(2)]
    assert objects_of(told) == [info(1), info(2)]
    assert objects_of(told) == []
    assert told.knows(info(1))
    assert not told.knows(info(1, etag="new"))


def test_segments_are_followed_from_the_state_on_and_removed_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SEGMENT_OBJECTS", 1)
    monkeypatch.setattr(plan, "BUNDLE_OBJECTS", 1)
    store = store_in(tmp_path)
    receiver(store).plan([info(n) for n in range(4)])
    later = receiver(store, Bookmark(None, 2))
    assert objects_of(later) == [info(2), info(3)]
    assert store.numbers() == [2, 3]
    assert all(later.knows(info(n)) for n in range(4))
    later.plan([info(4)])
    assert store.numbers() == [2, 3, 4]
    assert all(receiver(store, Bookmark(None, 5)).knows(info(n)) for n in range(5))
    assert store.numbers() == []


def test_no_number_is_given_twice(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    receiver(store).plan([info(1)])
    receiver(store, Bookmark(None, 1))
    assert take_up(store, None).next_number == 1
    assert take_up(store, Bookmark(None, 5, 2)).next_number == 6


def test_segments_that_are_gone_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = store_in(tmp_path)
    for n in range(4):
        receiver(store, Bookmark(None, 0)).plan([info(n)])
    assert "gone" not in caplog.text
    store.remove([1])
    with caplog.at_level(logging.WARNING):
        told = take_up(store, Bookmark(None, 0))
    assert told.numbers == (0, 2, 3)
    assert "Segments 1 to 1, which the STATE has not passed, are gone" in caplog.text
    take_up(store, Bookmark(None, 4))
    caplog.clear()
    assert take_up(store, Bookmark(None, 2)).numbers == ()  # an old STATE
    assert "Segments 2 to 3" in caplog.text


def test_a_run_with_polling_follows_what_a_queue_told_of_whatever_the_paths(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    receiver(store).plan([info(1)])
    (segment,) = resume(store, None, "other paths", window=(START + timedelta(days=9), None)).segments
    assert [str(o.url) for o in segment.objects] == ["s3://b/in/0001"]
    ahead = Bookmark(Watermark(START + timedelta(days=1), "s3://b/in/0009"), 0)
    with pytest.raises(ConfigError, match="run with replication.method sqs first"):
        resume(store, ahead, "other paths")
    assert store.numbers() == [0]


class Objects(Storage):
    """Objects that all exist, each as old as the others."""

    def head(self, url: Url) -> ObjectInfo:
        return ObjectInfo(url, 1, "e", START)


def message(name: str, *keys: str) -> Message:
    records = [{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": k}}} for k in keys]
    return Message(name, "receipt", json.dumps({"Records": records}), 0)


@pytest.mark.parametrize("unmatched", ["keep", "delete"])
def test_a_message_goes_when_nobody_needs_it_any_more(tmp_path: Path, unmatched: str) -> None:
    keys = AwsOptions(region="eu-west-1", access_key_id="a", secret_access_key="b")
    queue = Queue("https://sqs.eu-west-1.amazonaws.com/1/q", keys, visibility=30)  # it is not asked
    told = receiver(store_in(tmp_path))
    others = [Claim("other", (Url("s3", "b", "**/*.csv"),))]
    intake = Intake(
        queue, {"orders": told}, others, Objects(), SqsSettings("q", delete_unmatched=unmatched == "delete")
    )
    found = intake._sort(
        [
            message("ours", "in/1.json"),
            message("of both", "in/2.csv"),
            message("ours and another's", "in/3.json", "out/3.csv"),
            message("ours and nobody's", "in/4.json", "out/4.json"),
            message("nobody's", "out/5.json"),
            message("another's", "out/6.csv"),
        ]
    )
    gone = {"ours"} | ({"ours and nobody's", "nobody's"} if unmatched == "delete" else set())
    assert {m.id for m in found.done} == gone
    assert [str(o.url) for o in found.new["orders"].values()] == [
        "s3://b/in/1.json",
        "s3://b/in/2.csv",
        "s3://b/in/3.json",
        "s3://b/in/4.json",
    ]


def test_two_runs_at_once_follow_each_other(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    one, other = receiver(store), receiver(store)
    one.plan([info(1), info(2)])
    other.plan([info(2), info(3)])
    assert objects_of(one) == [info(1), info(2)]
    assert objects_of(other) == [info(1), info(2), info(3)]


def run(store: SegmentStore, state: Bookmark | None, messages: list[ObjectInfo]) -> Iterator[tuple[Task, Bookmark]]:
    """A run of the tap over a queue: each task as it is sent, with the bookmark after it; removes what it deletes."""
    told = receiver(store, state)
    at = told.bookmark
    for todo in unsent(told.bookmark, told.segments()):
        at = after_task(at, todo.segment, todo.number, durable=True)
        yield todo.task, at
    while messages:
        some = messages[:5]
        told.plan({o: None for o in some if not told.knows(o)})
        yield Task(()), at  # killed here, the messages come again
        del messages[: len(some)]
        for todo in unsent(told.bookmark, told.segments()):
            at = after_task(at, todo.segment, todo.number, durable=True)
            yield todo.task, at


@given(st.data())
def test_interrupted_anywhere_every_object_is_sent_and_in_one_task_only(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SEGMENT_OBJECTS", 6)
        patch.setattr(plan, "BUNDLE_OBJECTS", 3)
        store = store_in(tmp_path_factory.mktemp("plans"))
        queue: list[ObjectInfo] = []
        every: list[ObjectInfo] = []
        sent: list[Task] = []
        state: Bookmark | None = None
        for _ in range(data.draw(st.integers(1, 5), "runs")):
            new = [info(len(every) + n) for n in range(data.draw(st.integers(0, 9), "new objects"))]
            every += new
            queue += new
            queue += [o for o in every if data.draw(st.integers(0, 9), "comes again") == 0]
            let_out = [state]
            for task, bookmark in run(store, state, queue):
                sent.append(task)
                let_out.append(bookmark)
                if data.draw(st.integers(0, 3), "killed") == 0:
                    break
            state = let_out[data.draw(st.integers(0, len(let_out) - 1), "the STATE that came through")]
        for task, bookmark in run(store, state, queue):
            sent.append(task)
            state = bookmark
        assert [t for t, _ in run(store, state, queue) if t.objects] == []

    shapes = {t.objects for t in sent if t.objects}
    assert sorted(o for s in shapes for o in (str(x.url) for x in s)) == [str(o.url) for o in every]
