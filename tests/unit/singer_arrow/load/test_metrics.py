from __future__ import annotations

import logging

import pytest

from singer_arrow.load.method import Tallies, Tally, total


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ({}, "s: 0 rows, 0.0 s"),
        (
            {"rows": 1, "records": 1, "bytes": 532, "load_jobs": 1},
            "s: 1 row (532 bytes) from 1 record in 1 load, 0.0 s",
        ),
        (
            {"rows": 12_345, "batches": 12, "files": 1_024, "bytes": 12_345_678_901, "load_jobs": 2},
            "s: 12,345 rows (12.3 GB) from 12 batches (1,024 files) in 2 loads, 0.0 s",
        ),
        (
            {
                "rows": 9,
                "batches": 1,
                "files": 1,
                "records": 2_000,
                "bytes": 12_345,
                "load_jobs": 1,
                "write_streams": 2,
            },
            "s: 9 rows (12.3 kB) from 1 batch (1 file) and 2,000 records in 1 load and 2 write streams, 0.0 s",
        ),
        (
            {"batches": 3, "skipped": 3},
            "s: 0 rows from 3 batches, 0.0 s; 3 batches skipped because earlier runs loaded them",
        ),
        ({"rows": 9, "nul_characters": 3}, "s: 9 rows, 0.0 s; 3 NUL characters replaced or removed"),
        ({"long_texts": 1, "rejected": 2}, "s: 0 rows, 0.0 s; 1 long text moved to another column; 2 rows rejected"),
    ],
)
def test_the_line_has_all_counts_that_are_not_zero(counts: dict[str, int], line: str) -> None:
    tally = Tally("s")
    tally.add(**counts)
    assert tally.line() == line


def test_rare_counts_are_in_the_metric_only_if_not_zero() -> None:
    tally = Tally("rows")
    tally.add(batches=1, rows=3)
    assert "nul_characters" not in tally.counts()
    tally.add(nul_characters=2)
    tally.add(nul_characters=1)
    assert tally.counts()["nul_characters"] == 3


def test_several_streams_together() -> None:
    tallies = [Tally("a"), Tally("b")]
    for tally in tallies:
        tally.add(rows=3, rejected=1)
    assert total(tallies) == "2 streams: 6 rows, 0.0 s; 2 rows rejected"


def test_progress_is_logged_for_streams_in_which_something_happened(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    tallies, logger = Tallies(), logging.getLogger("target-x")
    for stream in ("s", "t"):
        tallies.of(stream).add(rows=1)
    assert tallies.log_progress(logger)
    tallies.of("t").add(rows=1)
    assert tallies.log_progress(logger)
    assert not tallies.log_progress(logger)
    logged = [r.getMessage().partition(":")[0] for r in caplog.records]
    assert logged == ["Progress of s", "Progress of t", "Progress of t"]
    tallies.of("of which nothing is read yet")
    assert not tallies.log_progress(logger)
    for number in range(11):
        tallies.of(f"{number}").add(rows=1)
    caplog.clear()
    assert tallies.log_progress(logger)
    (record,) = caplog.records
    assert record.getMessage() == "Progress of 11 streams: 11 rows, 0.0 s"


@pytest.mark.parametrize(
    ("counts", "was_sent_whole", "warned"),
    [
        ({"skipped": 2}, True, True),
        ({"skipped": 2}, False, False),  # as after a kill, where the last batches come again
        ({"skipped": 2, "rows": 1}, True, False),
        ({"rows": 1}, True, False),
    ],
)
def test_a_run_that_loads_nothing_again_warns_once(
    counts: dict[str, int], was_sent_whole: bool, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tallies, logger = Tallies(), logging.getLogger("target-x")
    tallies.of("s").add(batches=2, **counts)
    tallies.of("s").was_sent_whole = was_sent_whole
    with caplog.at_level(logging.WARNING):
        tallies.report(logger)
    texts = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [t[:60] for t in texts] == ["Stream 's': nothing was loaded, because earlier runs loaded "] * warned
