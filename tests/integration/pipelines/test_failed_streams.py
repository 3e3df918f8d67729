"""A stream that fails: the others are read and loaded, and the reports show each stream with its own result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from forked_programs import ForkedPrograms
from program_errors import error_of
from run_reports import reports
from tap_source import Source, state_of
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Ran


class Streams:
    """Three streams `a`, `b` and `c` of CSV objects, read by the tap."""

    def __init__(self, s3: Any, bucket: str, cloud: Cloud, folder: Path) -> None:
        self.programs = ForkedPrograms(cloud.environ(), folder)
        self.source, self.bucket, self.folder = Source(s3, bucket, self.programs), bucket, folder
        self.reports = folder / "reports"
        self.environ: dict[str, str] = {}

    def put(self, name: str, number: int, value: object) -> None:
        self.source.put(f"{name}/{number}.csv", f"id\n{value}\n")

    def config(self, *, batches: bool = True, typed: bool = True, **more: Any) -> dict[str, Any]:
        types = {"schema": {"id": "integer"}} if typed else {}
        streams = [{"name": n, "path": f"s3://{self.bucket}/{n}/*.csv", **types} for n in "abc"]
        files = {"batch_config": self.source.batches(0.000001)} if batches else {}
        return {"streams": streams, "report": str(self.reports), **files, **more}

    def run(self, state: Any = None, catalog: Any = None, **settings: Any) -> Ran:
        given = {name: value for name, value in (("state", state), ("catalog", catalog)) if value}
        return self.programs("tap-s3-files", config=self.config(**settings), env=self.environ, **given)

    def catalog(self) -> Any:
        return json.loads(self.programs("tap-s3-files", config=self.config(), discover=True).check().stdout)

    def ids(self, ran: Ran) -> dict[str, list[int]]:
        return {name: [row["id"] for row in self.source.rows(ran, name)] for name in "abc"}

    def results(self, program: str = "tap-s3-files") -> tuple[str, dict[str, str]]:
        (report,) = reports(self.reports, program)
        return report["run"]["status"], {s["stream"]: s["status"] for s in report["streams"]}


@pytest.fixture
def streams(s3: Any, bucket: str, cloud: Cloud, tmp_path: Path) -> Streams:
    made = Streams(s3, bucket, cloud, tmp_path)
    for number, name in enumerate("abc", 1):
        made.put(name, 1, number)
    return made


@pytest.mark.parametrize("batches", [True, False], ids=["BATCH", "RECORD"])
def test_the_streams_after_it_are_read(batches: bool, streams: Streams) -> None:
    streams.put("b", 2, "no number")
    ran = streams.run(batches=batches)
    assert "b/2.csv, line 2" in error_of(ran)
    assert "Stream 'b' failed, and the run continues with the other streams: " in ran.stderr
    assert streams.ids(ran) == {"a": [1], "b": [2], "c": [3]}
    assert [m["end_of_stream"] for m in ran.of_type("STATE") if "end_of_stream" in m] == ["a", "c"]
    assert streams.results() == ("failed", {"a": "succeeded", "b": "failed", "c": "succeeded"})
    (report,) = reports(streams.reports)
    assert [bool(s["error"]) for s in report["streams"]] == [False, True, False]

    streams.put("b", 2, 22)
    again = streams.run(state_of(ran), batches=batches).check()
    assert streams.ids(again)["b"][-1] == 22
    assert streams.ids(again)["c"] == []


@pytest.mark.parametrize("typed", [True, False], ids=["in the run", "in discovery"])
def test_streams_without_an_object(typed: bool, streams: Streams) -> None:
    for name in "ab":
        streams.source.s3.delete_object(Bucket=streams.bucket, Key=f"{name}/1.csv")
    ran = streams.run(typed=typed)
    assert error_of(ran) == "2 of 3 streams failed: 'a', 'b'; the log has the reason of each"
    assert ran.stderr.count("no object matches") == 2
    assert streams.ids(ran)["c"] == [3]
    assert streams.results()[1] == {"a": "failed", "b": "failed", "c": "succeeded"}
    assert "no object matches" in error_of(streams.programs("tap-s3-files", config=streams.config(), discover=True))


def test_streams_that_are_left_out_count_too(streams: Streams) -> None:
    for name in "ab":
        streams.source.s3.delete_object(Bucket=streams.bucket, Key=f"{name}/1.csv")
    streams.source.put("c/1.csv", "")
    ran = streams.run(typed=False)
    assert error_of(ran) == "2 of 3 streams failed: 'a', 'b'; the log has the reason of each"
    assert "Stream 'c' is left out of this run: all its objects are empty" in ran.stderr


@pytest.mark.parametrize(
    ("status", "code", "read"),
    [(403, "AccessDenied", "c"), (403, "InvalidAccessKeyId", ""), (400, "ExpiredToken", "")],
)
def test_what_ends_the_run(status: int, code: str, read: str, streams: Streams, cloud: Cloud) -> None:
    catalog, proxy = streams.catalog(), cloud.fault_proxy(cloud.s3_url)
    proxy.set({"match": "GET /[^?]*b/1.csv", "action": "error", "status": status, "code": code})
    streams.environ = {"AWS_ENDPOINT_URL": proxy.url}
    ran = streams.run(catalog=catalog)
    assert code in error_of(ran)
    assert streams.ids(ran) == {"a": [1], "b": [], "c": [3] if read else []}
    assert streams.results()[1] == {"a": "succeeded", "b": "failed", "c": "succeeded" if read else "not-started"}


def test_a_service_that_fails_a_second_stream_ends_the_run(streams: Streams, cloud: Cloud) -> None:
    catalog, proxy = streams.catalog(), cloud.fault_proxy(cloud.s3_url)
    proxy.set({"match": "GET /[^?]*[ab]/1.csv", "action": "error", "status": 501, "code": "NotImplemented"})
    streams.environ = {"AWS_ENDPOINT_URL": proxy.url}
    ran = streams.run(catalog=catalog)
    assert "b/1.csv" in error_of(ran)
    assert streams.results()[1] == {"a": "failed", "b": "failed", "c": "not-started"}


@pytest.mark.parametrize("method", ["append-only", "overwrite"])
def test_tables_and_the_report_of_the_target(method: str, streams: Streams, warehouse: Warehouse) -> None:
    streams.put("b", 2, "no number")
    sent = streams.run()
    config = warehouse.config | {"load_method": method, "report": str(streams.reports)}
    ran = streams.programs(warehouse.program, stdin=sent.stdout, config=config)
    assert ran.code == (method == "overwrite"), ran.stderr
    assert [row["id"] for name in "ac" for row in warehouse.table(name)] == [1, 3]
    status = "failed" if method == "overwrite" else "incomplete"
    assert streams.results(warehouse.program) == (status, {"a": "succeeded", "b": status, "c": "succeeded"})
    passed = [json.loads(line) for line in ran.stdout.splitlines()]
    assert bool(passed[-1]["bookmarks"]["c"]["key"]) == (method == "append-only")
