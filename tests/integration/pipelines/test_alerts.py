"""What `singer-arrow run` leaves for people and programs: one page of a run, messages, metrics."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked_programs import forked_executables
from http_receiver import Receiver, receiver
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from run_reports import count, reports
from running import family_of, linux, running
from waiting import wait_until
from warehouses import Warehouse

import singer_arrow
from local_cloud import Cloud
from singer_arrow.errors import ConfigError
from singer_arrow.monitoring.alerts import COMPLETE, LAG, METRICS, SUCCESS

pytestmark = pytest.mark.warehouses("redshift")  # it is about what is before the warehouse

SECRET = "very-secret-password"
COLD = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
"""Where the executables themselves are."""
Write = Callable[..., Path]


@pytest.fixture
def http() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@pytest.fixture
def write(warehouse: Warehouse, tmp_path: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a pipeline of the CSV files in `in`, and returns its path; the environment is that of the local cloud."""
    for name, value in cloud.environ().items():
        if name != "TARGET_BIGQUERY_DATASET":
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{forked_executables()}:{COLD}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()

    def make(**more: Any) -> Path:
        stream = {"name": "rows", "path": f"{tmp_path}/in/*.csv", "on_bad_row": "skip", "schema": {"id": "integer"}}
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"file://{tmp_path}/batches"}}
        described = {
            "tap": {"name": "tap-s3-files", "config": {"streams": [stream], "batch_config": batches}},
            "target": {"name": f"target-{warehouse.name}", "config": warehouse.config},
        }
        path = tmp_path / "orders.yml"
        path.write_text(yaml.safe_dump(described | more))
        return path

    return make


def put(name: str, text: str) -> None:
    (Path("in") / name).write_text(text)


def test_a_run_is_one_page_and_one_entry_of_the_history(write: Write, warehouse: Warehouse, tmp_path: Path) -> None:
    path = write(report="reports")
    put("a.csv", "id,name\n1,a\n2,b\n")
    singer_arrow.run(path)
    put("b.csv", "id,name\n3,c\n")
    described = yaml.safe_load(path.read_text())
    described["tap"]["config"]["streams"][0] |= {"on_bad_row": "fail"}
    put("c.csv", "id,name\nx,c\n")
    path.write_text(yaml.safe_dump(described))
    with pytest.raises(singer_arrow.PipelineError) as caught:
        singer_arrow.run(path)

    folder = tmp_path / "reports"
    both = {name: reports(folder, name) for name in ("tap-s3-files", warehouse.program)}
    ends = [[report["pipeline"] for report in found] for found in both.values()]
    assert ends[0] == ends[1]
    assert [(end["name"], end["status"], end["exit_code"]) for end in ends[0]] == [
        ("orders", "succeeded", 0),
        ("orders", "failed", 1),
    ]
    assert ends[0][1]["error"] == {"type": "PipelineError", "message": str(caught.value), "code": "bad-row"}
    pages = [(folder / f"{end['run']}.html").read_text() for end in ends[0]]
    for page in pages:
        assert [name in page for name in both] == [True, True]
    assert ("c.csv" in pages[0], pages[1].count('class="error"')) == (False, 1)
    assert "x" in pages[1]
    tap = {"streams": [{"name": "rows", "path": f"{tmp_path}/in/a.csv"}], "report": "reports"}
    (tmp_path / "tap.json").write_text(json.dumps(tap))
    subprocess.run(["tap-s3-files", "--config", "tap.json"], check=True, capture_output=True)
    subprocess.run(["singer-arrow", "report", "reports"], check=True, capture_output=True)
    index = (folder / "index.html").read_text()
    assert "3 runs" in index
    assert re.findall(r"\d of \d", index) == ["1 of 2", "1 of 1"]
    assert re.findall("<h2>(.*?)</h2>", index) == ["orders", "tap-s3-files", "All runs"]
    linked = re.findall('href="(.*?)"', index)[1:]
    assert len(linked) == len(list(folder.glob("*.html"))) - 1 == 3
    assert all((folder / name).exists() for name in linked)
    assert count(both[warehouse.program][0], "rows_written") == 2


def messages(http: Receiver) -> list[tuple[str, str, str]]:
    found = [json.loads(request.body) for request in http.take()]
    return [(message["type"], message["title"], message["message"]) for message in found]


def test_messages_are_about_what_a_run_met(
    write: Write,
    http: Receiver,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    url = f"json://someone:{SECRET}@127.0.0.1:{http.port}/path-{SECRET}"
    kinds = ["failure", "drift", "bad_rows", "late"]
    path = write(notify={"url": "${ALERT_URL}", "on": kinds, "late_after": "1h"})
    (tmp_path / ".env").write_text(f"ALERT_URL={url}\n")
    put("a.csv", "id,name\n1,a\n")
    singer_arrow.run(path)
    assert messages(http) == [], "nothing to report"
    put("b.csv", "id,name,more,text\n2,b,5,x\nx,c,6,x\n")
    singer_arrow.run(path)
    title = "Pipeline 'orders' succeeded"
    assert messages(http) == [
        ("warning", title, "bad_rows of stream rows: 1 skipped\ndrift of stream rows: 2 columns added or widened")
    ]

    # late, and the default alone
    described = yaml.safe_load(path.read_text()) | {"notify": {"url": [url], "on": ["late"], "late_after": "0s"}}
    singer_arrow.run(described | {"name": "now", "state": str(tmp_path / "orders.state.json")})
    ((kind, title, text),) = messages(http)
    assert (kind, title) == ("warning", "Pipeline 'now' succeeded")
    assert re.fullmatch(r"late of stream rows: [\d.]+ m?s behind its source", text)
    described["tap"]["config"]["streams"][0] |= {"on_bad_row": "fail"}
    described["notify"] = {"url": url}
    put("c.csv", "id,name\nx,c\n")
    with pytest.raises(singer_arrow.PipelineError) as caught:
        singer_arrow.run(described)
    assert messages(http) == [
        ("failure", "Pipeline 'pipeline' failed", f"failure: exit code 1, {caught.value} [bad-row]")
    ]

    # a message that is refused is a warning
    http.status = 401
    (tmp_path / "in" / "c.csv").unlink()
    (tmp_path / "in" / "b.csv").unlink()
    singer_arrow.run(described | {"notify": {"url": url, "on": ["late"], "late_after": "0s"}})
    assert len(http.take()) == 1
    log = "".join(capfd.readouterr()) + caplog.text
    assert "No notification could be sent by json: " in log
    assert "401" in log
    assert SECRET not in log


def test_failures_in_a_row_are_reported_when_they_begin_and_when_they_have_ended(
    write: Write, http: Receiver, tmp_path: Path
) -> None:
    path = write(notify={"url": f"json://127.0.0.1:{http.port}"})
    command = ["singer-arrow", "run", str(path), "--every", "1s", "--health", "health.json"]
    http.status = 503
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:

        def ended(failures: range) -> bool:
            file = tmp_path / "health.json"
            return file.exists() and json.loads(file.read_text())["failures"] in failures

        try:
            assert wait_until(lambda: bool(http.requests), seconds=120)
            http.status = 200
            http.take()  # what is refused is sent again
            assert wait_until(lambda: bool(http.requests) and ended(range(3, 9)), seconds=120)
            put("a.csv", "id,name\n1,a\n")
            assert wait_until(lambda: ended(range(1)), seconds=120)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    begun, over = messages(http)
    assert begun[:2] == ("failure", "Pipeline 'orders' failed")
    assert "no object matches" in begun[2]
    assert over == ("warning", "Pipeline 'orders' succeeded", "failure: it has ended")


def of_text(text: str) -> dict[tuple[str, str], float]:
    """Return the values of Prometheus' text by name and stream."""
    families = list(text_string_to_metric_families(text))
    assert {family.type for family in families} == {"gauge"}
    found = {(s.name, s.labels.get("stream", "")): s.value for family in families for s in family.samples}
    assert {s.labels["pipeline"] for family in families for s in family.samples} == {"orders"}
    return found


def exposed(text: str) -> str:
    """Return what a Pushgateway shows that has pushed metrics, the same of a stream `other`, and another pipeline's."""
    lines = list[str]()
    for line in text.splitlines():
        more = [line.replace('"rows"', '"other"'), line.replace('"orders"', '"others"')] if line[0] != "#" else []
        own = [one.replace("{", '{instance="",job="singer-arrow",') for one in dict.fromkeys([line, *more])]
        lines += own if more else [line]
    lines += ["# TYPE push_time_seconds gauge", 'push_time_seconds{job="singer-arrow",pipeline="orders"} 1.8e+09', ""]
    return "\n".join(lines)


def of_otlp(body: bytes) -> dict[tuple[str, str], float]:
    with suppress(gzip.BadGzipFile):
        body = gzip.decompress(body)
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    assert {"service.name": "singer-arrow"}.items() <= {
        a.key: a.value.string_value for a in resource.resource.attributes
    }.items()
    found = {}
    for metric in resource.scope_metrics[0].metrics:
        for point in metric.gauge.data_points:
            labels = {a.key: a.value.string_value for a in point.attributes}
            assert labels["pipeline"] == "orders"
            found[metric.name, labels.get("stream", "")] = point.as_double or float(point.as_int)
    return found


def test_metrics_are_written_and_pushed(
    write: Write,
    warehouse: Warehouse,
    http: Receiver,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = f"http://127.0.0.1:{http.port}"
    gateway = f"http://someone:{SECRET}@{place[7:]}"
    path = write(metrics={"textfile": "orders.prom", "pushgateway": gateway, "otlp": f"{place}/path-{SECRET}"})
    put("a.csv", "id,name\n1,a\n2,b\nx,c\n")
    singer_arrow.run(path)
    written = of_text((tmp_path / "orders.prom").read_text())
    assert {name for name, _ in written} == set(METRICS)
    assert written["singer_run_rows", "rows"] == len(warehouse.table("rows")) == 2
    assert written["singer_run_skipped_rows", "rows"] == 1
    assert written["singer_run_exit_code", ""] == written["singer_left_objects", "rows"] == 0
    assert written["singer_lag_seconds", "rows"] < 60
    pushed, exported = http.take()
    assert (pushed.method, pushed.path) == ("PUT", "/metrics/job/singer-arrow/pipeline/orders")
    assert of_text(pushed.body.decode()) == written
    assert pushed.authorization == "Basic " + b64encode(f"someone:{SECRET}".encode()).decode()
    assert exported.path == f"/path-{SECRET}/v1/metrics"
    assert of_otlp(exported.body) == pytest.approx(written)
    assert [file.name for file in tmp_path.glob("*.prom*")] == ["orders.prom"]

    # after a failure, what is not known of this run stays, also of another stream, on the gateway as it has it
    http.text = exposed(pushed.body.decode())
    described = yaml.safe_load(path.read_text())
    described["tap"]["config"]["streams"][0] |= {"on_bad_row": "fail"}
    path.write_text(yaml.safe_dump(described))
    put("b.csv", "id,name\nx,c\n")
    with pytest.raises(singer_arrow.PipelineError):
        singer_arrow.run(path)
    failed = of_text((tmp_path / "orders.prom").read_text())
    assert failed["singer_run_exit_code", ""] == 1
    assert failed[SUCCESS, ""] == written[SUCCESS, ""] < failed["singer_run_timestamp_seconds", ""]
    other = {(name, "other"): value for (name, stream), value in written.items() if stream == "rows"}
    asked, pushed, exported = http.take()
    assert (asked.method, asked.path, asked.authorization) == ("GET", "/metrics", pushed.authorization)
    assert of_text(pushed.body.decode()) == failed | other

    # a part of the streams
    (tmp_path / "in" / "b.csv").unlink()
    singer_arrow.run(path, only=["rows"])
    partial = of_text((tmp_path / "orders.prom").read_text())
    assert (partial["singer_run_exit_code", ""], partial[SUCCESS, ""]) == (0, written[SUCCESS, ""])
    assert of_text(http.take()[1].body.decode()) == partial | other

    # a whole run has its own alone
    singer_arrow.run(path)
    assert of_text(http.take()[0].body.decode()) == of_text((tmp_path / "orders.prom").read_text())

    # what cannot be written is a warning
    http.status = 400
    described["metrics"]["textfile"] = "missing/orders.prom"
    path.write_text(yaml.safe_dump(described))
    singer_arrow.run(path)
    log = "".join(capfd.readouterr()) + caplog.text
    for name in described["metrics"]:
        assert f"The metrics of this run could not be written, metrics.{name}: " in log
    assert re.search(r"metrics\.otlp: .*\b400\b", log)
    assert SECRET not in log


@pytest.mark.parametrize("end", ["exit 0", "exit 1", "kill -9 $$"])
def test_what_a_target_without_reports_did_not_load_is_not_counted(end: str, write: Write, tmp_path: Path) -> None:
    target = tmp_path / "target-other"
    target.write_text(f"#!/bin/sh\ncat > /dev/null\n{end}\n")
    target.chmod(0o755)
    path = write(target={"name": str(target)}, metrics={"textfile": "orders.prom"})
    put("a.csv", "id,name\n1,a\n2,b\n")
    with nullcontext() if end == "exit 0" else pytest.raises(singer_arrow.PipelineError):
        singer_arrow.run(path)
    found = of_text((tmp_path / "orders.prom").read_text())
    assert found["singer_run_rows", "rows"] == (2 if end == "exit 0" else 0)
    assert [(name, "rows") in found for name in (LAG, COMPLETE)] == [end == "exit 0"] * 2


@pytest.mark.parametrize(
    ("module", "settings", "extra"),
    [
        ("apprise", {"notify": {"url": f"json://{SECRET}"}}, "notify"),
        ("prometheus_client", {"metrics": {"textfile": "a.prom"}}, "prometheus"),
        ("opentelemetry", {"metrics": {"otlp": "http://localhost:1"}}, "opentelemetry"),
    ],
)
def test_a_missing_library_is_named_before_the_run(
    module: str, settings: dict[str, Any], extra: str, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "missing").mkdir()
    (tmp_path / "missing" / f"{module}.py").write_text(f"raise ImportError('no {module}')\n")
    path = write(**settings)
    monkeypatch.setenv("PATH", COLD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "missing"))
    ran = subprocess.run(["singer-arrow", "run", str(path)], capture_output=True, check=False)
    (line,) = ran.stderr.decode().splitlines()
    assert f"needs a library: install singer-arrow[{extra}]" in line
    assert (ran.returncode, SECRET in line) == (1, False)


def test_wrong_settings_are_one_line_without_their_secrets(write: Write) -> None:
    for settings, words in (
        ({"url": f"nowhere://{SECRET}"}, "Setting 'notify.url': URL 1 is none of Apprise"),
        ({"url": ["json://localhost", f"http:{SECRET}"]}, "Setting 'notify.url': URL 2 is none of Apprise"),
        ({"url": 7}, "Setting 'notify.url' must be text or a list, it is an integer"),
        ({"url": f"json://{SECRET}", "on": ["sometimes"]}, "Setting 'notify.on[0]' is 'sometimes', it must be one of"),
        ({"url": f"json://{SECRET}", "late_after": "soon"}, "Setting 'notify.late_after' is not valid"),
        ({"on": ["failure"]}, "Setting 'notify' lacks 'url'"),
    ):
        with pytest.raises(ConfigError) as caught:
            singer_arrow.run(write(notify=settings))
        assert words in str(caught.value)
        assert SECRET not in str(caught.value)


@linux
def test_a_side_that_is_killed_is_a_part_of_the_page(
    write: Write, s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(report=f"s3://{bucket}/reports")
    monkeypatch.setenv("PATH", COLD)
    described = yaml.safe_load(path.read_text())
    described["tap"]["config"]["batch_config"]["target_file_mb"] = 0.01  # so that the tap takes its time
    path.write_text(yaml.safe_dump(described))
    for number in range(20):
        put(f"{number:03}.csv", "id,name\n" + "".join(f"{n},name {n}\n" for n in range(100_000)))
    with subprocess.Popen(["singer-arrow", "run", str(path)], stderr=subprocess.PIPE) as process:

        def reported() -> bool:
            return s3.list_objects_v2(Bucket=bucket, Prefix="reports/")["KeyCount"] > 1  # of tap and target

        def tap() -> int | None:
            known = running()
            family = family_of(process.pid) - {process.pid}
            return next((pid for pid in family if "tap-s3-files" in known.get(pid, (0, ""))[1]), None)

        assert wait_until(reported, seconds=120)
        victim = tap()
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        log = process.communicate(timeout=120)[1].decode()
    assert process.returncode != 0, log
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket, Prefix="reports/")["Contents"]]
    (page,) = [key for key in keys if key.endswith(".html")]
    text = s3.get_object(Bucket=bucket, Key=page)["Body"].read().decode()
    assert text.count('class="status killed"') == 1
    assert "tap-s3-files ended with exit code -9" in text
    assert len(keys) == 3
