"""Rows of progress: shares rise to 1, rates and the time left come from the last seconds."""

from __future__ import annotations

from typing import Any

from singer_arrow.monitoring.terminal import ProgressRow, ProgressRows
from singer_arrow.run_figures import RunFigures, StreamFigures


def of_tap(name: str, read: int, total: int, *, ended: bool = False, seconds: float = 1.0) -> StreamFigures:
    return StreamFigures(
        stream=name,
        is_complete=ended,
        counts={"bytes": read, "rows_written": read // 10},
        seconds=seconds,
        share=1.0 if ended else read / total,
        total={"objects": 4, "bytes": total},
        left={"objects": 0 if ended else 3, "bytes": total - read},
    )


def row_of(rows: ProgressRows, now: float, *streams: StreamFigures) -> ProgressRow:
    row = rows.row(RunFigures(streams=streams), now)
    assert row is not None
    return row


def test_a_tap_shows_objects_bytes_rate_and_time_left() -> None:
    rows = ProgressRows("tap-x")
    assert rows.row(RunFigures(streams=(of_tap("a", 0, 100, seconds=0.0),)), 0.0) is None
    row_of(rows, 10.0, of_tap("a", 0, 1_000_000))
    row = row_of(rows, 20.0, of_tap("a", 250_000, 1_000_000))
    assert (row.label, row.percent) == ("a", 25)
    assert row.details == ("0:30 left", "1/4 objects", "250.0 kB/1.0 MB", "25.0 kB/s", "25,000 rows")


def test_the_share_never_falls_while_more_is_planned() -> None:
    rows = ProgressRows("tap-x")
    totals = [(50, 100), (60, 300), (270, 300)]
    assert [row_of(rows, 1.0, of_tap("a", *pair)).percent for pair in totals] == [50, 50, 90]
    last = row_of(rows, 2.0, of_tap("a", 300, 300, ended=True), of_tap("b", 10, 100))
    assert (last.label, last.percent) == ("b (2/2)", 10)
    assert row_of(rows, 3.0, of_tap("a", 300, 300, ended=True)).percent == 100


def test_a_target_shows_batches_and_loads() -> None:
    def figures(waiting: int, rows: int, **more: Any) -> StreamFigures:
        counts = {"batches": 8, "records": 0, "rows": rows, "bytes": 12_345, "load_jobs": 2}
        return StreamFigures(stream="s", counts=counts, seconds=1.0, left={"batches": waiting, "loads": 3}, **more)

    rows = ProgressRows("target-x")
    row_of(rows, 0.0, figures(8, 0))
    row = row_of(rows, 10.0, figures(6, 5000))
    assert (row.label, row.percent) == ("target-x", 25)
    assert row.details == ("2/8 batches loaded", "5,000 rows", "12.3 kB", "500 rows/s", "3 loads running, 2 done")
    assert row_of(rows, 11.0, figures(0, 9000, is_complete=True)).percent == 100
    assert row_of(rows, 11.0, figures(6, 5000)).percent == 100  # never less than before
    unread = ProgressRows("target-x").row(RunFigures(streams=(figures(6, 5000),), is_read=False), 0.0)
    assert unread is not None
    assert (unread.percent, unread.details[0]) == (None, "2/8 batches loaded")  # the tap may send more
