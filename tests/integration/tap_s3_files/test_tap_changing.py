"""Objects that change during a run: between listing and reading, or while they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from forked_programs import ForkedPrograms
from small_aws import BUCKET, CHANGED, Refusal, Request, SmallAws
from waiting import wait_until

from local_cloud import environment
from local_cloud.programs import Ran

MIB = 1 << 20
LARGE = b"id\n" + b"".join(b"%031d\n" % n for n in range(32 * MIB // 32))
"""32 MiB: enough requests that rows are sent before the last of them."""


@pytest.fixture
def server() -> Iterator[SmallAws]:
    with SmallAws({"in/a.csv": b"id\n1\n", "in/b.csv": LARGE}) as running:
        yield running


def run(server: SmallAws, folder: Path) -> Ran:
    env = environment.merged({"PATH": "/usr/bin:/bin"}, environment.aws(server.url, ""))
    stream = {"name": "rows", "path": f"s3://{BUCKET}/in/*", "schema": {"id": "integer"}}
    batch = {"encoding": {"format": "parquet"}, "storage": {"root": f"file://{folder}/out"}, "target_file_mb": 0.01}
    config = {"streams": [stream], "metadata_columns": False, "batch_config": batch, "max_workers": 1}
    return ForkedPrograms(env, folder)("tap-s3-files", config=config)


def change(
    server: SmallAws, when: Callable[[Request], bool], to: bytes | None, has_given: Callable[[], bool] = lambda: True
) -> None:
    """Replace or remove an object once it was requested and the run has sent something."""

    def look(request: Request) -> Refusal | None:
        if request.key == "in/b.csv" and when(request):
            wait_until(has_given)
            if to is None:
                server.objects.pop("in/b.csv", None)
            elif server.objects["in/b.csv"] != to:
                server.objects["in/b.csv"] = to
                server.changed["in/b.csv"] = CHANGED + timedelta(seconds=1)
        return None

    server.refuse = look


def ids(ran: Ran) -> list[int]:
    files = [Path(url.removeprefix("file://")) for m in ran.of_type("BATCH") for url in m["manifest"]]
    return [n for file in files for n in pq.read_table(file).column("id").to_pylist()]


def is_late(request: Request) -> bool:
    found = re.match(r"bytes=(\d+)-\d+", request.headers.get("range", ""))
    return found is not None and int(found[1]) > 24 * MIB


NEW = b"id\n" + b"".join(b"%031d\n" % (n + 10_000_000) for n in range(32 * MIB // 32))


@pytest.mark.parametrize("to", [NEW, None], ids=["overwritten", "deleted"])
def test_while_it_is_read(to: bytes | None, server: SmallAws, tmp_path: Path) -> None:
    """The rows sent from the old version are a prefix of it; the same run reads the new one from its start."""
    change(server, is_late, to, lambda: len([*tmp_path.rglob("out/**/*.parquet")]) > 1)
    ran = run(server, tmp_path).check()
    assert f"s3://{BUCKET}/in/b.csv was replaced or deleted while it was being read" in ran.stderr
    found = ids(ran)
    old = found[1:] if to is None else found[1 : -len(LARGE) // 32 + 1]
    assert found[0] == 1
    assert 0 < len(old) < len(LARGE) // 32 - 1
    assert old == [*range(len(old))]
    if to is not None:
        assert found[1 + len(old) :] == [int(line) for line in NEW.splitlines()[1:]]
    assert len({m["batch_id"] for m in ran.of_type("BATCH")}) == len(ran.of_type("BATCH"))


@pytest.mark.parametrize("to", [b"id\n7\n", None], ids=["overwritten", "deleted"])
def test_between_listing_and_reading(to: bytes | None, server: SmallAws, tmp_path: Path) -> None:
    change(server, lambda _: len([r for r in server.requests if r.key == "in/b.csv"]) > 1, to)
    ran = run(server, tmp_path).check()
    assert f"s3://{BUCKET}/in/b.csv was replaced or deleted since it was listed" in ran.stderr
    assert ids(ran) == ([1] if to is None else [1, 7])
