"""Unusual keys: every key that S3 accepts is read, by listing and by queue events."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from forked_programs import ForkedPrograms
from small_aws import BUCKET, SmallAws

from local_cloud import Cloud
from local_cloud.programs import Ran
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.listing import list_objects

KEYS = [
    "in/a b.csv",
    "in/a+b.csv",
    "in/100%.csv",
    "in/%2F%20.csv",
    "in/ä€𝄞.csv",
    "in/line\nbreak.csv",
    "in/carriage\rreturn\ttab.csv",
    "in//empty part.csv",
    "in/./dot.csv",
    "in/../dots.csv",
    "in/a/../../above.csv",
    "in/.../three.csv",
    "in/back\\slash.csv",
    "in/quote\"'<&>#?x=1.csv",
    "in/" + "k" * (1024 - len("in/.csv")) + ".csv",
]


@pytest.fixture
def server() -> Iterator[SmallAws]:
    objects = {key: f"id\n{n}\n".encode() for n, key in enumerate(KEYS)}
    with SmallAws(objects, page=4) as running:
        yield running


class Source:
    """The tap over that server; queues are those of the local cloud."""

    def __init__(self, server: SmallAws, cloud: Cloud, folder: Path) -> None:
        self.server, self.folder = server, folder
        self._tap = ForkedPrograms(cloud.environ(), folder)

    def run(self, *paths: str, state: dict[str, Any] | None = None, **more: Any) -> Ran:
        streams = [
            {"name": path, "path": f"s3://{BUCKET}/{path}", "schema": {"id": "integer"}} for path in paths or ("in/**",)
        ]
        config = {"streams": streams, "aws": {"endpoint_url": self.server.url}, **more}
        return self._tap("tap-s3-files", config=config, state=state).check()


@pytest.fixture
def source(server: SmallAws, cloud: Cloud, tmp_path: Path) -> Source:
    return Source(server, cloud, tmp_path)


def rows(ran: Ran, stream: str = "in/**") -> dict[str, int]:
    records = [m["record"] for m in ran.of_type("RECORD") if m["stream"] == stream]
    return {r["_sdc_source_file"]: r["id"] for r in records}


def test_each_key_is_read_from_a_listing(source: Source) -> None:
    source.server.objects["/leading.csv"] = b"id\n99\n"
    plans = str(source.folder / "plans")
    ran = source.run("in/**", "/*.csv", "in/../dots.csv", plan_root=plans)
    assert rows(ran) == {key: n for n, key in enumerate(KEYS)}
    assert rows(ran, "/*.csv") == {"/leading.csv": 99}
    assert rows(ran, "in/../dots.csv") == {"in/../dots.csv": KEYS.index("in/../dots.csv")}
    again = source.run(plan_root=plans, state=ran.of_type("STATE")[-1]["value"])
    assert rows(again) == {}


def test_each_key_is_read_from_events(source: Source, sqs: Any) -> None:
    queue = sqs.create_queue(QueueName=f"keys-{uuid.uuid4().hex}")["QueueUrl"]
    keys = [*KEYS, "in/folder/", "in/" + "k" * 2000, "in/gone//x.csv"]
    for key in keys:
        location = {"bucket": {"name": BUCKET}, "object": {"key": quote_plus(key, safe="/"), "size": 1}}
        body = {"Records": [{"eventName": "ObjectCreated:Put", "s3": location}]}
        sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(body))
    ran = source.run(
        replication={"method": "sqs", "queue_url": queue, "max_wait_seconds": 1},
        plan_root=str(source.folder / "plans"),
    )
    sqs.delete_queue(QueueUrl=queue)
    assert rows(ran) == {key: n for n, key in enumerate(KEYS)}
    assert "S3 allows keys of 1 to 1,024 bytes" in ran.stderr
    assert "1 are gone" in ran.stderr
    assert "1 could not be read and were left to the dead-letter queue" in ran.stderr


def test_empty_objects_and_markers_of_folders(source: Source) -> None:
    source.server.objects = {
        "in/": b"",
        "in/sub/": b"",
        "in/sub_$folder$": b"",
        "in/_SUCCESS": b"",
        "in/a.csv": b"id\n1\n",
        "in/sub/empty.csv": b"",
        "in/full/": b"id\n2\n",
    }
    ran = source.run()
    assert rows(ran) == {"in/a.csv": 1}
    for key in ("in/sub_$folder$", "in/_SUCCESS", "in/sub/empty.csv"):
        assert f"s3://{BUCKET}/{key} is empty and was skipped" in ran.stderr
    assert f"s3://{BUCKET}/in/full/ holds 5 bytes, but its key is that of a folder; it is skipped" in ran.stderr
    assert f"{BUCKET}/in/ is empty" not in ran.stderr
    assert f"{BUCKET}/in/sub/ is empty" not in ran.stderr


def test_a_prefix_that_ends_inside_a_name_lists_nothing_else(server: SmallAws) -> None:
    expected = {f"logs/2024-0{month}/a.csv" for month in range(1, 10)}
    server.objects = dict.fromkeys([*expected, "logs/2023-01/a.csv", "logs/2024-10/a.csv", "logs/2024-0", "log"], b"x")
    storage = Storage(AwsOptions(endpoint_url=server.url, anonymous=True))
    found = list_objects(storage, [Url("s3", BUCKET, "logs/2024-0*/*.csv")])
    assert {o.url.key for o in found} == expected
    assert {r.query["prefix"] for r in server.requests} == {"logs/2024-0"}
