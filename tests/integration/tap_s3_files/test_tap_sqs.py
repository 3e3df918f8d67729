"""Objects announced by a queue, over real S3 and SQS: rows, deletion of messages, and retained messages."""

from __future__ import annotations

import json
import signal
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from held_load_job import HELD_SECONDS
from program_errors import error_of
from queue_source import TYPES, QueueSource, log_lines
from run_reports import reports
from tap_source import moment, state_of
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs


@pytest.fixture
def source(cloud: Cloud, s3: Any, sqs: Any, bucket: str, tmp_path: Path) -> Iterator[QueueSource]:
    made = QueueSource(cloud, s3, sqs, bucket, tmp_path)
    yield made
    sqs.delete_queue(QueueUrl=made.queue)


# From S3 to messages of the tap --------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.smoke
def test_objects_of_events_are_read_once_and_the_queue_is_empty_then(batches: bool, source: QueueSource) -> None:
    config = source.config(batches=batches)
    for n in range(5):
        source.csv(f"in/{n}.csv", n * 10)
    first = source.run(config)
    assert source.ids(first) == list(range(50))
    assert source.in_queue()[1] == 0
    source.csv("in/x y/ä+%20.csv", 50)
    source.csv("in/0.csv", 100)  # overwritten
    second = source.run(config, state=state_of(first))
    assert source.ids(second) == [*range(50, 60), *range(100, 110)]
    third = source.run(config, state=state_of(second))
    assert source.ids(third) == []
    assert state_of(third) == state_of(second)
    state = state_of(third)["bookmarks"]["rows"]
    assert (state["segment"], state["done"], state["ahead"]) == (2, 0, [])


def test_the_lag_counts_from_when_the_queue_was_empty(source: QueueSource, tmp_path: Path) -> None:
    source.csv("in/a.csv", 0, at=moment(0))
    began = datetime.now(UTC)
    source.run(source.config(report=str(tmp_path / "reports")))
    (stream,) = reports(tmp_path / "reports")[0]["streams"]
    assert began < datetime.fromisoformat(stream["complete_until"]) < datetime.now(UTC)
    assert (stream["lag_seconds"] < 60, stream["watermark"][:4], stream["left"]) == (
        True,
        "2024",
        {"objects": 0, "bytes": 0},
    )


def test_the_same_messages_come_again_from_the_plan_when_the_state_is_lost(source: QueueSource) -> None:
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10)
    first = source.run()
    source.csv("in/3.csv", 30)
    second = source.run()  # without STATE
    ids = [m["batch_id"] for m in first.of_type("BATCH")]
    assert [m["batch_id"] for m in second.of_type("BATCH")][: len(ids)] == ids
    assert source.ids(second) == list(range(40))
    third = source.run(state=state_of(first))
    assert source.ids(third) == list(range(30, 40))
    fourth = source.run(state=state_of(third))
    assert source.ids(fourth) == []
    assert source.plans() == ["000000.json", "000001.json"]


def test_a_former_content_whose_event_waits_is_sent_once_without_state(source: QueueSource) -> None:
    source.csv("in/other.csv", 50, at=moment(0))
    state = None
    for day, first in enumerate((0, 20)):
        source.csv("in/a.csv", first, at=moment(day))
        state = state_of(source.run(state=state))
    source.csv("in/a.csv", 0, at=moment(2))
    ran = source.run()  # without STATE
    assert source.ids(ran) == [*range(10), *range(50, 60)]
    source.csv("in/a.csv", 20, at=moment(3))
    assert source.ids(source.run(state=state_of(ran))) == list(range(20, 30))


def test_segments_beyond_the_state_are_followed_whatever_the_dates_are_now(source: QueueSource) -> None:
    source.csv("in/a.csv", 0)
    source.run()
    assert source.ids(source.run(source.config(start_date="2100-01-01"))) == list(range(10))


def test_a_pipeline_for_another_path_does_not_read_what_one_with_the_same_log_has_queued(source: QueueSource) -> None:
    source.csv("in/a.csv", 0)
    source.run()
    source.csv("other/b.csv", 10)
    elsewhere = source.config(stream={"path": f"s3://{source.bucket}/other/*"})
    ran = source.tap("tap-s3-files", config=elsewhere)
    assert (ran.code, ran.of_type("BATCH", "RECORD")) == (1, [])
    assert "in/a.csv, which a queue announced for another path" in ran.stderr
    own = {**elsewhere, "plan_root": f"s3://{source.bucket}/other-plans"}
    assert source.ids(source.run(own)) == list(range(10, 20))


def test_a_path_that_was_changed_is_named_with_the_former_one_for_a_run_without_state(source: QueueSource) -> None:
    source.csv("in/a.csv", 0)
    source.run()
    ends = [f"s3://{source.bucket}/{folder}/*" for folder in ("other", "in")]
    changed, both = (source.config(stream={"path": path}) for path in (ends[0], ends))
    ran = source.tap("tap-s3-files", config=changed)
    assert (ran.code, ran.of_type("BATCH", "RECORD")) == (1, [])
    assert "name the former one in 'path' too" in ran.stderr
    ran = source.run(both)
    assert source.ids(ran) == list(range(10))
    source.csv("other/b.csv", 10)
    assert source.ids(source.run(changed, state=state_of(ran))) == list(range(10, 20))


# What messages look like ---------------------------------------------------------------------------------------------


def test_every_shape_of_event_is_understood(source: QueueSource) -> None:
    source.quiet()
    keys = ["in/a b.csv", "in/ä+%20.csv", "in/line%0Abreak.csv", "in/d/e.csv", "in/f.csv", "in/g h+i.csv", "in/j k.csv"]
    for n, key in enumerate(keys):
        source.csv(key, n * 10)
    source.send(
        source.event(keys[0], keys[1]),  # several records in a message
        {"Type": "Notification", "MessageId": "x", "Message": json.dumps(source.event(keys[2], keys[3]))},
        {"Type": "Notification", "MessageId": "x", "Message": json.dumps(source.event_bridge(keys[4]))},
        source.event_bridge(keys[5]),
        source.event_bridge("in/j+k.csv"),  # a service with an S3-like API
        {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": source.bucket},
        {"Type": "Notification", "Message": json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"})},
    )
    ran = source.run()
    assert source.ids(ran) == list(range(70))
    assert source.in_queue() == (0, 0)


def test_named_wildcards_of_a_path_apply_to_objects_of_events(source: QueueSource) -> None:
    for key in ("in/de/1.csv", "in/f r/2.csv", "in/3.csv", "in/de/below/4.csv"):
        source.csv(key, 0, rows=1)
    config = source.config(batches=False, stream={"path": f"s3://{source.bucket}/in/{{shop:*}}/{{day:?}}.csv"})
    rows = [m["record"] for m in source.run(config).of_type("RECORD")]
    assert sorted((r["shop"], r["day"]) for r in rows) == [("de", 1), ("f r", 2)]


def test_duplicates_and_another_order_change_nothing(source: QueueSource) -> None:
    source.quiet()
    for n in range(4):
        source.csv(f"in/{n}.csv", n * 10)
    source.send(*(source.event(f"in/{n}.csv") for n in (3, 1, 1, 0)), source.event("in/2.csv", "in/2.csv", "in/3.csv"))
    first = source.run()
    assert source.ids(first) == list(range(40))
    assert log_lines(first, "3 were known already")
    source.send(source.event("in/1.csv"))
    assert source.ids(source.run(state=state_of(first))) == []
    source.send(source.event("in/1.csv"))
    again = source.run(state=state_of(first))
    assert source.ids(again) == []
    assert source.plans() == ["000000.json"]
    assert source.in_queue() == (0, 0)


@pytest.mark.parametrize(
    "body",
    ["no JSON", "[]", "5", '"x"', "{}", '{"Records": 5}', '{"Records": [{"eventName": "ObjectCreated:Put"}]}', '{"a":'],
)
def test_a_message_that_is_no_event_is_left_to_the_dead_letter_queue_and_counted(
    body: str, source: QueueSource
) -> None:
    source.quiet()
    source.csv("in/a.csv", 0)
    source.send(body, source.event("in/a.csv"))
    ran = source.run()
    assert source.ids(ran) == list(range(10))
    assert log_lines(ran, "was left to the dead-letter queue: it is no event of S3")
    assert log_lines(ran, "1 could not be read and were left to the dead-letter queue")
    assert source.in_queue() == (1, 0)


def test_a_poisonous_message_ends_in_the_dead_letter_queue(source: QueueSource) -> None:
    source.quiet()
    dead = source.sqs.create_queue(QueueName=f"dead-{uuid.uuid4().hex}")["QueueUrl"]
    arn = source.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    source.sqs.set_queue_attributes(QueueUrl=source.queue, Attributes={"RedrivePolicy": policy})
    source.send("poison")
    for _ in range(3):
        source.run()
    assert source.in_queue() == (0, 0)
    (message,) = source.sqs.receive_message(QueueUrl=dead)["Messages"]
    assert message["Body"] == "poison"
    source.sqs.delete_queue(QueueUrl=dead)


def test_events_of_other_objects_stay_in_the_queue_unless_they_may_go(source: QueueSource) -> None:
    source.csv("in/a.csv", 0)
    source.csv("elsewhere/b.csv", 10)
    source.s3.delete_object(Bucket=source.bucket, Key="none")
    source.send(source.event("in/gone.csv", name="ObjectRemoved:Delete"), source.event_bridge("in/x", "Object Deleted"))
    ran = source.run()
    assert source.ids(ran) == list(range(10))
    assert log_lines(ran, "messages were of no stream of this run and were left in the queue")
    visible, invisible = source.in_queue()
    assert (visible > 0, invisible) == (True, 0)  # other consumers see them at once
    source.run(source.config(sqs={"unmatched_events": "delete"}), state=state_of(ran))
    assert source.in_queue()[1] == 0
    bodies = [json.loads(m["Body"]) for m in source.sqs.receive_message(QueueUrl=source.queue).get("Messages", [])]
    assert [b for b in bodies if "elsewhere" in json.dumps(b)] == []


def test_an_object_outside_the_dates_stays_in_the_queue(source: QueueSource) -> None:
    source.quiet()
    source.csv("in/a.csv", 0)
    source.send(source.event("in/a.csv"))
    early = source.run(source.config(end_date="2020-01-01"))
    assert source.ids(early) == []
    assert source.in_queue() == (1, 0)
    assert source.ids(source.run(state=state_of(early))) == list(range(10))


def test_an_object_that_is_gone_is_logged_and_its_message_deleted(source: QueueSource) -> None:
    source.quiet()
    source.send(source.event("in/gone.csv"), source.event("in/folder/"), source.event("in/folder/.csv/"))
    ran = source.run(source.config(stream={"path": f"s3://{source.bucket}/in/"}))
    assert source.ids(ran) == []
    assert len(log_lines(ran, "was deleted since its event was sent")) == 1
    assert source.in_queue() == (0, 0)


# One queue, several streams ------------------------------------------------------------------------------------------


def two_streams(source: QueueSource, **more: Any) -> dict[str, Any]:
    config = source.config(**more)
    config["streams"].append({"name": "more", "path": f"s3://{source.bucket}/more/*", "schema": TYPES})
    return config


def test_several_streams_share_a_queue(source: QueueSource) -> None:
    source.csv("in/a.csv", 0)
    source.csv("more/b.csv", 10)
    both = two_streams(source)
    both["streams"].append({"name": "all", "path": f"s3://{source.bucket}/{{in,more}}/*", "schema": TYPES})
    ran = source.run(both)
    assert [source.ids(ran, name) for name in ("rows", "more", "all")] == [
        list(range(10)),
        list(range(10, 20)),
        list(range(20)),
    ]
    assert source.in_queue()[1] == 0
    again = source.run(both, state=state_of(ran))
    assert again.of_type("BATCH") == []


def test_events_of_a_stream_that_is_not_selected_are_never_deleted(source: QueueSource) -> None:
    config = two_streams(source, sqs={"unmatched_events": "delete"})
    source.csv("in/a.csv", 0)
    source.csv("more/b.csv", 10)
    catalog = json.loads(source.run(config, discover=True).stdout)
    for entry in catalog["streams"]:
        for place in entry["metadata"]:
            place["metadata"]["selected"] = entry["stream"] == "rows"
    ran = source.run(config, catalog=catalog)
    assert source.ids(ran) == list(range(10))
    assert source.ids(source.run(config, state=state_of(ran)), "more") == list(range(10, 20))


def test_a_stream_without_objects_yet_is_read_when_they_come(source: QueueSource) -> None:
    config = source.config(stream={"schema": {}})
    empty = source.run(config)
    assert log_lines(empty, "is left out of this run: no object matches its path")
    source.csv("in/a.csv", 0)
    assert source.ids(source.run(config)) == list(range(10))


# When things go wrong ------------------------------------------------------------------------------------------------


def test_no_message_goes_before_its_segment_is_durable(source: QueueSource, s3_faults: FaultProxy) -> None:
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10)
    s3_faults.set({"match": "^PUT .*_plans", "action": "error", "status": 403, "code": "AccessDenied"})
    ran = source.tap("tap-s3-files", config=source.config(sqs={"visibility_timeout": 3}), env=through(s3_faults))
    assert ran.code == 1
    assert [r for r in s3_faults.requests("PUT") if "_plans" in r["path"]], ran.stderr
    assert sum(source.in_queue()) >= 3
    wait_until(lambda: source.in_queue()[1] == 0)  # they are visible again
    assert source.ids(source.run()) == list(range(30))


def test_messages_that_could_not_be_deleted_bring_nothing_twice(source: QueueSource, s3_faults: FaultProxy) -> None:
    source.quiet()
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10)
    source.send(*(source.event(f"in/{n}.csv") for n in range(3)))
    killed = source.tap.start("tap-s3-files", config=source.config(sqs={"visibility_timeout": 3}))
    assert killed.stdout is not None
    seen = [json.loads(killed.stdout.readline()) for _ in range(2)]  # SCHEMA and STATE, or BATCH
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert seen[0]["type"] == "SCHEMA"
    wait_until(lambda: source.in_queue()[1] == 0)  # those that were not deleted come again
    source.send(*(source.event(f"in/{n}.csv") for n in range(3)))  # and all of them, as if none had been deleted
    ran = source.run()
    assert source.ids(ran) == list(range(30))
    assert source.in_queue()[0] == 0


def through(proxy: FaultProxy) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": proxy.url}


def test_a_heartbeat_keeps_messages_invisible_while_they_are_planned(
    source: QueueSource, s3_faults: FaultProxy
) -> None:
    source.quiet()
    source.csv("in/a.csv", 0)
    source.send(source.event("in/a.csv"))
    s3_faults.set({"match": "^PUT .*_plans", "delay_ms": HELD_SECONDS * 1000})
    visible_after = 6
    config = source.config(sqs={"visibility_timeout": visible_after})
    process = source.tap.start("tap-s3-files", config=config, env=through(s3_faults))
    wait_until(lambda: source.in_queue() == (0, 1))
    time.sleep(visible_after + 1)  # the message would be delivered again
    assert source.in_queue() == (0, 1)
    s3_faults.clear()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert b'"BATCH"' in out
    assert source.in_queue() == (0, 0)


def test_segments_that_are_gone_end_the_run_and_a_new_log_continues(source: QueueSource) -> None:
    source.csv("in/a.csv", 0)
    state = state_of(source.run())
    source.s3.delete_object(Bucket=source.bucket, Key="stage/_plans/rows/000000.json")
    source.csv("in/b.csv", 10)
    ran = source.tap("tap-s3-files", config=source.config(), state=state)
    assert (ran.code, ran.of_type("BATCH", "RECORD")) == (1, [])
    for _ in range(3):  # as often as one likes
        source.tap("tap-s3-files", "--new-plan-log", config=source.config(), state=state).check()
    assert source.ids(source.run(state=state)) == list(range(10, 20))


def test_an_event_that_comes_twice_is_known_to_a_new_log(source: QueueSource) -> None:
    source.csv("in/a.csv", 0)
    state = state_of(source.run())
    config = source.config(plan_root=f"s3://{source.bucket}/other-plans")
    source.csv("in/early.csv", 10, at=moment(0))  # its event waits, and it is older than what was read
    source.tap("tap-s3-files", "--new-plan-log", config=config, state=state).check()
    source.csv("in/a.csv", 0)
    source.csv("in/b.csv", 20)
    assert sorted(source.ids(source.run(config, state=state))) == list(range(10, 30))


def test_a_new_log_leaves_out_nothing_that_only_the_old_one_knows_of(source: QueueSource) -> None:
    """Its messages are deleted: neither what waits in the log for its run, nor what was read, is announced again."""
    source.csv("in/a.csv", 0)
    state = state_of(source.run())
    source.csv("in/b.csv", 10)
    source.run(state=state)  # and its target was killed
    ran = source.tap("tap-s3-files", "--new-plan-log", config=source.config(), state=state)
    assert (ran.code, "its STATE has not passed segment 1; let a run send it first" in error_of(ran)) == (1, True)
    ran = source.tap("tap-s3-files", "--new-plan-log", config=source.config())
    assert (ran.code, "begin the log with replication.method polling" in error_of(ran)) == (1, True)
    assert source.ids(source.run(state=state)) == list(range(10, 20))


def test_a_full_table_is_listed_and_a_test_run_takes_no_message(source: QueueSource) -> None:
    source.csv("in/a.csv", 0)
    config = source.config()
    catalog = json.loads(source.run(config, discover=True).stdout)
    catalog["streams"][0]["replication_method"] = "FULL_TABLE"
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = True
    assert source.ids(source.run(config, catalog=catalog)) == list(range(10))
    before = source.in_queue()
    ran = source.tap("tap-s3-files", "--test", config=config).check()
    assert ran.of_type("RECORD")
    assert source.in_queue() == before


def test_a_plan_takes_no_message_and_logs_how_many_wait(source: QueueSource) -> None:
    source.quiet()
    source.csv("in/a.csv", 0)
    source.send(source.event("in/a.csv"))
    ran = source.run(plan=True)
    assert ran.stdout.splitlines()[1].split() == ["rows", "0", "0", "0", "0", "?"]
    assert log_lines(ran, "about 1 messages wait in")
    assert source.in_queue() == (1, 0)
    source.run()
    assert source.run(plan=True).stdout.splitlines()[1].split()[:2] == ["rows", "1"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queue_url": None}, "Setting 'replication.queue_url' is missing: the URL of the queue"),
        (
            {"queue_url": "arn:aws:sqs:us-east-1:1:q"},
            "'replication.queue_url' is 'arn:aws:sqs:us-east-1:1:q', it must be",
        ),
    ],
)
def test_a_queue_that_is_not_named(change: dict[str, Any], words: str, source: QueueSource) -> None:
    assert words in error_of(source.tap("tap-s3-files", config=source.config(sqs=change)))


def test_a_queue_that_does_not_exist(source: QueueSource) -> None:
    config = source.config(sqs={"queue_url": source.queue + "-none"})
    assert f"The queue {source.queue}-none does not exist" in error_of(source.tap("tap-s3-files", config=config))


def test_a_queue_that_cannot_be_reached(source: QueueSource) -> None:
    config = source.config(sqs={"queue_url": "http://127.0.0.1:9/1/q"})
    assert "http://127.0.0.1:9/1/q: the queue did not answer" in error_of(source.tap("tap-s3-files", config=config))


def test_a_queue_that_may_not_be_read(source: QueueSource, s3_faults: FaultProxy) -> None:
    s3_faults.set({"match": "^POST", "action": "error", "status": 403, "code": "AccessDenied"})
    url = s3_faults.url + source.queue.partition("127.0.0.1")[2].partition("/")[2].join(("/", ""))
    line = error_of(source.tap("tap-s3-files", config=source.config(sqs={"queue_url": url})))
    assert "access is denied" in line


def test_records_need_a_place_for_the_plan(source: QueueSource) -> None:
    config = source.config(batches=False)
    del config["plan_root"]
    line = error_of(source.tap("tap-s3-files", config=config))
    assert line.startswith("Setting 'replication.method' is sqs: it needs 'plan_root'")


# The queue itself ----------------------------------------------------------------------------------------------------


def test_setup_queue_makes_a_queue_that_the_tap_reads(s3: Any, sqs: Any, bucket: str, tap: Programs) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    options = ["setup-queue", f"s3://{bucket}/in/**/*.csv", "--name", name]
    shown = json.loads(tap("tap-s3-files", *options).check().stdout)
    assert list(shown["queues"]) == [f"{name}-dead-letters", name]
    assert not s3.get_bucket_notification_configuration(Bucket=bucket).get("QueueConfigurations")  # only printed
    settings = [json.loads(tap("tap-s3-files", *options, "--apply").check().stdout) for _ in range(2)]
    assert settings[0] == settings[1]
    made = s3.get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"]
    assert made == shown["notifications"][bucket]["QueueConfigurations"]
    s3.put_object(Bucket=bucket, Key="in/a.csv", Body=b"id\n1\n2\n")
    s3.put_object(Bucket=bucket, Key="elsewhere/b.csv", Body=b"id\n3\n")
    config = {
        "streams": [{"name": "rows", "path": f"s3://{bucket}/in/**/*.csv"}],
        "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{bucket}/batches"}},
        "replication": settings[0]["replication"] | {"max_wait_seconds": 1},
    }
    sent = tap("tap-s3-files", config=config).check()
    assert [m["row_count"] for m in sent.of_type("BATCH")] == [2]
    url = settings[0]["replication"]["queue_url"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert json.loads(attributes["RedrivePolicy"])["maxReceiveCount"] == 10
    assert attributes["ApproximateNumberOfMessages"] == "0"


@pytest.mark.parametrize("batches", [True, False])
def test_loaded_objects_are_removed_and_those_that_wait_are_not(batches: bool, source: QueueSource) -> None:
    config = source.config(batches=batches, stream={"after_load": {"delete": True}})
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10)
    first = source.run(config)
    source.csv("in/0.csv", 100)  # its event waits in the queue
    second = source.run(config, state=state_of(first))
    assert source.ids(second) == list(range(100, 110))
    assert "deleted 2 objects; 1 stay: replaced since" in second.stderr
    third = source.run(config, state=state_of(second))
    assert source.ids(third) == []
    assert "Contents" not in source.s3.list_objects_v2(Bucket=source.bucket, Prefix="in/")
    assert "after_load may have removed objects" in error_of(source.tap("tap-s3-files", config=config))
