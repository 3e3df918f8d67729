"""Metrics of a run: their names are those of the page and of the dashboard, their values those of both reports."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from http_receiver import receiver
from run_reports import BEGIN, made

from singer_arrow.monitoring.alerts import (
    COMPLETE,
    LAG,
    METRICS,
    SUCCESS,
    Alerts,
    MetricsSettings,
    NotifySettings,
    metrics_of,
)
from singer_arrow.monitoring.report import FAILED, SUCCEEDED, RunOutcome
from singer_arrow.run_figures import StreamFigures

DOCS = Path(__file__).parents[4] / "docs"


def test_the_dashboard_and_the_page_have_the_names_of_all_metrics() -> None:
    for file in ("alerts.md", "deploy/grafana-dashboard.json"):
        assert set(re.findall(r"\bsinger_[a-z_]+\b", (DOCS / file).read_text())) - {"singer_arrow"} == set(METRICS), (
            file
        )


def test_the_dashboard_can_be_imported() -> None:
    dashboard = json.loads((DOCS / "deploy/grafana-dashboard.json").read_text())
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert '{pipeline=~"$pipeline"' in target["expr"]
    assert {variable["name"] for variable in dashboard["templating"]["list"]} == {"datasource", "pipeline", "stream"}


def test_figures_of_the_target_come_before_those_of_the_tap() -> None:
    counts = {"rows_written": 9, "rows_skipped": 1, "rows_rejected": 2, "bytes": 5}
    until = BEGIN - timedelta(hours=2)
    whole = StreamFigures(
        stream="a", is_complete=True, counts=counts, complete_until=until, left={"objects": 0, "bytes": 0}
    )
    part = StreamFigures(stream="b", counts={}, watermark=until, left={"objects": 3, "bytes": 7})
    _, tap = made(whole, part, connector="tap-x")
    _, target = made(
        StreamFigures(
            stream="a",
            is_complete=True,
            counts={"rows": 8, "rejected": 3, "bytes": 4, "schema_changes": 1},
            complete_until=BEGIN,
        ),
        StreamFigures(stream="b", counts={}, left={"batches": 1}),
    )
    found = metrics_of([target, tap], BEGIN, is_loaded=True)
    assert {name.removeprefix("singer_"): value for name, value in found["a"].items()} == {
        "run_rows": 8,
        "run_bytes": 4,
        "run_skipped_rows": 1,
        "run_rescued_rows": 0,
        "run_rejected_rows": 3,
        "run_schema_changes": 1,
        "left_objects": 0,
        "left_bytes": 0,
        "lag_seconds": 7200,
        "complete_timestamp_seconds": until.timestamp(),
    }
    assert (found["b"]["singer_left_objects"], LAG in found["b"], COMPLETE in found["b"]) == (3, False, False)
    assert metrics_of([tap], BEGIN, is_loaded=True)["b"][LAG] == 7200
    _, failed = made()  # nothing is loaded
    for reports, is_loaded in (([tap, failed], True), ([tap, failed], False), ([tap], False)):
        nothing = metrics_of(reports, BEGIN, is_loaded=is_loaded)["a"]
        assert nothing.keys() == found["a"].keys() - {LAG, COMPLETE}
        assert (nothing["singer_run_rows"], nothing["singer_run_bytes"]) == (0, 0)


@pytest.mark.full
def test_a_message_that_no_receiver_took_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    under_way = set[tuple[str, str]]()
    failed = RunOutcome(status=FAILED, exit_code=1, error=("Error", "broken", "config"))
    with receiver() as down, receiver() as http:
        down.status = 503
        urls = tuple(f"json://127.0.0.1:{one.port}" for one in (down, http))
        alerts = Alerts("orders", Path(), NotifySettings(url=urls), None, is_partial=False)

        def sent(outcome: RunOutcome) -> list[str]:
            alerts.send(BEGIN, outcome, [], under_way)
            return [json.loads(request.body)["message"] for request in http.take()]

        http.status = 503
        assert [len(sent(failed)), len(sent(failed))] == [1, 1]
        http.status = 200
        assert sent(failed) == ["failure: exit code 1, broken [config]"]
        assert sent(failed) == []
        http.status = 503
        assert len(sent(RunOutcome(status=SUCCEEDED, exit_code=0))) == 1
        http.status = 200
        assert sent(RunOutcome(status=SUCCEEDED, exit_code=0)) == ["failure: it has ended"]
        assert sent(RunOutcome(status=SUCCEEDED, exit_code=0)) == []
    assert "No notification could be sent by json: " in caplog.text


def test_a_report_that_cannot_be_read_is_a_warning(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    report = {"run": {"connector": "target-x"}, "streams": [{"stream": "a", "counts": {}}]}
    metrics = MetricsSettings(textfile="a.prom")
    alerts = Alerts("orders", tmp_path, None, metrics, is_partial=False)
    alerts.send(BEGIN, RunOutcome(status=SUCCEEDED, exit_code=0), [report], set())
    (record,) = caplog.records
    assert "a report cannot be read, KeyError('left'); update tap and target" in record.getMessage()
    assert SUCCESS in (tmp_path / "a.prom").read_text()


@pytest.mark.parametrize("url", ["http://me:one/two-three@127.0.0.1:9", "me:one/two-three@127.0.0.1:9"])
def test_a_password_in_a_url_that_is_none_is_not_shown(url: str, caplog: pytest.LogCaptureFixture) -> None:
    alerts = Alerts("orders", Path(), None, MetricsSettings(pushgateway=url, otlp=url), is_partial=False)
    alerts.send(BEGIN, RunOutcome(status=SUCCEEDED, exit_code=0), [], set())
    assert [record.name for record in caplog.records] == ["singer-arrow"] * 2
    assert not re.search("one|two|three", caplog.text.replace("none", ""))
