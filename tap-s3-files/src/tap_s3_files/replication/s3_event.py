"""Parse messages of S3 about objects. Pure.

S3 sends events in three shapes: its own event notifications, the same within an envelope of SNS, and events of
EventBridge. https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from singer_arrow.storage.urls import Url


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to an object.

    `urls` are what its key may mean, the likeliest first: notifications encode keys, EventBridge does not, and
    what imitates EventBridge may.
    """

    urls: tuple[Url, ...]
    created: bool


def parse_events(body: str) -> tuple[Event, ...] | None:
    """Parse the events of a message, in order; empty for a test event; None if it is no message of S3."""
    try:
        return tuple(_events(json.loads(body)))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _events(message: Mapping[str, Any]) -> Iterator[Event]:
    if message.get("Type") == "Notification":  # of SNS
        yield from _events(json.loads(message["Message"]))
    elif message.get("Event") == "s3:TestEvent":
        return
    elif message.get("source") == "aws.s3":  # of EventBridge
        detail = message["detail"]
        key, created = detail["object"]["key"], message["detail-type"] == "Object Created"
        yield _event(detail, dict.fromkeys((key, unquote_plus(key))), created=created)
    else:
        for record in message["Records"]:
            created = "ObjectCreated:" in record["eventName"]
            yield _event(record["s3"], [unquote_plus(record["s3"]["object"]["key"])], created=created)


def _event(detail: Mapping[str, Any], keys: Iterable[str], *, created: bool) -> Event:
    bucket = detail["bucket"]["name"]
    if not isinstance(bucket, str) or not bucket:
        raise ValueError
    return Event(tuple(Url("s3", bucket, key) for key in keys), created)
