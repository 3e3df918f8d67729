"""Counts from several threads add up, and are told while work goes on."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tap_s3_files import progress as module
from tap_s3_files.progress import Counts, Progress


def test_counts_of_several_threads_add_up() -> None:
    progress = Progress("orders")
    with ThreadPoolExecutor(4) as pool:
        for _ in range(400):
            pool.submit(progress.add, rows=2, bytes=10)
    assert progress.counts == Counts(rows=800, bytes=4000)


def test_the_line_says_what_there_is() -> None:
    progress = Progress("orders")
    progress.add(objects=2, rows=1234, bytes=5_600_000)
    assert progress.line() == "orders: 2 objects, 1,234 rows, 5.6 MB read, 0.0 s"
    progress.add(skipped=1, batch_files=3)
    assert progress.line() == "orders: 2 objects (1 skipped), 1,234 rows, 5.6 MB read, 3 batch files, 0.0 s"


def test_it_is_told_while_work_goes_on_and_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.01)
    lines: list[str] = []
    progress = Progress("orders")
    with progress.told(lines.append):
        progress.add(rows=1)
        while not lines:
            time.sleep(0.01)
        time.sleep(0.05)
        assert len(lines) == 1
    count = len(lines)
    progress.add(rows=1)
    time.sleep(0.03)
    assert len(lines) == count
