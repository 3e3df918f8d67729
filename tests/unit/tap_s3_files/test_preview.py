"""The table of objects that a run would read."""

from datetime import UTC, datetime

from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url
from tap_s3_files.plan.model import PendingTask, Segment, Task
from tap_s3_files.preview import Row, format_table

TASKS = tuple(
    Task((ObjectInfo(Url("s3", "b", f"{size}"), size, "e", datetime(2024, 1, 1, tzinfo=UTC)),)) for size in (10, 2500)
)
SEGMENT = Segment(0, "s", 1000, None, None, TASKS)


def test_tasks_are_counted() -> None:
    tasks = [PendingTask(SEGMENT, n, t) for n, t in enumerate(TASKS)]
    assert Row.of("orders", tasks, batches=True) == Row("orders", 2, 2510, 2, 3)
    assert Row.of("orders", tasks, batches=False) == Row("orders", 2, 2510, 2, 0)
    assert Row.of("orders", [], batches=True) == Row("orders")


def test_several_streams_have_a_sum() -> None:
    assert list(format_table([Row("orders", 1200, 5_000_000, 7, 9), Row("x", 1, 2, 3, 4)])) == [
        "stream  objects      bytes  tasks  batch files (about)",
        "orders    1,200  5,000,000      7                    9",
        "x             1          2      3                    4",
        "all       1,201  5,000,002     10                   13",
    ]
    assert len(list(format_table([Row("orders")]))) == 2
