"""The policy of the acceptance suite, by moto's IAM: the tap runs with exactly it, and not with less."""

from __future__ import annotations

import json
import re
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from forked_programs import ForkedPrograms

import acceptance
from local_cloud import Cloud
from local_cloud.programs import Ran

FILE = Path(acceptance.__path__[0]) / "rights" / "aws.json"
QUEUE = "source-events"
REFUSED = re.compile("AccessDenied")


class Account:
    """An AWS of this test, with a user of no rights but a policy; moto checks neither keys nor the names of queues."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.s3, self.iam, self.sqs = (
            boto3.client(name, endpoint_url=cloud.s3_url, region_name="us-east-1", **cloud_keys(cloud.environ()))
            for name in ("s3", "iam", "sqs")
        )
        self.iam.create_user(UserName="acceptance")
        key = self.iam.create_access_key(UserName="acceptance")["AccessKey"]
        self.keys = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    def allow(self, without: str) -> None:
        """Give the user the policy of the suite without an action."""
        values = {"BUCKET": "source", "REGION": "us-east-1", "ACCOUNT": "123456789012", "QUEUE": QUEUE}
        text = FILE.read_text()
        for name, value in values.items():
            assert name in text
            text = text.replace(name, value)
        policy = json.loads(text)
        for statement in policy["Statement"]:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            statement["Action"] = [action for action in actions if action != without]
            if "sqs" in statement["Resource"]:  # moto checks another action for several messages, AWS the same
                statement |= {"Resource": "*", "Action": [a for b in statement["Action"] for a in (b, f"{b}Batch")]}
        policy["Statement"] = [statement for statement in policy["Statement"] if statement["Action"]]
        if without != "s3:DeleteObject":  # of DeleteObjects, moto checks the bucket, and AWS each key
            more = {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::source"}
            policy["Statement"].append(more)
        self.iam.put_user_policy(UserName="acceptance", PolicyName="rights", PolicyDocument=json.dumps(policy))

    def check_rights(self, *, after: str) -> None:
        """Have moto check rights after so many requests."""
        request = urllib.request.Request(f"{self.cloud.s3_url}/moto-api/reset-auth", after.encode(), method="POST")
        request.add_header("Content-Type", "text/plain")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200


def cloud_keys(env: dict[str, str]) -> dict[str, str]:
    return {name.lower(): env[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with Cloud(["s3"]) as cloud:
        yield Account(cloud)


@pytest.fixture
def run(account: Account, tmp_path: Path) -> Callable[..., list[Ran]]:
    """Runs the tap twice as the user, with one object that is new for the first run; the second runs `after_load`."""
    place = f"acceptance_{uuid.uuid4().hex[:8]}"
    program = ForkedPrograms(account.cloud.environ(**account.keys), tmp_path)

    def make(without: str = "", folder: str = place, **more: Any) -> list[Ran]:
        account.s3.put_object(Bucket="source", Key=f"{folder}/in/a.csv", Body=b"id,name\n1,a\n")
        stream = {"name": "rows", "path": f"s3://source/{folder}/in/**", "after_load": {"delete": True}}
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://source/{place}/batches"}}
        config: dict[str, Any] = {"streams": [stream], "batch_config": batches, **more}
        account.allow(without)
        account.check_rights(after="0")
        try:
            first = program("tap-s3-files", config=["ENV", config])
            states = first.of_type("STATE")
            again = [program("tap-s3-files", config=["ENV", config], state=states[-1]["value"])] if states else []
        finally:
            account.check_rights(after="inf")
        return [first, *again]

    return make


def queue(account: Account) -> dict[str, Any]:
    url = account.cloud.environ()["LOCAL_CLOUD_SQS_QUEUE_URL"]
    return {"replication": {"method": "sqs", "queue_url": url, "max_wait_seconds": 2, "unmatched_events": "delete"}}


def test_the_tap_runs_with_exactly_the_policy(run: Callable[..., list[Ran]]) -> None:
    ran = run()
    assert [one.code for one in ran] == [0, 0], ran[-1].stderr
    assert len(ran[0].of_type("BATCH")) == 1
    assert not REFUSED.search(ran[0].stderr + ran[1].stderr)


def test_the_queue_is_read_with_exactly_the_policy(run: Callable[..., list[Ran]], account: Account) -> None:
    [ran, *_] = run(**queue(account))
    assert (ran.code, len(ran.of_type("BATCH"))) == (0, 1), ran.stderr
    assert not REFUSED.search(ran.stderr)


@pytest.mark.parametrize(
    ("without", "number"),
    [
        ("s3:ListBucket", 0),
        ("s3:GetObject", 0),
        ("s3:PutObject", 0),
        ("s3:DeleteObject", 1),  # by the run after the one that loads
        ("sqs:ReceiveMessage", 0),
        ("sqs:DeleteMessage", 0),
    ],
)
def test_the_tap_is_refused_without_one_of_its_actions(
    run: Callable[..., list[Ran]], account: Account, without: str, number: int
) -> None:
    ran = run(without, **(queue(account) if without.startswith("sqs") else {}))
    assert REFUSED.search(ran[number].stderr), ran[number].stderr
    assert "Traceback" not in ran[number].stderr


def test_what_has_another_prefix_is_refused(run: Callable[..., list[Ran]]) -> None:
    [ran] = run(folder="other")
    assert ran.code == 1
    assert "other/in/a.csv: access is denied" in ran.stderr
