"""Parsing of S3 event messages in each of their forms; other messages are ignored without error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.storage.urls import Url
from tap_s3_files.sqs import Event, parse_events, region_of


def record(key: str, name: str = "ObjectCreated:Put") -> dict[str, Any]:
    return {"eventSource": "aws:s3", "eventName": name, "s3": {"bucket": {"name": "b"}, "object": {"key": key}}}


def bridge(key: str, kind: str = "Object Created") -> dict[str, Any]:
    return {"source": "aws.s3", "detail-type": kind, "detail": {"bucket": {"name": "b"}, "object": {"key": key}}}


def event(*keys: str, created: bool = True) -> Event:
    return Event(tuple(Url("s3", "b", k) for k in keys), created)


@pytest.mark.parametrize(
    ("message", "events"),
    [
        ({"Records": [record("a/b.csv")]}, [event("a/b.csv")]),
        ({"Records": [record("a+b%2Bc%25d/%C3%A4%0A")]}, [event("a b+c%d/ä\n")]),
        ({"Records": [record("x", "s3:ObjectCreated:CompleteMultipartUpload")]}, [event("x")]),
        ({"Records": [record("x", "ObjectRemoved:Delete"), record("y")]}, [event("x", created=False), event("y")]),
        ({"Records": []}, []),
        (bridge("a+b%20.csv"), [event("a+b%20.csv", "a b .csv")]),
        (bridge("plain.csv"), [event("plain.csv")]),
        (bridge("x", "Object Deleted"), [event("x", created=False)]),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}, []),
    ],
)
def test_each_shape_is_read_plain_and_in_an_envelope_of_sns(message: dict[str, Any], events: list[Event]) -> None:
    assert parse_events(json.dumps(message)) == tuple(events)
    assert parse_events(json.dumps({"Type": "Notification", "Message": json.dumps(message)})) == tuple(events)


@pytest.mark.parametrize(
    "message",
    [
        {"Records": [record("x"), {"eventName": "ObjectCreated:Put"}]},
        {"Records": [{**record("x"), "eventName": None}]},
        {"Records": [record(None)]},  # type: ignore[arg-type]
        {"Records": [record("in/\ud800.csv")]},  # half a character, which JSON allows
        {"Records": None},
        {"Type": "Notification", "Message": "hello"},
        {"Type": "Notification"},
        {"source": "aws.s3", "detail-type": "Object Created", "detail": {}},
        {
            "source": "aws.s3",
            "detail-type": "Object Created",
            "detail": {"bucket": {"name": ""}, "object": {"key": "x"}},
        },
        [],
        "text",
        None,
    ],
)
def test_anything_else_is_no_event(message: Any) -> None:
    assert parse_events(json.dumps(message)) is None
    assert parse_events(json.dumps(message)[:-1] or "") is None


def test_depth_is_no_danger() -> None:
    assert parse_events("[" * 100_000) is None
    assert parse_events('{"Records":' * 100_000) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["aws.s3", "Notification"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["Records", "Type", "Message", "source", "detail", "s3", "x"]), inner)
    ),
    max_leaves=10,
)


@given(json_values)
def test_no_message_raises(message: Any) -> None:
    assert parse_events(json.dumps(message)) in (None, ())


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/1/q", "eu-west-1"),
        ("https://sqs.us-gov-west-1.amazonaws.com/1/q", "us-gov-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/1/q", "cn-north-1"),
        ("https://sqs-fips.us-east-2.amazonaws.com/1/q", "us-east-2"),
        ("https://vpce-0abc-def.sqs.us-east-1.vpce.amazonaws.com/1/q", "us-east-1"),
        ("https://us-west-2.queue.amazonaws.com/1/q", "us-west-2"),
        ("https://queue.amazonaws.com/1/q", None),
        ("http://127.0.0.1:5000/1/q", None),
    ],
)
def test_the_url_of_a_queue_has_its_region(url: str, region: str | None) -> None:
    assert region_of(url) == region
