"""The local S3 and SQS, the sample data, and the faults of the proxy in front of them."""

import json
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote_plus

import boto3
import pytest
from benchmarks.processes import cpu_seconds
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError, ResponseStreamingError
from urllib3.exceptions import ProtocolError
from waiting import wait_until

from local_cloud import Cloud, LocalCloudError, environment
from local_cloud.faults.client import FaultProxy
from local_cloud.s3 import persistence, setup
from local_cloud.seed import seed

Client = Callable[..., Any]


@pytest.fixture
def client(s3_faults: FaultProxy) -> Client:
    """Returns S3 clients that use the proxy and do not retry."""

    def make(**config: Any) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=s3_faults.url,
            region_name=environment.REGION,
            aws_access_key_id=environment.ACCESS_KEY_ID,
            aws_secret_access_key=environment.SECRET_ACCESS_KEY,
            config=Config(retries={"total_max_attempts": 1}, proxies={}, **config),
        )

    return make


@pytest.fixture
def key(s3: Any, bucket: str) -> dict[str, str]:
    """Put an object of a million bytes, and return its key."""
    s3.put_object(Bucket=bucket, Key="a/b c.bin", Body=bytes(1_000_000))
    return {"Bucket": bucket, "Key": "a/b c.bin"}


def test_new_objects_send_events_to_the_queue(cloud: Cloud, s3: Any, sqs: Any, bucket: str) -> None:
    url = setup.connect_queue(cloud.s3_url, bucket, f"queue-{uuid.uuid4().hex}")
    s3.put_object(Bucket=bucket, Key="day=1/ä b.csv", Body=b"x")
    bodies = [json.loads(m["Body"]) for m in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]]
    assert bodies[0]["Event"] == "s3:TestEvent"
    (record,) = bodies[1]["Records"]
    assert record["eventName"] == "ObjectCreated:Put"
    assert record["s3"]["bucket"]["name"] == bucket
    assert unquote_plus(record["s3"]["object"]["key"]) == "day=1/ä b.csv"
    sqs.delete_queue(QueueUrl=url)


def test_seeding_uploads_once(s3: Any, bucket: str) -> None:
    progress: list[str] = []
    assert seed(s3, bucket, progress.append) == 365 + 12 + 4 + 1 + 1
    assert progress[-1] == f"sample data: 383 of 383 objects in s3://{bucket}"
    assert seed(s3, bucket, progress.append) == 0
    folders = s3.list_objects_v2(Bucket=bucket, Delimiter="/")["CommonPrefixes"]
    assert {folder["Prefix"].rstrip("/") for folder in folders} == {
        "flights",
        "weather",
        "planes",
        "airports",
        "airlines",
    }


def test_without_rules_nothing_changes(client: Client, s3_faults: FaultProxy, key: dict[str, str]) -> None:
    s3 = client()
    s3.upload_file(__file__, key["Bucket"], "copy")
    assert s3.head_object(**key)["ContentLength"] == 1_000_000
    assert s3.get_object(**key, Range="bytes=10-19")["Body"].read() == bytes(10)
    (get,) = s3_faults.requests("GET")
    assert get["range"] == "bytes=10-19"
    assert (get["status"], get["bytes_down"]) == (206, 10)
    report = s3_faults.report()
    assert report["requests"] == 3
    assert report["bytes_down"] < 1_000


def test_ranges_are_those_of_the_object(s3: Any, bucket: str) -> None:
    body = bytes(range(256)) * 4
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    for asked, expected in {
        "0-9": body[:10],
        "1000-": body[1000:],
        "-7": body[-7:],
        "1020-9999": body[1020:],
        "-9999": body,
        "5-2": body,  # not a range, as a list of several, which S3 ignores
        "0-1,4-5": body,
    }.items():
        found = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={asked}")
        assert (found["Body"].read(), found["ContentLength"]) == (expected, len(expected)), asked
    assert s3.get_object(Bucket=bucket, Key="k", Range="bytes=0-9", PartNumber=1)["Body"].read() == body
    with pytest.raises(ClientError, match="InvalidRange"):
        s3.get_object(Bucket=bucket, Key="k", Range="bytes=1024-")
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    with pytest.raises(ClientError, match="InvalidRange"):
        s3.get_object(Bucket=bucket, Key="empty", Range="bytes=0-")


def test_a_range_costs_what_is_read(cloud: Cloud, s3: Any, bucket: str) -> None:
    """Of 64 MiB, 400 ranges of a byte would be 25 GiB, 5 s of a core at the least."""
    s3.put_object(Bucket=bucket, Key="k", Body=bytes(1 << 26))
    before = cpu_seconds(cloud.services["s3"].pid)
    for place in range(400):
        s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={place}-{place}")["Body"].read()
    assert cpu_seconds(cloud.services["s3"].pid) - before < 4


def test_a_delay_and_a_limit_of_speed(client: Client, s3_faults: FaultProxy, key: dict[str, str]) -> None:
    s3 = client()
    s3_faults.set({"match": "^HEAD", "delay_ms": 200, "jitter_ms": 10}, {"match": "^GET", "mb_per_s": 4})
    started = time.monotonic()
    s3.head_object(**key)
    headed = time.monotonic()
    s3.get_object(**key)["Body"].read()
    assert headed - started >= 0.2
    assert time.monotonic() - headed >= 0.2


@pytest.mark.parametrize(
    ("status", "code"), [(503, "SlowDown"), (403, "InvalidAccessKeyId"), (400, "ExpiredToken"), (500, "InternalError")]
)
def test_errors(client: Client, s3_faults: FaultProxy, key: dict[str, str], status: int, code: str) -> None:
    s3_faults.set({"match": "^GET", "action": "error", "status": status, "code": code, "times": 2, "skip": 1})
    s3 = client()
    assert len(s3.get_object(**key)["Body"].read()) == 1_000_000
    for _ in range(2):
        with pytest.raises(ClientError) as caught:
            s3.get_object(**key)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
        assert caught.value.response["Error"]["Code"] == code
    assert len(s3.get_object(**key)["Body"].read()) == 1_000_000
    (rule,) = s3_faults.report()["rules"]
    assert (rule["matched"], rule["fired"]) == (4, 2)


def test_an_upload_that_is_refused_is_read_to_its_end(client: Client, s3_faults: FaultProxy, bucket: str) -> None:
    s3_faults.set({"match": "^PUT", "action": "error"})
    with pytest.raises(ClientError, match="SlowDown"):
        client().put_object(Bucket=bucket, Key="x", Body=bytes(5_000_000))


@pytest.mark.parametrize("forward", [False, True])
def test_a_reset_before_and_after_the_service_did_it(
    client: Client, s3: Any, s3_faults: FaultProxy, bucket: str, forward: bool
) -> None:
    s3_faults.set({"match": "^PUT", "action": "reset", "forward": forward})
    with pytest.raises(ConnectionClosedError):
        client().put_object(Bucket=bucket, Key="x", Body=b"x")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == forward


def test_a_truncated_answer(client: Client, s3_faults: FaultProxy, key: dict[str, str]) -> None:
    s3_faults.set({"match": "^GET", "action": "truncate", "keep": 0.25, "times": 1})
    with pytest.raises((ResponseStreamingError, ProtocolError)):
        client().get_object(**key)["Body"].read()
    assert s3_faults.requests("GET")[0]["bytes_down"] == 250_000
    assert len(client().get_object(**key)["Body"].read()) == 1_000_000


def test_a_stall(client: Client, s3_faults: FaultProxy, key: dict[str, str]) -> None:
    s3_faults.set({"match": "^GET", "action": "stall", "stall_s": 30})
    with pytest.raises(ReadTimeoutError):
        client(read_timeout=0.5).get_object(**key)["Body"].read()


@pytest.mark.parametrize("rule", [{"delay_ms": 3_600_000}, {"action": "stall", "keep": 1}, {"action": "hang"}])
def test_a_request_is_let_go_when_the_rules_change(
    client: Client, s3_faults: FaultProxy, key: dict[str, str], rule: dict[str, Any]
) -> None:
    def get() -> int:
        return len(client(read_timeout=600).get_object(**key)["Body"].read())

    s3_faults.set({"match": "^GET", **rule})
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(get)
        try:
            wait_until(lambda: s3_faults.requests("GET"))
        finally:
            s3_faults.clear()
        if rule.get("action") == "hang":
            with pytest.raises(ConnectionClosedError):
                held.result()
        else:
            assert held.result() == 1_000_000


def test_the_time_of_change_can_be_chosen(s3: Any, bucket: str) -> None:
    at = {"Bucket": bucket, "Key": "x"}
    chosen = datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    s3.put_object(**at, Body=b"x", Metadata={persistence.METADATA: chosen.isoformat()})
    assert s3.head_object(**at)["LastModified"] == chosen
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["LastModified"] == chosen


@pytest.mark.parametrize("forward", [False, True])
def test_no_answer_at_all(client: Client, s3: Any, s3_faults: FaultProxy, bucket: str, forward: bool) -> None:
    s3_faults.set({"match": "^PUT", "action": "hang", "forward": forward, "stall_s": 30})
    with pytest.raises(ReadTimeoutError):
        client(read_timeout=0.5).put_object(Bucket=bucket, Key="x", Body=b"x")
    if forward:  # the service may take longer than the client waits
        wait_until(lambda: s3.list_objects_v2(Bucket=bucket)["KeyCount"])
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == forward


def test_chances_repeat_with_their_seed(client: Client, s3_faults: FaultProxy, key: dict[str, str]) -> None:
    def outcomes(seed: int) -> list[int]:
        s3_faults.set({"match": "^HEAD", "action": "error", "probability": 0.5}, seed=seed)
        s3 = client()
        for _ in range(12):
            try:
                s3.head_object(**key)
            except ClientError:
                continue
        return [entry["status"] for entry in s3_faults.requests("HEAD")]

    first = outcomes(1)
    assert set(first) == {200, 503}
    assert outcomes(1) == first
    assert outcomes(2) != first


def test_rules_that_cannot_be_understood(s3_faults: FaultProxy) -> None:
    with pytest.raises(LocalCloudError, match="rule 2: unknown key 'sometimes'"):
        s3_faults.set({}, {"sometimes": True})
