"""Metrics of a run: their names are those of the page and of the dashboard, their values those of both reports."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

from run_reports import BEGIN, made

from singer_arrow.monitoring.alerts import COMPLETE, LAG, METRICS, metrics_of
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
    found = metrics_of([target, tap], BEGIN)
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
    assert metrics_of([tap], BEGIN)["b"][LAG] == 7200
    _, failed = made()  # nothing is loaded
    assert metrics_of([tap, failed], BEGIN)["a"].keys() == found["a"].keys() - {LAG, COMPLETE}
    assert metrics_of([tap, failed], BEGIN)["a"]["singer_run_rows"] == 0
