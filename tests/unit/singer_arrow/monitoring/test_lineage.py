"""Events of OpenLineage: what the specification demands, names of datasets, and where events go."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from run_reports import BEGIN

from singer_arrow.errors import ConfigError
from singer_arrow.monitoring import report
from singer_arrow.monitoring.monitor import RunMonitor
from singer_arrow.monitoring.report import LineageEndpoint, RunIdentity, RunOutcome, dataset_of, make_event
from singer_arrow.run_figures import RunFigures, StreamFigures

SCHEMA = json.loads((Path(__file__).parents[3] / "support" / "openlineage.schema.json").read_text())
RUN = RunIdentity(connector="tap-x", version="1.2", host="machine", started_at=BEGIN)
TAP = StreamFigures(
    stream="orders",
    counts={"rows_written": 12, "bytes": 99},
    inputs=("s3://shop/a.csv", "s3://shop/b.csv"),
    outputs=("s3://stage/batches",),
)
TARGET = StreamFigures(
    stream="orders",
    counts={"rows": 12, "bytes": 77},
    inputs=("s3://stage/batches",),
    table="p.raw.orders",
    dataset=("bigquery", "p.raw.orders"),
)


def event(outcome: RunOutcome, *streams: StreamFigures) -> dict[str, Any]:
    made = make_event(RUN, outcome, RunFigures(streams=streams), now=BEGIN, namespace="shop", job="nightly")
    Draft202012Validator(SCHEMA, format_checker=FormatChecker()).validate(made)
    return made


def names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(d["namespace"], d["name"]) for d in datasets]


def test_objects_lead_to_the_table_by_way_of_the_batches() -> None:
    done = RunOutcome(status="succeeded", exit_code=0)
    of_tap, of_target = event(done, TAP), event(done, TARGET)
    assert names(of_tap["inputs"]) == [("s3://shop", "a.csv"), ("s3://shop", "b.csv")]
    assert names(of_tap["outputs"]) == names(of_target["inputs"]) == [("s3://stage", "batches/orders")]
    assert names(of_target["outputs"]) == [("bigquery", "p.raw.orders")]
    statistics = of_target["outputs"][0]["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (12, 77)
    assert (of_tap["eventType"], of_tap["job"]["name"]) == ("COMPLETE", "nightly")


@pytest.mark.parametrize(
    ("status", "kind"), [("running", "START"), ("failed", "FAIL"), ("interrupted", "ABORT"), ("succeeded", "COMPLETE")]
)
def test_each_event_has_the_id_of_its_run(status: str, kind: str) -> None:
    error = ("DataError", "a.csv, line 2: bad", "data") if status == "failed" else None
    made = event(RunOutcome(status=status, exit_code=1, error=error), TAP)
    assert made["eventType"] == kind
    assert made["run"]["runId"] == event(RunOutcome())["run"]["runId"]
    facets = made["run"]["facets"]
    assert [f["message"] for f in facets.values()] == (["a.csv, line 2: bad"] if error else [])


@pytest.mark.parametrize(
    ("url", "dataset"),
    [
        ("s3://b/x/y.csv", ("s3://b", "x/y.csv")),
        ("gs://b", ("gs://b", "/")),
        ("/data/a.csv", ("file", "/data/a.csv")),
        ("grpc+tls://host:443/orders", ("grpc+tls://host:443", "orders")),
    ],
)
def test_names_of_datasets(url: str, dataset: tuple[str, str]) -> None:
    assert dataset_of(url) == dataset


def test_a_url_that_is_no_receiver_is_refused() -> None:
    with pytest.raises(ConfigError, match="http or https URL, or a local file"):
        LineageEndpoint.from_config({"openlineage": {"url": "s3://bucket/events"}})
    assert LineageEndpoint.from_config({"openlineage": {"namespace": "x"}}) is None


class Server(HTTPServer):
    """A receiver of events, which answers with a status."""

    status = 201
    elsewhere = ""
    """Where it redirects to."""
    drips: threading.Event | None = None
    """Set once the test has ended; until then the answer comes byte by byte."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[tuple[str | None, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/api/v1/lineage"


class Handler(BaseHTTPRequestHandler):
    """Keeps the events that it gets."""

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Server)
        self.server.received.append((self.headers["Authorization"], json.loads(data)))
        if (ended := self.server.drips) is not None:
            while not ended.wait(0.05):
                self.wfile.write(b"H")
            return
        self.send_response(self.server.status)
        if self.server.elsewhere:
            self.send_header("Location", self.server.elsewhere)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:  # of a redirect that is followed
        assert isinstance(self.server, Server)
        self.server.received.append((self.headers["Authorization"], {}))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.full
def test_a_run_sends_two_events(server: Server) -> None:
    given = {"openlineage": {"url": server.url, "api_key": "key", "namespace": "shop"}}
    with RunMonitor("tap-x", given, {}) as monitor:
        monitor.watch(lambda: RunFigures(streams=(TAP,)))
    assert [(key, e["eventType"]) for key, e in server.received] == [
        ("Bearer key", "START"),
        ("Bearer key", "COMPLETE"),
    ]
    assert len(server.received[1][1]["inputs"]) == 2
    assert {e["job"]["namespace"] for _, e in server.received} == {"shop"}


@pytest.mark.full
def test_a_receiver_that_refuses_is_a_warning(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.status = 500
    with RunMonitor("tap-x", {"openlineage": {"url": server.url}}, {}):
        pass
    assert [r.getMessage() for r in caplog.records] == [
        "No event of OpenLineage could be sent: <HTTPError 500: 'Internal Server Error'>"
    ]


@pytest.mark.full
def test_no_redirect_is_followed(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.status, server.elsewhere = 302, f"{server.url}/elsewhere"
    with RunMonitor("tap-x", {"openlineage": {"url": server.url, "api_key": "key"}}, {}):
        pass
    assert [e["eventType"] for _, e in server.received] == ["START", "COMPLETE"]
    assert ["302" in r.getMessage() for r in caplog.records] == [True]


@pytest.mark.full
def test_an_answer_that_never_ends_is_a_warning(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_SECONDS", 0.5)
    server.drips = threading.Event()
    try:
        with RunMonitor("tap-x", {"openlineage": {"url": server.url}}, {}):
            pass
    finally:
        server.drips.set()
    # Either the time limit of the whole or that of the socket, which has no text, ends it first.
    reason = "No event of OpenLineage could be sent: TimeoutError"
    assert {r.getMessage().partition("(")[0] for r in caplog.records} == {reason}


def test_events_are_appended_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    with pytest.raises(ValueError, match="bad"), RunMonitor("tap-x", {"openlineage": {"url": str(file)}}, {}):
        raise ValueError("bad")
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [e["eventType"] for e in events] == ["START", "FAIL"]
