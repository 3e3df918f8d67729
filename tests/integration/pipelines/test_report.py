"""Reports of good, failed and killed runs: their figures equal what the warehouse counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from forked_programs import ForkedPrograms
from local_settings import ONE_EACH
from run_reports import count, reports
from singer_lines import Batches, Message, rows, some_batches
from tap_source import Source, moment, state_of
from waiting import wait_until
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Programs, Ran


class Target:
    """The target as a process, which writes its reports into a folder."""

    def __init__(self, warehouse: Warehouse, programs: Programs, folder: Path) -> None:
        self.warehouse, self.programs, self.folder = warehouse, programs, folder

    def config(self, **settings: Any) -> dict[str, Any]:
        return self.warehouse.config | {"report": str(self.folder)} | settings

    def run(self, messages: list[Message], **settings: Any) -> Ran:
        lines = "".join(json.dumps(message) + "\n" for message in messages)
        return self.programs(self.warehouse.program, stdin=lines, config=self.config(**settings))

    def counted(self) -> int:
        """Return how many rows the warehouse has."""
        found: int = self.warehouse.one("SELECT COUNT(*) AS n FROM {rows}")[0]
        return found

    def reports(self) -> list[dict[str, Any]]:
        return reports(self.folder, self.warehouse.program)


@pytest.fixture
def target(warehouse: Warehouse, cloud: Cloud, tmp_path: Path) -> Target:
    env = {name: text for name, text in cloud.environ().items() if not name.startswith("TARGET_")}
    return Target(warehouse, ForkedPrograms(env, tmp_path), tmp_path / "reports")


@pytest.fixture
def source(s3: Any, bucket: str, cloud: Cloud, tmp_path: Path) -> Source:
    return Source(s3, bucket, ForkedPrograms(cloud.environ(), tmp_path))


def test_a_good_run(target: Target, batch: Batches) -> None:
    target.run(some_batches(batch, 6)).check()
    (report,) = target.reports()
    assert (count(report, "rows_written"), count(report, "batches")) == (target.counted(), 6) == (12, 6)
    assert (report["run"]["status"], report["streams"][0]["status"]) == ("succeeded", "succeeded")
    assert report["streams"][0]["table"].endswith("rows")
    assert report["run"]["connector_version"][0].isdigit()
    assert {"prepare", "stage", "publish"} <= report["streams"][0]["seconds_by_phase"].keys()
    assert (report["bytes_billed"] is None) == (target.warehouse.name == "redshift")
    assert [file.suffix for file in sorted(target.folder.iterdir())] == [".html", ".json"]
    target.run([*some_batches(batch, 6), batch(rows(100, 5), batch_id="new")], max_parallel_loads=2).check()
    _, second = target.reports()
    assert count(second, "rows_written") + count(second, "rows_loaded_before") == target.counted() == 17
    changed = {"setting": "max_parallel_loads", "before": None, "after": 2}
    assert changed in second["settings_changed"]
    assert second["previous_run"] == report["run"]["id"]


def test_a_failed_run(target: Target, batch: Batches) -> None:
    messages = some_batches(batch, 4)
    bad = batch(rows(100, 5), batch_id="bad") | {"row_count": 7}
    ran = target.run([*messages, bad], **ONE_EACH)
    assert ran.code == 1
    (report,) = target.reports()
    assert count(report, "rows_written") == target.counted()
    assert (report["run"]["status"], report["error"]["type"]) == ("failed", "DataError")
    assert report["error"]["message"] in ran.stderr
    assert "its files have 5" in next(target.folder.glob("*.html")).read_text()


def test_a_killed_run_and_the_next(target: Target, batch: Batches) -> None:
    messages = some_batches(batch, 6)
    victim = target.programs.start(target.warehouse.program, config=target.config(**ONE_EACH))
    assert victim.stdin is not None
    try:
        victim.stdin.write("".join(json.dumps(message) + "\n" for message in messages).encode())
        victim.stdin.flush()
        wait_until(lambda: [r for r in target.reports() if count(r, "rows_written") == 12])
    finally:
        victim.kill()
        victim.communicate()
    (killed,) = target.reports()
    assert (killed["run"]["status"], killed["run"]["ended_at"]) == ("running", None)
    assert count(killed, "rows_written") == target.counted()
    target.run([*messages, batch(rows(100, 5), batch_id="new")]).check()
    _, report = target.reports()
    assert count(report, "rows_written") == 5
    assert count(report, "rows_written") + count(report, "rows_loaded_before") == target.counted()


def test_an_interrupted_run(target: Target, batch: Batches) -> None:
    victim = target.programs.start(target.warehouse.program, config=target.config(**ONE_EACH))
    assert victim.stdin is not None
    victim.stdin.write("".join(json.dumps(message) + "\n" for message in some_batches(batch, 3)).encode())
    victim.stdin.flush()
    wait_until(lambda: [r for r in target.reports() if count(r, "batches")])
    victim.terminate()
    victim.communicate()
    (report,) = target.reports()
    assert (report["run"]["status"], report["run"]["exit_code"], victim.returncode) == ("interrupted", 143, 143)
    assert count(report, "rows_written") == target.counted()


def test_both_connectors_and_all_runs_in_one_bucket(target: Target, source: Source, tmp_path: Path) -> None:
    source.csv("in/a.csv", 0)
    source.csv("in/b.csv", 10)
    where = f"s3://{source.bucket}/reports"
    secrets = {"access_key_id": "test-key-id", "secret_access_key": "test-secret-key"}
    tap = source.run(source.config(batch_config=source.batches(), report=where))
    target.run(tap.messages, report=where).check()
    source.s3.put_object(Bucket=source.bucket, Key="in/c.csv", Body=b"id\n1,2\n")
    failed = source.tap("tap-s3-files", config=source.config(batch_config=source.batches(), report=where, aws=secrets))
    assert failed.code == 1
    shown = target.programs("singer-arrow", "report", where).check()
    assert shown.stdout.strip() == f"{where}/index.html"
    keys = [o["Key"] for o in source.s3.list_objects_v2(Bucket=source.bucket, Prefix="reports/")["Contents"]]
    copies = tmp_path / "copies"
    copies.mkdir()
    for key in keys:
        source.s3.download_file(source.bucket, key, str(copies / key.rpartition("/")[2]))
    good, bad = reports(copies, "tap-s3-files")
    (loaded,) = reports(copies, target.warehouse.program)
    written = [count(report, "rows_written") for report in (good, loaded)]
    assert written == [target.counted()] * 2 == [20, 20]
    assert (count(good, "objects"), len(good["streams"][0]["inputs"])) == (2, 2)
    assert good["streams"][0]["watermark"][:19] == loaded["streams"][0]["watermark"][:19]
    assert (bad["run"]["status"], bad["settings"]["aws.secret_access_key"]) == ("failed", "***")
    assert len(keys) == 7
    assert not [file for file in copies.iterdir() if "test-secret-key" in file.read_text()]
    index = re.sub(r"<[^>]+>|\s+", " ", (copies / "index.html").read_text())
    assert re.search(r"\b1 of 2 +runs of +tap-s3-files", index)
    assert re.search(rf"\b1 of 1 +runs of +{target.warehouse.program}", index)


def test_the_lag_is_that_of_the_listing_once_a_stream_is_complete(target: Target, source: Source) -> None:
    """Also with nothing new, and of full tables; before that it is the age of the newest object, here of 2024."""

    def lags(tap: Ran, messages: list[Message]) -> tuple[bool, bool]:
        """Return whether the lags of the tap and of the target are below two minutes."""
        assert target.run(messages).code == 0
        found = [reports(target.folder, name)[-1]["streams"][0] for name in ("tap-s3-files", target.warehouse.program)]
        for stream in found:
            assert (stream["complete_until"] is not None) == (stream["status"] == "succeeded")
            assert set(stream["left"].values()) == {0}
        return found[0]["lag_seconds"] < 120, found[1]["lag_seconds"] < 120

    source.csv("in/a.csv", 0, at=moment(0))
    options = {"batch_config": source.batches(), "report": str(target.folder)}
    config = source.config(**options)
    first = source.run(config)
    cut = [m for m in first.messages if not (m["type"] == "STATE" and "end_of_stream" in m)]
    assert lags(first, cut) == (True, False)
    assert lags(first, first.messages) == (True, True)
    second = source.run(config, state=state_of(first))
    assert not second.of_type("BATCH")
    assert lags(second, second.messages) == (True, True)
    whole = source.run(source.config(**options, stream={"replication_method": "FULL_TABLE"}))
    assert lags(whole, whole.messages) == (True, True)
    past = source.run(source.config(**options, end_date="2024-06-01"))
    assert lags(past, past.messages) == (False, True)
    assert reports(target.folder, "tap-s3-files")[-1]["streams"][0]["complete_until"] == "2024-06-01T00:00:00.000Z"


def test_lineage_leads_from_the_objects_to_the_table(target: Target, source: Source, tmp_path: Path) -> None:
    source.csv("in/a.csv", 0)
    source.csv("in/b.csv", 10)
    events = {"openlineage": {"url": str(tmp_path / "events.jsonl"), "namespace": "shop"}}
    tap = source.run(source.config(batch_config=source.batches(), **events))
    target.run(tap.messages, **events).check()
    sent = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["eventType"] for event in sent] == ["START", "COMPLETE"] * 2
    _, of_tap, _, of_target = sent
    bucket = f"s3://{source.bucket}"
    assert of_tap["inputs"] == [{"namespace": bucket, "name": f"in/{name}.csv"} for name in "ab"]
    (batches,), (table,) = of_tap["outputs"], of_target["outputs"]
    assert of_target["inputs"] == [{"namespace": bucket, "name": "stage/rows"}]
    assert (batches["namespace"], batches["name"]) == (bucket, "stage/rows")
    is_bigquery = target.warehouse.name == "bigquery"
    assert table["namespace"].startswith("bigquery" if is_bigquery else "redshift://")
    assert table["name"].endswith(f".{target.warehouse.schema}.rows")
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == target.counted() == 20


def test_a_report_that_cannot_be_written_does_not_end_the_run(target: Target, batch: Batches, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = target.run(some_batches(batch, 2), report=str(tmp_path / "file" / "reports")).check()
    assert "The report of this run could not be written" in ran.stderr
    assert target.counted() == 4
