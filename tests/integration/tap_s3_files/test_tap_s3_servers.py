"""The tap on S3 servers of other makers: each that is installed here; the others are skipped, with their reason."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from forked_programs import ForkedPrograms
from waiting import wait_until

from local_cloud import Cloud, environment
from local_cloud.lifeline import PR_SET_PDEATHSIG
from local_cloud.programs import Ran
from singer_arrow.errors import ObjectChangedError
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

COMMANDS = {
    "versitygw": "--access {key} --secret {secret} --region {region} --port 127.0.0.1:{port} posix {sidecar} {folder}",
    "minio": "server --address 127.0.0.1:{port} --console-address 127.0.0.1:{other} {folder}",
    "gofakes3": "-host 127.0.0.1:{port} -backend memory",
    "s3rver": "--address 127.0.0.1 --port {port} --directory {folder} --silent --allow-mismatched-signatures",
}
PAGE = Path(__file__).parents[3] / "docs" / "access.md"
KEEPS_NO_LOG = {"s3rver"}
"""Servers that replace an object in spite of If-None-Match, so that a plan log cannot be kept there."""


KEY = "S3RVER"  # the only one that s3rver knows
SECRET = {"s3rver": KEY}


def client_of(server: tuple[str, str]) -> Any:
    secret = SECRET.get(server[0], environment.SECRET_ACCESS_KEY)
    return boto3.client(
        "s3",
        endpoint_url=server[1],
        region_name=environment.REGION,
        aws_access_key_id=KEY,
        aws_secret_access_key=secret,
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def end_with_this() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@pytest.fixture(scope="module", params=COMMANDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return the name of a server and its address, with the bucket `shop`."""
    name = str(request.param)
    program = shutil.which(name, path=f"{os.environ['PATH']}:{Path.home()}/go/bin")
    if program is None:
        pytest.skip(f"{name} is neither on PATH nor in ~/go/bin")
    folder = tmp_path_factory.mktemp(name)
    (folder / "objects").mkdir()
    (folder / "sidecar").mkdir()
    port, key, secret = free_port(), KEY, environment.SECRET_ACCESS_KEY
    places = {"key": key, "secret": secret, "region": environment.REGION, "port": port, "other": free_port()}
    command = COMMANDS[name].format(**places, folder=folder / "objects", sidecar=f"--sidecar {folder / 'sidecar'}")
    env = os.environ | {"MINIO_ROOT_USER": key, "MINIO_ROOT_PASSWORD": secret}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, *command.split()],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=end_with_this,  # noqa: PLW1509 - it calls the kernel only
        )
    try:
        wait_until(lambda: answers(port), 60)
        url = f"http://127.0.0.1:{port}"
        client_of((name, url)).create_bucket(Bucket="shop")
        yield name, url
    finally:
        process.kill()
        process.wait()


def run(server: tuple[str, str], folder: Path, path: str, root: str, **options: Any) -> Ran:
    secret = SECRET.get(server[0], environment.SECRET_ACCESS_KEY)
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": secret}
    env = environment.merged({"PATH": "/usr/bin:/bin"}, environment.aws(server[1], "") | keys)
    stream = {"name": "rows", "path": path, "schema": {"id": "integer"}}
    batch = {"encoding": {"format": "parquet"}, "storage": {"root": root}}
    config = {"streams": [stream], "metadata_columns": False, "batch_config": batch}
    return ForkedPrograms(env, folder)("tap-s3-files", config=config, **options)


def ids(ran: Ran, folder: Path, s3: Any) -> list[int]:
    found: list[int] = []
    for manifest in (m["manifest"] for m in ran.check().of_type("BATCH")):
        for url in manifest:
            local = folder / "read.parquet"
            if url.startswith("s3://"):
                s3.download_file("shop", url.removeprefix("s3://shop/"), str(local))
            else:
                local = Path(url.removeprefix("file://"))
            found += pq.read_table(local).column("id").to_pylist()
    return sorted(found)


def refusal(request: Callable[..., Any], **parameters: Any) -> str:
    """Return how a server takes a request whose condition does not hold: "refused", "ignored", or its own error."""
    try:
        request(Bucket=parameters.pop("Bucket", "shop"), **parameters)
    except ClientError as error:
        code = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return "refused" if code == HTTPStatus.PRECONDITION_FAILED else f"{code} {error.response['Error']['Code']}"
    return "ignored"


def row_of(name: str, url: str, bucket: str, s3: Any, keys: dict[str, str]) -> str:
    """Return what the page has about a server: conditional requests, parts, long listings, and a changed object."""
    first = s3.put_object(Bucket=bucket, Key="c/a", Body=b"first")["ETag"]
    absent = refusal(s3.put_object, Bucket=bucket, Key="c/a", Body=b"other", IfNoneMatch="*")
    own = AwsOptions(endpoint_url=url, region=environment.REGION, **keys)
    storage, place = Storage(own), Url.parse(f"s3://{bucket}/c/a")
    before = storage.head(place)
    s3.put_object(Bucket=bucket, Key="c/a", Body=b"newer")
    match = refusal(s3.get_object, Bucket=bucket, Key="c/a", IfMatch=first)
    with pytest.raises(ObjectChangedError):
        storage.get(place, start=1, end=2, version_of=before)
    delete = refusal(s3.delete_object, Bucket=bucket, Key="c/a", IfMatch=first)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="c/parts")["UploadId"]
    part = {"Bucket": bucket, "Key": "c/parts", "UploadId": upload}
    tag = s3.upload_part(**part, PartNumber=1, Body=b"x")["ETag"]
    made = s3.complete_multipart_upload(**part, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})["ETag"]
    parts = "as in S3" if re.fullmatch(r'"[0-9a-f]{32}-1"', made) else "others"
    after = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket, Prefix="c/", StartAfter="c/a").get("Contents", [])]
    start = "yes" if after == ["c/parts"] else "no"
    return f"| {name} | {absent} | {match} | {delete} | {parts} | {start} |"


def test_the_page_has_what_a_server_does(server: tuple[str, str]) -> None:
    keys = {"access_key_id": KEY, "secret_access_key": SECRET.get(server[0], environment.SECRET_ACCESS_KEY)}
    assert row_of(*server, "shop", client_of(server), keys) in PAGE.read_text().splitlines()


def test_the_page_has_what_the_local_cloud_does(cloud: Cloud, bucket: str, s3: Any) -> None:
    keys = {name: cloud.env[f"AWS_{name.upper()}"] for name in ("access_key_id", "secret_access_key")}
    assert row_of("moto", cloud.s3_url, bucket, s3, keys) in PAGE.read_text().splitlines()


def test_more_keys_than_a_page_and_a_large_object(server: tuple[str, str], tmp_path: Path) -> None:
    s3 = client_of(server)
    for number in range(1_005):
        s3.put_object(Bucket="shop", Key=f"many/{number:05}.csv", Body=f"id\n{number}\n")
    large = tmp_path / "large.csv"
    large.write_text("id\n" + "".join(f"{n:031}\n" for n in range(1_005, 500_000)))
    s3.upload_file(str(large), "shop", "many/large.csv")  # in parts
    ran = run(server, tmp_path, "s3://shop/many/*", f"file://{tmp_path}/out")
    if server[0] == "s3rver":  # its listing fails
        assert (ran.code, ran.of_type("BATCH")) == (1, [])
        assert "s3://shop/many/: the storage did not answer as it should (InternalError" in ran.stderr
        return
    assert ids(ran, tmp_path, s3) == list(range(500_000))


def test_the_plan_log_and_batch_files_are_there_or_the_run_ends_before_it_sends(
    server: tuple[str, str], tmp_path: Path
) -> None:
    s3 = client_of(server)
    s3.put_object(Bucket="shop", Key="few/a.csv", Body="id\n1\n2\n")
    ran = run(server, tmp_path, "s3://shop/few/*", "s3://shop/stage")
    if server[0] in KEEPS_NO_LOG:
        assert ran.code == 1
        assert "the storage ignores conditional writes (If-None-Match: *)" in ran.stderr
        assert ran.of_type("BATCH") == []
        return
    assert ids(ran, tmp_path, s3) == [1, 2]
    again = run(server, tmp_path, "s3://shop/few/*", "s3://shop/stage")
    names = [[m["batch_id"] for m in each.of_type("BATCH")] for each in (ran, again.check())]
    assert names[0] == names[1]
