"""Listing a bucket: parallel, from where the last run ended, and reports of changed objects."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from forked_programs import ForkedPrograms

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Ran
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.listing import ObjectPage
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files import listing as lister
from tap_s3_files.listing import list_objects


class Source:
    """A bucket, and the tap that reads it."""

    def __init__(self, cloud: Cloud, s3: Any, bucket: str, folder: Path) -> None:
        self.s3, self.bucket = s3, bucket
        self.tap = ForkedPrograms(cloud.environ(), folder)

    def put(self, key: str, *ids: int) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=("id\n" + "".join(f"{n}\n" for n in ids)).encode())

    def run(self, path: str = "in/**/*.csv", *, stream: Any = None, env: Any = None, **more: Any) -> Ran:
        """Run with records and a plan; `state` and `catalog` are options, the rest are settings."""
        options = {k: more.pop(k) for k in ("state", "catalog", "plan") if k in more}
        paths = {"name": "rows", "path": f"s3://{self.bucket}/{path}", "schema": {"id": "integer"}, **(stream or {})}
        config = {"streams": [paths], "plan_root": f"s3://{self.bucket}/plan", "metadata_columns": False, **more}
        return self.tap("tap-s3-files", config=config, env=env, **options)


@pytest.fixture
def source(cloud: Cloud, s3: Any, bucket: str, tmp_path: Path) -> Iterator[Source]:
    return Source(cloud, s3, bucket, tmp_path)


def ids(ran: Ran) -> list[int]:
    return sorted(m["record"]["id"] for m in ran.check().of_type("RECORD"))


def state_of(ran: Ran) -> dict[str, Any]:
    state: dict[str, Any] = ran.check().of_type("STATE")[-1]["value"]
    return state


def test_where_keys_ascend_a_listing_begins_where_the_last_run_ended(source: Source, s3_faults: FaultProxy) -> None:
    catalog = {
        "streams": [
            {
                "tap_stream_id": "rows",
                "stream": "rows",
                "schema": {"type": "object", "properties": {"id": {"type": ["integer", "null"]}}},
                "metadata": [{"breadcrumb": [], "metadata": {"selected": True}}],
            }
        ]
    }
    ascend = {"keys_ascend": True, "overlap_minutes": 0}
    more = {"catalog": catalog, "replication": ascend, "env": {"AWS_ENDPOINT_URL": s3_faults.url}}
    source.put("in/2024-05-01.csv", 1)
    source.put("in/2024-05-02.csv", 2)
    first = source.run(**more)
    assert ids(first) == [1, 2]
    source.put("in/2024-05-03.csv", 3)
    s3_faults.clear()
    assert ids(source.run(**more, state=state_of(first))) == [3]
    listings = [r["path"] for r in s3_faults.requests("GET") if "list-type=2" in r["path"] and "prefix=in" in r["path"]]
    assert len(listings) == 1
    assert "start-after=in%2F2024-05-02.csv" in listings[0]


def test_an_overwritten_object_is_read_again_and_logged(source: Source) -> None:
    source.put("in/a.csv", 1)
    source.put("in/b.csv", 2)
    first = source.run()
    source.put("in/a.csv", 3)
    second = source.run(state=state_of(first))
    assert ids(second) == [3]
    assert f"s3://{source.bucket}/in/a.csv was overwritten since it was read" in second.stderr
    assert "b.csv was overwritten" not in second.stderr


def test_objects_of_one_second_are_all_read_and_none_twice(source: Source) -> None:
    state: dict[str, Any] | None = None
    seen: list[int] = []
    for n in range(4):
        source.put(f"in/{9 - n}.csv", n)  # within a second or two, each older than those that were read
        ran = source.run(**({"state": state} if state else {}))
        seen += ids(ran)
        state = state_of(ran)
    assert seen == [0, 1, 2, 3]


class SmallPages(Storage):
    """A storage whose listings come in pages of three objects."""

    def list_pages(self, prefix: Url, *, after: str = "") -> Iterator[ObjectPage]:
        for page in super().list_pages(prefix, after=after):
            for n in range(0, len(page.keys), 3):
                yield ObjectPage(*(column[n : n + 3] for column in page))  # type: ignore[arg-type]


def test_many_folders_are_listed_at_once_and_no_object_is_lost(
    source: Source, cloud: Cloud, s3_faults: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"in/day={day:02}/hour={hour}/{n}.csv" for day in range(5) for hour in range(3) for n in range(4)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(source.put, [*keys, "in/flat.csv", "in/day=9.csv", "in-not/x.csv"]))
    for name, value in cloud.environ().items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(lister, "MANY", 6)
    storage = SmallPages(AwsOptions(endpoint_url=s3_faults.url))
    found = [o.url.key for o in list_objects(storage, [Url("s3", source.bucket, "in/**/*.csv")])]
    assert sorted(found) == sorted([*keys, "in/flat.csv", "in/day=9.csv"])
    paths = [r["path"] for r in s3_faults.requests("GET")]
    assert sum("prefix=in%2Fday%3D03%2F" in p for p in paths) >= 1


# Dates in paths ------------------------------------------------------------------------------------------------------


def test_only_the_folders_of_the_dates_are_listed(source: Source, s3_faults: FaultProxy) -> None:
    for day in range(1, 6):
        source.put(f"logs/2024/05/0{day}/a.csv", day)
        source.put(f"logs/2024/05/0{day}/deep/b.csv", 10 * day)
    path = "logs/{date:%Y/%m/%d}/**/*.csv"
    env = {"AWS_ENDPOINT_URL": s3_faults.url}
    ran = source.run(path, start_date="2024-05-02", end_date="2024-05-04", env=env)
    assert ids(ran) == [2, 3, 20, 30]
    listings = [r["path"] for r in s3_faults.requests("GET") if "prefix=logs" in r["path"]]
    assert listings
    assert all("2024%2F05%2F02" in p or "2024%2F05%2F03" in p for p in listings)
    rest = source.run(path, start_date="2024-05-04", plan_root=f"s3://{source.bucket}/other", end_date="2024-05-10")
    assert ids(rest) == [4, 5, 40, 50]
    assert ids(source.run(path, plan_root=f"s3://{source.bucket}/all")) == [1, 2, 3, 4, 5, 10, 20, 30, 40, 50]
    rows = source.run(path, start_date="2024-05-02", end_date="2024-05-04", plan=True).check().stdout.splitlines()
    assert rows[1].split()[1] == "4"


def test_a_date_without_objects_is_no_error(source: Source) -> None:
    source.put("logs/2024/05/01/a.csv", 1)
    ran = source.run("logs/{date:%Y/%m/%d}/*", start_date="2023-01-01", end_date="2023-01-03")
    assert ids(ran) == []
    (line,) = [line for line in ran.stderr.splitlines() if "no object matches" in line]
    assert "WARNING" in line
    assert "with a date from 2023-01-01 to before 2023-01-03 (UTC). The last path tried was s3://" in line
    assert "logs/2023/01/02/*; check start_date, end_date and the path" in line


def test_a_plan_for_other_dates_is_dropped(source: Source) -> None:
    for day in (1, 2):
        source.put(f"logs/2024-05-0{day}.csv", day)
    path = "logs/{date:%Y-%m-%d}.csv"
    assert ids(source.run(path, start_date="2024-05-01", end_date="2024-05-02")) == [1]
    assert ids(source.run(path, start_date="2024-05-02", end_date="2024-05-03")) == [2]


@pytest.mark.parametrize(
    ("path", "more", "words"),
    [
        ("l/{date:%d}/*", {}, "Setting 'streams[0].path': s3://"),
        (
            "l/{date:%Y/%m/%d}/*",
            {"start_date": "2024-05-01T10:00:00Z"},
            "Setting 'start_date': 2024-05-01T10:00:00+00:00",
        ),
    ],
)
def test_invalid_dates_are_an_error(path: str, more: dict[str, Any], words: str, source: Source) -> None:
    ran = source.run(path, **more)
    assert ran.code == 1
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr
