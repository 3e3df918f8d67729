"""Objects announced by a queue are in exactly one task, despite duplicates, kills, and a lost STATE."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_runs import log_in

from singer_arrow.errors import IdentityError, SupersededError
from singer_arrow.storage import log_head
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files import plan_model as plan
from tap_s3_files.paths import ObjectFilter
from tap_s3_files.plan import StreamPlan
from tap_s3_files.plan_log import PlanLog
from tap_s3_files.plan_model import Task, after_task, unsent
from tap_s3_files.settings import Bookmark, Replication
from tap_s3_files.sqs import Message, Queue, SqsEvents

START = datetime(2024, 1, 1, tzinfo=UTC)


def info(number: int, etag: str = "e") -> ObjectInfo:
    return ObjectInfo(Url("s3", "b", f"in/{number:04}"), 10, etag, START + timedelta(seconds=number % 7))


def plan_of(log: PlanLog, state: Bookmark | None = None) -> StreamPlan:
    return StreamPlan(log, state, ObjectFilter("orders", (Url("s3", "b", "in/*"),)), 1 << 20, from_queue=True)


def objects_of(plan: StreamPlan) -> list[ObjectInfo]:
    return [o for segments in (plan.unfinished_segments(), plan.queued_segments()) for s in segments for o in s.objects]


def waiting(plan: StreamPlan) -> list[ObjectInfo]:
    return [o for s in plan.queued_segments() for o in s.objects]


def test_what_is_queued_is_durable_and_given_once(tmp_path: Path) -> None:
    plan = plan_of(log_in(tmp_path))
    plan.queue([info(2), info(1)])
    assert objects_of(plan_of(log_in(tmp_path))) == [info(1), info(2)]
    assert waiting(plan) == [info(1), info(2)]
    assert objects_of(plan) == []


def test_segments_are_followed_from_the_state_on_and_known_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SEGMENT_OBJECTS", 1)
    monkeypatch.setattr(plan, "BUNDLE_OBJECTS", 1)
    plan_of(log_in(tmp_path)).queue([info(n) for n in range(4)])
    log = log_in(tmp_path).head
    assert log is not None
    later = plan_of(log_in(tmp_path), Bookmark(None, 2, log=log.log))
    assert objects_of(later) == [info(2), info(3)]
    assert all(later.is_known(info(n)) for n in range(4))
    assert not later.is_known(info(1, etag="new"))
    later.queue([info(4)])
    assert waiting(later) == [info(4)]
    last = plan_of(log_in(tmp_path), Bookmark(None, 5, log=log.log))
    assert all(last.is_known(info(n)) for n in range(5))
    assert objects_of(last) == []
    assert objects_of(plan_of(log_in(tmp_path))) == [info(n) for n in range(5)]


def test_a_run_with_polling_follows_what_a_queue_named_whatever_the_dates(tmp_path: Path) -> None:
    plan_of(log_in(tmp_path)).queue([info(1)])
    later = (START + timedelta(days=9), None)
    other = StreamPlan(log_in(tmp_path), None, ObjectFilter("orders", (Url("s3", "b", "in/*"),), window=later), 1 << 20)
    assert [t.task.objects for t in unsent(other.bookmark, other.unfinished_segments(), other.selects)] == [(info(1),)]


def test_what_a_queue_named_for_another_path_ends_the_run(tmp_path: Path) -> None:
    plan_of(log_in(tmp_path)).queue([info(1)])
    other = StreamPlan(log_in(tmp_path), None, ObjectFilter("orders", (Url("s3", "b", "other/*"),)), 1 << 20)
    with pytest.raises(IdentityError, match="s3://b/in/0001, which a queue announced for another path"):
        list(unsent(other.bookmark, other.unfinished_segments(), other.selects))


class Objects(Storage):
    """Objects that all exist, with the same time of change."""

    def head(self, url: Url) -> ObjectInfo:
        return ObjectInfo(url, 1, "e", START)


def message(name: str, *keys: str) -> Message:
    records = [{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": k}}} for k in keys]
    return Message(name, "receipt", json.dumps({"Records": records}), 0)


class OneRound(Queue):
    """A queue whose messages are received once; it records what is deleted."""

    def __init__(self, messages: list[Message]) -> None:
        keys = AwsOptions(region="eu-west-1", access_key_id="a", secret_access_key="b")
        super().__init__("https://sqs.eu-west-1.amazonaws.com/1/q", keys, visibility=30)
        self.messages, self.deleted = messages, set[str]()

    def receive(self, wait: int) -> list[Message]:
        messages, self.messages = self.messages, []
        return messages

    def receive_many(self) -> list[Message]:
        return []

    def delete(self, messages: Iterable[Message]) -> None:
        self.deleted.update(m.id for m in messages)

    def drop(self, messages: Iterable[Message]) -> None:
        assert not self.deleted.intersection(m.id for m in messages)

    def release(self, messages: Iterable[Message]) -> None:
        self.drop(messages)


@pytest.mark.parametrize("unmatched", ["keep", "delete"])
def test_a_message_is_deleted_when_no_stream_needs_it(tmp_path: Path, unmatched: str) -> None:
    queue = OneRound(
        [
            message("ours", "in/1.json"),
            message("of both", "in/2.csv"),
            message("ours and another's", "in/3.json", "out/3.csv"),
            message("ours and unmatched", "in/4.json", "out/4.json"),
            message("unmatched", "out/5.json"),
            message("another's", "out/6.csv"),
        ]
    )
    plan = plan_of(log_in(tmp_path))
    others = [ObjectFilter("other", (Url("s3", "b", "**/*.csv"),))]
    settings = Replication("sqs", queue_url="q", delete_unmatched=unmatched == "delete", max_wait_seconds=0)
    events = SqsEvents(queue, {"orders": plan}, others, Objects(), settings)
    planned = [info for wave in events.waves("orders") for segment in wave for info in segment.objects]
    assert queue.deleted == {"ours"} | ({"ours and unmatched", "unmatched"} if unmatched == "delete" else set())
    assert [str(o.url) for o in planned] == [
        "s3://b/in/1.json",
        "s3://b/in/2.csv",
        "s3://b/in/3.json",
        "s3://b/in/4.json",
    ]


def test_a_run_without_state_sends_a_former_content_whose_event_waits_once(tmp_path: Path) -> None:
    class Back(Storage):
        def head(self, url: Url) -> ObjectInfo:
            return ObjectInfo(url, 10, "A", START + timedelta(days=2))

    for day, etag in enumerate("AB"):
        plan_of(log_in(tmp_path)).queue([ObjectInfo(Url("s3", "b", "in/a"), 10, etag, START + timedelta(days=day))])
    plan, settings = plan_of(log_in(tmp_path)), Replication("sqs", queue_url="q", max_wait_seconds=0)
    events = SqsEvents(OneRound([message("back", "in/a")]), {"orders": plan}, [], Back(), settings)
    pending = [p for wave in events.waves("orders") for segment in wave for p in plan.pending_tasks(segment)]
    assert [o.etag for p in pending for o in p.task.read_objects] == ["B", "A"]


def test_of_two_runs_at_once_one_ends_before_its_messages_are_deleted(tmp_path: Path) -> None:
    one, other = plan_of(log_in(tmp_path)), plan_of(log_in(tmp_path))
    one.queue([info(1), info(2)])
    with pytest.raises(SupersededError, match="nothing is lost: run again"):
        other.queue([info(2), info(3)])
    assert objects_of(plan_of(log_in(tmp_path))) == [info(1), info(2)]


def run(log: PlanLog, state: Bookmark | None, messages: list[ObjectInfo]) -> Iterator[tuple[Task, Bookmark]]:
    """Run the tap over a queue: yield each task with the bookmark after it, and delete the messages."""
    plan = plan_of(log, state)
    at = plan.bookmark
    for pending in unsent(plan.bookmark, plan.unfinished_segments()):
        at = after_task(at, pending, durable=True)
        yield pending.task, at
    while messages:
        some = messages[:5]
        plan.queue(list(dict.fromkeys(o for o in some if not plan.is_known(o))))
        yield Task(()), at  # killed here, the messages become visible again
        del messages[: len(some)]
        for pending in unsent(plan.bookmark, plan.queued_segments()):
            at = after_task(at, pending, durable=True)
            yield pending.task, at


@given(st.data())
def test_interrupted_anywhere_every_object_is_sent_and_in_one_task_only(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SEGMENT_OBJECTS", 6)
        patch.setattr(plan, "BUNDLE_OBJECTS", 3)
        patch.setattr(log_head, "FANOUT", 3)
        folder = tmp_path_factory.mktemp("plans")
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
            for task, bookmark in run(log_in(folder), state, queue):
                sent.append(task)
                let_out.append(bookmark)
                if data.draw(st.integers(0, 3), "killed") == 0:
                    break
            state = let_out[data.draw(st.integers(0, len(let_out) - 1), "the STATE that came through")]
        for task, bookmark in run(log_in(folder), state, queue):
            sent.append(task)
            state = bookmark
        assert [t for t, _ in run(log_in(folder), state, queue) if t.objects] == []

    shapes = {t.objects for t in sent if t.objects}
    assert sorted(o for s in shapes for o in (str(x.url) for x in s)) == [str(o.url) for o in every]
