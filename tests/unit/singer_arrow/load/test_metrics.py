from __future__ import annotations

import logging

import pytest

from singer_arrow.load.metrics import Tallies, Tally, total


def test_the_closing_line_tells_of_nul_characters_only_where_there_were_some() -> None:
    tally = Tally("rows")
    tally.add(batches=1, rows=3)
    assert "nul_characters" not in tally.counts()
    assert tally.line().startswith("rows: batches=1 records=0 files=0 load_jobs=0 rows=3 bytes=0 skipped=0 seconds=")
    tally.add(nul_characters=2)
    tally.add(nul_characters=1)
    assert tally.counts()["nul_characters"] == 3
    assert "skipped=0 nul_characters=3 seconds=" in tally.line()


def test_several_streams_together() -> None:
    tallies = [Tally("a"), Tally("b")]
    for tally in tallies:
        tally.add(rows=3, rejected=1)
    wanted = "2 streams: batches=0 records=0 files=0 load_jobs=0 rows=6 bytes=0 skipped=0 rejected=2 seconds=0.0"
    assert total(tallies) == wanted


def test_progress_is_told_of_streams_in_which_something_happened(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    tallies, logger = Tallies(), logging.getLogger("target-x")
    for stream in ("s", "t"):
        tallies.of(stream).add(rows=1)
    assert tallies.log_progress(logger)
    tallies.of("t").add(rows=1)
    assert tallies.log_progress(logger)
    assert not tallies.log_progress(logger)
    told = [r.getMessage().partition(" batches")[0] for r in caplog.records]
    assert told == ["Progress: s:", "Progress: t:", "Progress: t:"]
    for number in range(11):
        tallies.of(f"{number}").add(rows=1)
    caplog.clear()
    assert tallies.log_progress(logger)
    (record,) = caplog.records
    assert record.getMessage().startswith("Progress: 11 streams: batches=0 records=0 files=0 load_jobs=0 rows=11")


@pytest.mark.parametrize(
    ("counts", "warned"), [({"skipped": 2}, True), ({"skipped": 2, "rows": 1}, False), ({"rows": 1}, False)]
)
def test_a_run_that_loads_nothing_again_warns_once(
    counts: dict[str, int], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tallies, logger = Tallies(), logging.getLogger("target-x")
    tallies.of("s").add(batches=2, **counts)
    with caplog.at_level(logging.WARNING):
        tallies.report(logger, logger)
    texts = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [t[:60] for t in texts] == ["Stream 's': nothing was loaded, as all that came (2 batches)"] * warned
