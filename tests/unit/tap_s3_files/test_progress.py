"""Counts from several threads add up, and are logged during the run."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files import progress as module
from tap_s3_files.progress import Counts, Progress, pause_after


def test_counts_of_several_threads_add_up() -> None:
    progress = Progress("orders")
    with ThreadPoolExecutor(4) as pool:
        for _ in range(400):
            pool.submit(progress.add, Counts(rows_read=2, bytes=10))
    assert progress.counts == Counts(rows_read=800, bytes=4000)


def test_the_line_has_what_is_planned_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "seconds", 10.0)
    progress = Progress("orders")
    progress.add(Counts(objects=2, rows_read=1234, rows_written=1230, bytes=5_600_000))
    progress.parsed(rows=1234, size=5_600_000)
    assert progress.line() == "orders: 2 objects, 5.6 MB read, 1,234 rows read, 1,230 written, 10.0 s"
    progress.plan(3, 6_000_000)
    progress.expect(1, 8_000_000)
    progress.plan(1, 8_000_000)
    assert progress.line() == (
        "orders: 2 of 4 objects, 5.6 MB of 14.0 MB (40%) read, 1,234 rows read, 1,230 written, 10.0 s, about 15 s left"
    )


def test_the_closing_line_has_the_counts_that_are_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "seconds", 0.0)
    progress = Progress("orders")
    progress.add(Counts(objects=1, rows_read=1234, rows_written=1234, bytes=5_600_000))
    assert progress.closing_line() == "Read orders: 1,234 rows (5.6 MB) from 1 object, 0.0 s"
    progress.add(Counts(skipped_objects=1, batch_files=3, rows_read=9, rows_written=5, rows_skipped=4, rows_rescued=2))
    assert progress.closing_line() == (
        "Read orders: 1,239 rows (5.6 MB) from 1 object in 3 batch files, 0.0 s; 1 object skipped; 4 rows skipped; "
        "2 rows rescued"
    )


def test_what_is_fetched_and_not_parsed_is_no_share_and_gives_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "seconds", 10.0)
    progress = Progress("orders")
    progress.plan(1, 6_000_000)
    progress.add(Counts(bytes=6_000_000))
    assert progress.share == 0
    assert progress.line() == "orders: 0 of 1 object, 0 bytes of 6.0 MB (0%) read, 0 rows read, 0 written, 10.0 s"


def test_rows_are_shown_once_they_are_parsed_though_no_file_has_them_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "seconds", 10.0)
    progress = Progress("orders")
    progress.plan(2, 8_000_000)
    progress.parsed(rows=500, size=2_000_000)
    assert progress.line() == (
        "orders: 0 of 2 objects, 2.0 MB of 8.0 MB (25%) read, 500 rows read, 0 written, 10.0 s, about 30 s left"
    )
    assert progress.figures(outputs=()).counts["rows_read"] == 500
    progress.add(Counts(rows_read=500, rows_written=500))
    assert "500 rows read, 500 written" in progress.line()


def test_the_end_is_not_estimated_while_the_last_rows_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "seconds", 600.0)
    progress = Progress("orders")
    progress.plan(1, 100)
    progress.parsed(rows=1, size=100)
    assert "(99%) read, 1 rows read" in progress.line()
    assert "left" not in progress.line()


def test_the_share_ends_at_one_only_when_the_stream_ends() -> None:
    progress = Progress("orders")
    assert progress.share is None
    with progress.logged(lambda *_, **__: None):
        progress.plan(1, 100)
        progress.parsed(size=50)
        assert progress.share == 0.5
        progress.parsed(size=500)
        assert progress.share == 0.99
    assert (progress.share, progress.figures(outputs=()).is_complete) == (1.0, True)


def test_a_long_silence_ends_though_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.01)
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.1)
    lines: list[str] = []
    progress = Progress("orders")
    with progress.logged(lambda line, **_: lines.append(line)):
        deadline = time.monotonic() + 30
        while len(lines) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert [line.partition(",")[0] for line in lines[:2]] == ["orders: 0 objects"] * 2


def test_progress_is_logged_while_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.01)
    lines: list[str] = []
    progress = Progress("orders")
    with progress.logged(lambda line, **_: lines.append(line)):
        progress.add(Counts(rows_read=1))
        while not lines:
            time.sleep(0.01)
        time.sleep(0.05)
        assert len(lines) == 1
    count = len(lines)
    progress.add(Counts(rows_read=1))
    time.sleep(0.03)
    assert len(lines) == count


def test_lines_come_less_often_in_long_runs() -> None:
    assert [pause_after(s) for s in (0, 120, 600, 36_000)] == [0, 12, 60, 60]


def test_nothing_is_left_of_a_complete_stream_though_more_was_expected() -> None:
    progress = Progress("s")
    progress.expect(5, 100)
    assert progress.figures(outputs=()).left == {"objects": 5, "bytes": 100}
    with progress.logged(lambda *_, **__: None):
        pass
    assert progress.figures(outputs=()).left == {"objects": 0, "bytes": 0}


def test_only_the_first_skipped_objects_are_named(caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress("s")
    for n in range(100):
        progress.skip(ObjectInfo(Url("s3", "b", f"{n}"), 1, "e", datetime(2024, 1, 1, tzinfo=UTC)), f"{n} is skipped")
    assert caplog.messages == [
        *(f"{n} is skipped" for n in range(20)),
        "s: more objects are skipped, which are counted at the end",
    ]
    assert progress.counts.skipped_objects == 100
