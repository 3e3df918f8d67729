"""Runs without STATE into a table with rows of others: a warning where both may have the same files, only there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from singer_lines import Batches, Message, record, rows, schema, state
from warehouses import Warehouse

TWICE = "rows of the same files will be there twice"

Load = Callable[..., None]


@pytest.fixture
def load(warehouse: Warehouse, batch: Batches) -> Load:
    """Loads one row as the first batch of a plan log."""

    def run(log: str, n: int, objects: Message | None) -> None:
        plan_log: Message = {"log": log, "source": f"s{log}", "has_state": False, "place": f"{n:041d}"}
        plan_log |= {"objects": objects} if objects else {}
        brought = batch(rows(n, 1), batch_id=f"{log}-{n}") | {"plan_log": plan_log}
        warehouse.load([schema(), brought, state(n)])

    return run


def of(*roots: str, kind: str = "", begin: str = "", end: str = "") -> Message:
    return {"roots": list(roots), "kind": kind, "begin": begin, "end": end}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if TWICE in message]


APART = [
    (of("s3://shop/eu/"), of("s3://shop/us/")),
    (of("s3://shop/in/"), of("s3://shop/in2/", "gs://shop/in/")),
    (of("s3://shop/in/", kind="date", end="2024-02-01"), of("s3://shop/in/", kind="date", begin="2024-02-01")),
    (of("s3://a/", kind="time", begin="2024-02-01"), of("s3://a/", kind="time", begin="2023", end="2024-01-31")),
]
SHARED = [
    (of("s3://shop/in/"), of("s3://shop/in/")),
    (of("s3://shop/in/"), of("s3://shop/in/eu/")),
    (of("s3://shop/in/eu/"), of("s3://shop/")),
    (of("s3://shop/in/", kind="date", end="2024-02-02"), of("s3://shop/in/", kind="date", begin="2024-02-01")),
    (of("s3://shop/in/", kind="date", end="2024-02-01"), of("s3://shop/in/", kind="time", begin="2024-02-01")),
    (of("s3://shop/in/"), None),
]


@pytest.mark.parametrize(("first", "second"), APART)
def test_two_pipelines_of_other_files_share_a_table_without_an_alarm(
    warehouse: Warehouse, load: Load, caplog: pytest.LogCaptureFixture, first: Message, second: Message
) -> None:
    load("eu", 1, first)
    load("us", 2, second)
    load("us", 2, second)
    assert warnings(caplog) == []
    assert [row["id"] for row in warehouse.table()] == [1, 2]


@pytest.mark.parametrize(("first", "second"), SHARED)
def test_a_pipeline_that_may_have_the_same_files_is_named(
    load: Load, caplog: pytest.LogCaptureFixture, first: Message, second: Message | None
) -> None:
    load("eu", 1, first)
    assert warnings(caplog) == []
    load("us", 2, second)
    (warning,) = warnings(caplog)
    assert f"rows from {first['roots'][0]}, which another plan log has brought since 2" in warning
    assert "mpty" not in warning, "who empties the table deletes the rows of the other one"


def test_rows_that_came_by_no_log_are_an_alarm_that_names_those_of_others(
    warehouse: Warehouse, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.load([schema(), record(id=1), state(1)])
    load("eu", 2, of("s3://shop/eu/"))
    load("us", 3, of("s3://shop/us/"))  # the first rows may be of these files
    warning, _ = warnings(caplog)
    assert "came by RECORD messages, by batches without a plan log or by another tool" in warning
    assert "empty it; or use" in warning


def test_many_places_are_kept_as_their_buckets(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    load("eu", 1, of(*(f"s3://shop/{'folder' * 10}/{n}/" for n in range(30))))
    load("us", 2, of("s3://shop/x/"))
    load("de", 3, of("s3://other/x/"))
    (warning,) = warnings(caplog)
    assert "rows from s3://shop/, which" in warning
