"""Reports: their schema accepts them, and they have what changed since the run before."""

from __future__ import annotations

from datetime import timedelta

import pytest
from run_reports import BEGIN, made

from singer_arrow.monitoring.report import RunOutcome
from singer_arrow.run_figures import StreamFigures, watermark_of

FIGURES = StreamFigures(
    stream="orders",
    is_complete=True,
    counts={"batches": 3, "rows": 12, "skipped": 1, "rows_before": 4, "load_jobs": 2, "bytes": 99, "rejected": 1},
    seconds=1.23456,
    phases={"prepare": 0.5, "stage": 0.75},
    table="p.raw.orders",
    watermark=BEGIN - timedelta(seconds=30),
    left={"batches": 0},
)


def test_a_report_has_the_counts_of_its_streams() -> None:
    _, report = made(FIGURES, bytes_billed=10_485_760)
    (stream,) = report["streams"]
    assert stream["counts"] == {
        "batches": 3,
        "rows_written": 12,
        "skipped_batches": 1,
        "rows_loaded_before": 4,
        "loads": 2,
        "bytes": 99,
        "rows_rejected": 1,
    }
    assert (stream["lag_seconds"], stream["watermark"]) == (120, "2026-11-20T16:29:30.000Z")
    assert (report["run"]["seconds"], report["bytes_billed"], report["previous_run"]) == (90, 10_485_760, None)


@pytest.mark.parametrize("status", ["failed", "interrupted", "running"])
def test_a_stream_that_is_not_complete_has_the_status_of_the_run(status: str) -> None:
    outcome = RunOutcome(
        status=status, exit_code=1, error=("DataError", "a.csv: bad", "data") if status == "failed" else None
    )
    _, report = made(FIGURES, StreamFigures(stream="late"), outcome=outcome)
    assert [s["status"] for s in report["streams"]] == ["succeeded", status]
    assert (report["run"]["ended_at"] is None) == (status == "running")


def test_changed_settings_are_listed_by_path() -> None:
    before = {"dataset": "raw", "streams": [{"name": "a"}, {"name": "b"}], "labels": {"x": 1}}
    after = {"dataset": "raw", "streams": [{"name": "a"}], "labels": {"x": 2}, "replay": "load"}
    _, first = made(settings=before)
    _, second = made(settings=after, previous=first, hours=1)
    assert second["settings_changed"] == [
        {"setting": "streams[1].name", "before": "b", "after": None},
        {"setting": "labels.x", "before": 1, "after": 2},
        {"setting": "replay", "before": None, "after": "load"},
    ]
    assert second["previous_run"] == first["run"]["id"]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"watermark": {"last_modified": "2026-11-20T16:30:00+00:00", "key": "a"}}, "2026-11-20T16:30:00+00:00"),
        ({"last_modified": "2026-11-20T16:30:00+00:00", "key": "a"}, "2026-11-20T16:30:00+00:00"),
        ({"last_modified": "", "key": ""}, None),
        ({"replication_key_value": "2026-11-20T16:30:00Z"}, "2026-11-20T16:30:00+00:00"),
        ({"replication_key_value": "abc"}, None),
        ({"replication_key_value": 17}, None),
        ({"watermark": None}, None),
        ({}, None),
    ],
)
def test_the_watermark_is_read_from_state(entry: dict[str, object], text: str | None) -> None:
    found = watermark_of({"bookmarks": {"s": entry}}, "s")
    assert (found.isoformat() if found else None) == text
    assert watermark_of(None, "s") is None
