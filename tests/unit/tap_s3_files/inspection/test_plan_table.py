"""The table of objects that a run would read, and what loading them needs."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from singer_arrow.storage.urls import ObjectInfo, Url
from singer_arrow.warehouse.settings import LoadSettings
from tap_s3_files import tables
from tap_s3_files.plan_model import PendingTask, Segment, Task
from tap_s3_files.tables import Row, plan_lines
from target_bigquery import client as jobs

MAY, JUNE = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, 12, tzinfo=UTC)
THREE = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
FIRST, LAST = "2024-05-01 00:00:00Z", "2024-06-01 12:00:00Z"
TASKS = tuple(
    Task((ObjectInfo(Url("s3", "b", f"{size}.csv"), size, "e", at),)) for size, at in ((10, JUNE), (2500, MAY))
)
SEGMENT = Segment(0, "s", 1000, None, None, TASKS)


def test_tasks_are_counted() -> None:
    tasks = [PendingTask(SEGMENT, n, t) for n, t in enumerate(TASKS)]
    seen = {"formats": frozenset({"csv"}), "oldest": MAY, "newest": JUNE}
    assert Row.of("orders", tasks, batches=True) == Row("orders", 2, 2510, 2, 3, **seen)
    assert Row.of("orders", tasks, batches=False, columns=THREE) == Row("orders", 2, 2510, 2, 0, columns=THREE, **seen)
    assert Row.of("orders", tasks, batches=False, file_format="lines").formats == {"lines"}
    assert Row.of("orders", [], batches=True) == Row("orders")


def test_several_streams_have_a_sum() -> None:
    orders = Row("orders", 1200, 5_000_000, 7, 9, frozenset({"csv", "jsonl"}), THREE, MAY, MAY)
    assert list(plan_lines([orders, Row("x", 1, 2, 3, 4, oldest=JUNE, newest=JUNE)])) == [
        f"stream  objects      bytes  tasks  batch files (about)  format      columns  oldest{' ' * 16}newest",
        f"orders    1,200  5,000,000      7                    9  csv, jsonl  3        {FIRST}  {FIRST}",
        f"x             1          2      3                    4              ?        {LAST}  {LAST}",
        f"all       1,201  5,000,002     10                   13                       {FIRST}  {LAST}",
        "orders: id integer, name string, at timestamp",
    ]
    assert len(list(plan_lines([Row("orders")]))) == 2


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "bigquery",
            [
                "target-bigquery:",
                "table   load jobs (at least)          bytes  of 1,500 a day",
                "orders                     3  1,073,741,825            0.2%",
                "none                       0              0            0.0%",
            ],
        ),
        (
            "redshift",
            [
                "target-redshift:",
                "table   COPYs (at least)          bytes",
                "orders                 3  1,073,741,825",
                "none                   0              0",
            ],
        ),
    ],
)
def test_what_a_target_needs(target: str, expected: list[str]) -> None:
    rows = [Row("orders", 1, (1 << 30) + 1), Row("none")]
    assert list(tables.cost_lines(target, rows))[:-1] == expected


def test_limits_are_those_of_the_targets() -> None:
    assert LoadSettings().max_batch_bytes == tables.MAX_BATCH_BYTES
    assert jobs.DAILY_LOADS == tables.DAILY_LOADS
