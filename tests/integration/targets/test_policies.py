"""The documented IAM policies allow all AWS requests of runs, and no others."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from forked_programs import ForkedPrograms
from redshift_lines import Loads
from singer_lines import record, rows, schema
from small_network import Recorder

from local_cloud import Cloud
from local_cloud.s3 import setup

DOCUMENT = (Path(__file__).parents[3] / "docs" / "access.md").read_text()
BUCKETS = ("shop", "stage", "inventories")
ONLY_ON_FAILURE = "s3:AbortMultipartUpload"


class Call(NamedTuple):
    """The permission that a request needs: an action on a resource, with the prefix of a listing."""

    action: str
    resource: str
    prefix: str | None = None


def policy(name: str) -> list[dict[str, Any]]:
    """Return the statements of a documented policy."""
    found = re.search(rf"<!-- policy: {name} -->\n```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found, name
    statements: list[dict[str, Any]] = json.loads(found[1])["Statement"]
    return statements


def call(method: str, url: str, headers: dict[str, str], names: Mapping[str, str]) -> Call:
    """Return the permission for a request to the local cloud.

    `names` maps buckets to their names in the documentation.
    """
    if target := headers.get("x-amz-target", ""):
        action = target.removeprefix("AmazonSQS.").removesuffix("Batch")
        return Call(f"sqs:{action}", "arn:aws:sqs:eu-west-1:123456789012:shop-events")
    parts = urlsplit(url)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    query = parse_qs(parts.query, keep_blank_values=True)
    place = f"arn:aws:s3:::{names[bucket]}"
    if "list-type" in query:
        return Call("s3:ListBucket", place, query.get("prefix", [""])[0])
    if method == "POST" and "delete" in query:
        return Call("s3:DeleteObject", f"{place}/*")
    return Call({"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject"}[method], f"{place}/{key}")


def several(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def allows(statement: dict[str, Any], one: Call) -> bool:
    resources = several(statement["Resource"])
    if one.action not in several(statement["Action"]):
        return False
    if one.action == "s3:DeleteObject":  # many at once, in the body
        return any(r.split("/")[0] == one.resource.split("/")[0] for r in resources)
    prefix = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
    return any(fnmatchcase(one.resource, r) for r in resources) and (
        prefix is None or fnmatchcase(one.prefix or "", prefix)
    )


def check(calls: set[Call], *names: str) -> None:
    """Check that each call is allowed, and that each action of each statement is needed."""
    statements = [s for name in names for s in policy(name)]
    assert [c for c in calls if not any(allows(s, c) for s in statements)] == []
    needless = [
        (action, statement["Resource"])
        for statement in statements
        for action in several(statement["Action"])
        if action != ONLY_ON_FAILURE and not any(allows({**statement, "Action": action}, c) for c in calls)
    ]
    assert needless == []


class Account:
    """The buckets of the documentation, and the tap behind a proxy that records each request."""

    def __init__(self, cloud: Cloud, s3: Any, sqs: Any, recorder: Recorder, folder: Path) -> None:
        self.cloud, self.s3, self.sqs, self.recorder = cloud, s3, sqs, recorder
        self.suffix = f"-{uuid.uuid4().hex[:10]}"
        self._tap = ForkedPrograms(
            cloud.environ() | {"HTTP_PROXY": recorder.url, "NO_PROXY": "", "no_proxy": ""}, folder
        )

    def bucket(self, name: str) -> str:
        return name + self.suffix

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket(bucket), Key=key, Body=body)

    def fill_the_log(self, count: int) -> None:
        """Append segments, each with an object of the first, to the plan log."""
        folder = "batches/_plans/orders"
        entry = json.loads(self.s3.get_object(Bucket=self.bucket("stage"), Key=f"{folder}/000000.json")["Body"].read())
        for number in range(1, count):
            self.put("stage", f"{folder}/{number:06d}.json", json.dumps({**entry, "number": number}).encode())

    def run(self, *, state: Any = None, plan: bool = False, batches: bool = True, **more: Any) -> Any:
        stream = {"name": "orders", "path": f"s3://{self.bucket('shop')}/orders/**/*.csv", "schema": {"id": "integer"}}
        root = f"s3://{self.bucket('stage')}/batches"
        batch = {"encoding": {"format": "parquet"}, "storage": {"root": root}}
        config = {"streams": [stream], **({"batch_config": batch} if batches else {}), **more}
        ran = self._tap("tap-s3-files", config=config, state=state, plan=plan).check()
        return None if plan else ran.of_type("STATE")[-1]["value"]

    def calls(self) -> set[Call]:
        names = {self.bucket(name): name for name in BUCKETS}
        return {call(*request, names) for request in self.recorder.requests if "authorization" in request[2]}


@pytest.fixture
def account(cloud: Cloud, s3: Any, sqs: Any, tmp_path: Path) -> Iterator[Account]:
    with Recorder(cloud.s3_url) as recorder:
        made = Account(cloud, s3, sqs, recorder, tmp_path)
        names = [made.bucket(name) for name in BUCKETS]
        for name in names:
            s3.create_bucket(Bucket=name)
        made.put("shop", "orders/2024/a.csv", b"id\n1\n")
        yield made
        for name in names:
            for found in s3.list_objects_v2(Bucket=name).get("Contents", []):
                s3.delete_object(Bucket=name, Key=found["Key"])
            s3.delete_bucket(Bucket=name)


def test_polling_needs_the_source(account: Account) -> None:
    account.run()
    check({c for c in account.calls() if ":::shop" in c.resource}, "source")


def test_a_queue_needs_its_own_rights_too(account: Account) -> None:
    name = f"queue{account.suffix}"
    queue = setup.connect_queue(account.cloud.s3_url, account.bucket("shop"), name)
    account.put("shop", "orders/2024/a.csv", b"id\n1\n")
    account.put("shop", "others/2024/a.csv", b"id\n1\n")
    replication = {"method": "sqs", "queue_url": queue, "max_wait_seconds": 1}
    state = account.run(replication=replication)
    account.fill_the_log(15)
    account.put("shop", "orders/2024/b.csv", b"id\n2\n")
    state = account.run(replication=replication, state=state)  # appends the segment at which the log is compacted
    account.run(replication=replication, state=state, plan=True)
    account.sqs.delete_queue(QueueUrl=queue)
    check(account.calls(), "source", "stage", "queue")


def test_an_inventory_needs_no_listing_of_the_source(account: Account) -> None:
    columns = ["Bucket", "Key", "Size", "LastModifiedDate", "ETag"]
    (listed,) = account.s3.list_objects_v2(Bucket=account.bucket("shop"))["Contents"]
    text = io.StringIO()
    row = [
        account.bucket("shop"),
        listed["Key"],
        listed["Size"],
        listed["LastModified"].isoformat(),
        listed["ETag"].strip('"'),
    ]
    csv.writer(text).writerow(row)
    body = gzip.compress(text.getvalue().encode())
    account.put("inventories", "shop/all/data/1.csv.gz", body)
    manifest = {
        "sourceBucket": account.bucket("shop"),
        "destinationBucket": f"arn:aws:s3:::{account.bucket('inventories')}",
        "fileFormat": "CSV",
        "fileSchema": ", ".join(columns),
        "files": [{"key": "shop/all/data/1.csv.gz", "size": len(body), "MD5checksum": "x"}],
    }
    account.put("inventories", "shop/all/2024-05-01T00-00Z/manifest.json", json.dumps(manifest).encode())
    url = f"s3://{account.bucket('inventories')}/shop/all/"
    account.run(replication={"method": "inventory", "manifest_url": url}, batches=False)
    calls = account.calls()
    check({c for c in calls if "inventories" in c.resource}, "inventory")
    rest = {c for c in calls if "inventories" not in c.resource}
    assert rest == {Call("s3:GetObject", "arn:aws:s3:::shop/orders/2024/a.csv")}


def test_redshift_needs_batch_files_and_its_stage(
    redshift: Loads, cloud: Cloud, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Recorder(cloud.s3_url) as recorder:
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "")
        monkeypatch.setenv("HTTP_PROXY", recorder.url)
        run = [schema(), redshift.batch(rows(0, 10)), schema("others"), record("others", id=1, name="a")]
        redshift.run(run, s3_stage=f"s3://{bucket}/redshift")
        monkeypatch.delenv("HTTP_PROXY")
    assert redshift.ids() == list(range(10))
    signed = [request for request in recorder.requests if "authorization" in request[2]]  # others look for redirects
    calls = {call(*request, {bucket: "stage"}) for request in signed}
    tagged = [c for c in recorder.requests if "x-amz-tagging" in c[2]]
    calls |= {Call("s3:PutObjectTagging", call(*request, {bucket: "stage"}).resource) for request in tagged}
    check(calls, "redshift")
