"""A local S3 that is as far away as S3: versitygw where Go is present, moto otherwise, behind a latency.

What cases put in and look at goes past the latency (`client`, `upload`, `filesystem`); contenders get `env`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from benchmarks import processes
from benchmarks.case import Contender, Facts
from benchmarks.harness import Command, Measured
from local_cloud import environment
from local_cloud.faults.client import open_directly
from local_cloud.process import Service
from local_cloud.s3 import setup

if TYPE_CHECKING:
    from pyarrow import fs

VERSITYGW = "v1.8.0"
BUCKET = "bench"
LATENCY_MS = 30.0
"""About the time to the first byte of S3 from the same region."""
COLUMNS = (("requests", "requests"), ("mb_down", "MB from S3"), ("mb_up", "MB to S3"))
"""Columns for contenders that are `counted`."""


@dataclass(frozen=True)
class Counters:
    """What contenders asked of S3: requests by method, and bytes of bodies sent to them and taken from them."""

    requests: dict[str, int]
    bytes_down: int
    bytes_up: int
    connections: int

    @property
    def total(self) -> int:
        """All requests."""
        return sum(self.requests.values())


class LocalS3:
    """A running S3 with one bucket.

    Attributes:
        kind: the server with its version.
        bucket: the name of the bucket.
        endpoint: its address behind the latency; `direct` is the one before it.
        env: the variables that make any client use `endpoint`.
    """

    bucket = BUCKET

    def __init__(self, kind: str, direct: str, endpoint: str, sessions: Sequence[int] = ()) -> None:
        self.kind, self.direct, self.endpoint, self._sessions = kind, direct, endpoint, sessions
        aws = {name: value for name, value in environment.aws(endpoint, "").items() if name.startswith("AWS_")}
        self.env = aws | environment.without_proxy(os.environ)

    def shape(self, latency_ms: float = LATENCY_MS, rate_mb_s: float | None = None) -> None:
        """Delay first bytes by milliseconds, limit each connection to million bytes a second; count anew."""
        body = json.dumps({"latency_ms": latency_ms, "rate_mb_s": rate_mb_s}).encode()
        self._control("PUT", body)

    def counters(self) -> Counters:
        """What was asked since `shape`."""
        return Counters(**self._control("GET"))

    def cpu_seconds(self) -> float:
        """What it and the latency have taken of the processors, which a real S3 would not."""
        return sum(processes.cpu_seconds(session) for session in self._sessions)

    def client(self) -> Any:
        """A boto3 client past the latency and the counters."""
        return setup.client("s3", self.direct)

    def filesystem(self) -> fs.S3FileSystem:
        """pyarrow's file system past the latency and the counters."""
        from pyarrow import fs

        return fs.S3FileSystem(
            endpoint_override=urlsplit(self.direct).netloc,
            scheme="http",
            access_key=environment.ACCESS_KEY_ID,
            secret_key=environment.SECRET_ACCESS_KEY,
            region=environment.REGION,
        )

    def upload(self, path: Path, key: str) -> str:
        """Put a file, unless one of its size is there; the URL of the object."""
        client = self.client()
        found = client.list_objects_v2(Bucket=BUCKET, Prefix=key).get("Contents", ())
        if not any(each["Key"] == key and each["Size"] == path.stat().st_size for each in found):
            client.upload_file(str(path), BUCKET, key)
        return self.url(key)

    def url(self, key: str) -> str:
        """The s3:// URL of a key."""
        return f"s3://{BUCKET}/{key}"

    def remove(self, prefix: str) -> None:
        """Remove all objects whose keys begin so."""
        client = self.client()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix):
            if keys := [{"Key": each["Key"]} for each in page.get("Contents", ())]:
                client.delete_objects(Bucket=BUCKET, Delete={"Objects": keys})

    def _control(self, method: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.endpoint}/__shape__", data=body, method=method)
        with open_directly(request, timeout=10) as response:
            answer: dict[str, Any] = json.load(response)
        return answer


@contextmanager
def serving_s3(
    latency_ms: float = LATENCY_MS,
    rate_mb_s: float | None = None,
    *,
    data: Path,
    log: Callable[[str], None] = print,
) -> Iterator[LocalS3]:
    """An S3 on free ports of 127.0.0.1, which ends with the block or with this process and keeps nothing.

    Args:
        latency_ms: milliseconds by which each answer is held back.
        rate_mb_s: million bytes a second of one connection; any if None.
        data: versitygw is kept there, and objects as long as the block lasts.
        log: takes a line when versitygw is installed, or cannot be.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="s3-", dir=data)))
        if gateway := versitygw(data, log):
            kind = f"versitygw {VERSITYGW.removeprefix('v')}"
            command = [sys.executable, "-m", "benchmarks.services.gateway", str(gateway), str(folder)]
        else:
            kind = f"moto {version('moto')}"
            command = [sys.executable, "-m", "local_cloud.s3.server", str(folder)]
        service = Service(kind, command, log=folder / "s3.log")
        stack.callback(service.stop)
        direct = str(service.facts["url"])
        far = [sys.executable, "-m", "benchmarks.services.latency", urlsplit(direct).netloc]
        latency = Service("latency", far, log=folder / "latency.log")
        stack.callback(latency.stop)
        s3 = LocalS3(kind, direct, str(latency.facts["url"]), (service.pid, latency.pid))
        s3.client().create_bucket(Bucket=BUCKET)
        s3.shape(latency_ms, rate_mb_s)
        yield s3


def versitygw(data: Path, log: Callable[[str], None]) -> Path | None:
    """The program, built once into the data folder; None where there is no Go or it cannot be built."""
    path = data / "bin" / "versitygw"
    marker = data / "bin" / f"versitygw-{VERSITYGW}"
    if marker.exists() and path.exists():
        return path
    if not (go := shutil.which("go")):
        log("no Go here: S3 is moto, which is slower")
        return None
    log(f"building versitygw {VERSITYGW} (once, some minutes)")
    package = f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"
    env = os.environ | {"CGO_ENABLED": "0", "GOBIN": str(path.parent.absolute())}
    ran = subprocess.run([go, "install", package], env=env, capture_output=True, text=True, check=False)
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["no message"])[-1]
        log(f"versitygw could not be built ({last}): S3 is moto, which is slower")
        return None
    marker.touch()
    return path


def counted(
    s3: LocalS3, contender: Contender, *, latency_ms: float = LATENCY_MS, rate_mb_s: float | None = None
) -> Contender:
    """The contender with S3 shaped so while it runs, and what it asked of S3 among its facts.

    These are `requests`, `gets`, `heads`, `puts`, `mb_down` and `mb_up`, those of the bodies, and `s3_cpu_s`, what S3
    itself took of this machine meanwhile.
    """
    before = 0.0

    def commands(folder: Path) -> Sequence[Command]:
        nonlocal before
        found = contender.commands(folder)
        s3.shape(latency_ms, rate_mb_s)
        before = s3.cpu_seconds()
        return found

    def facts(folder: Path, measured: Measured) -> Facts:
        asked = s3.counters()
        methods = {f"{name.lower()}s": float(asked.requests.get(name, 0)) for name in ("GET", "HEAD", "PUT")}
        bodies = {"mb_down": asked.bytes_down / 1e6, "mb_up": asked.bytes_up / 1e6}
        own = {"requests": asked.total, "s3_cpu_s": s3.cpu_seconds() - before}
        return own | methods | bodies | contender.facts(folder, measured)

    return dataclasses.replace(contender, commands=commands, facts=facts)
