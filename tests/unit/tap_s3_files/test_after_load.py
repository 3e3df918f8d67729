"""Which objects `after_load` may touch, and the settings with which it would lose rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plan_runs import folder_of, info, log_in, segment

from singer_arrow.errors import ConfigError, IdentityError
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.plan import start_of
from tap_s3_files.plan_log import PlanLog
from tap_s3_files.plan_model import ObjectRange, Segment, Task
from tap_s3_files.tap import TapS3Files

BATCHES = {"encoding": {"format": "parquet"}, "storage": {"root": "s3://stage/batches"}}


def tap(after_load: Any, *, path: str = "s3://shop/in/*.csv", run: dict[str, Any] | None = None, **stream: Any) -> None:
    streams = [{"name": "rows", "path": path, "after_load": after_load, **stream}, {"name": "b", "path": "s3://b/x*"}]
    TapS3Files(config={"batch_config": BATCHES, "streams": streams} | (run or {}), catalog={"streams": []})


@pytest.mark.parametrize(
    ("after_load", "more", "message"),
    [
        ({}, {}, "needs one of delete"),
        ({"delete": False}, {}, "needs one of delete"),
        ({"delete": True, "tag": {"a": "b"}}, {}, "needs one of delete"),
        ({"delete": True}, {"run": {"batch_config": None}}, "needs 'batch_config' or 'plan_root'"),
        ({"delete": True}, {"replication_method": "FULL_TABLE"}, "is not for FULL_TABLE or overwrite"),
        ({"delete": True}, {"load_method": "overwrite"}, "is not for FULL_TABLE or overwrite"),
        ({"delete": True}, {"run": {"shard": "0/2"}}, "is not for shards"),
        ({"delete": True}, {"path": "gs://shop/in/*.csv"}, "gs://shop/in/"),
        ({"tag": {"a": "b"}}, {"path": "/data/in/*.csv"}, "is elsewhere"),
        ({"move": "gs://archive/x"}, {}, "gs://archive/x is elsewhere"),
        ({"delete": True}, {"on_bad_row": "skip"}, "on_bad_row: skip"),
        ({"move": "s3://shop/in/done"}, {}, "may find them"),
        ({"move": "s3://shop"}, {}, "may find them"),
        ({"move": "s3://b/"}, {}, r"s3://b/x\* may find them"),
        ({"move": "s3://shop/{tenant}"}, {"path": "s3://shop/**/*.csv"}, "may find them"),
        ({"move": "s3://stage/batches/_plans/rows"}, {}, "where the plan log is, s3://stage/batches/_plans;"),
        ({"move": "s3://stage/batches"}, {}, "where the plan log is"),
        ({"move": "s3://stage/"}, {}, "where the plan log is"),
    ],
)
def test_what_would_lose_rows_is_refused(after_load: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tap(after_load, **more)


@pytest.mark.parametrize(
    ("after_load", "more"),
    [
        ({"delete": True}, {}),
        ({"move": "s3://shop/done"}, {"on_bad_row": "skip"}),
        ({"move": "s3://shop/inner/"}, {}),
        ({"move": "s3://stage/batches/done"}, {}),
        ({"tag": {"a": "b"}}, {"run": {"batch_config": None, "plan_root": "s3://stage/plans"}}),
        (None, {"replication_method": "FULL_TABLE"}),
    ],
)
def test_what_loses_nothing_is_allowed(after_load: Any, more: dict[str, Any]) -> None:
    tap(after_load, **more)


def test_of_a_divided_object_all_ranges_count_as_one(tmp_path: Path) -> None:
    large, small = info("large"), info("small", 1)
    tasks = (*(Task((large,), ObjectRange(n, 3)) for n in range(3)), Task((small, info("left", 2))))
    log = log_in(tmp_path)
    made = log.append(Segment(0, "orders", 1, None, None, tasks))
    log.leave_out(made, 3, [info("left", 2)])
    assert [(number, o.url.name, why) for number, o, why in log_in(tmp_path).passed_objects(0, 1)] == [
        (0, "large", ""),
        (0, "small", ""),
        (0, "left", "not loaded"),
    ]


def test_a_new_log_begins_behind_what_is_gone(tmp_path: Path) -> None:
    log_in(tmp_path).append(segment(0, info("a")))
    (folder_of(tmp_path) / "after-load-000001-000001-0.json").write_text("{}")
    with pytest.raises(IdentityError, match="after_load may have removed"):
        start_of(log_in(tmp_path), None, "orders")
    start_of(log_in(tmp_path), None, "orders", sends=False)
    for path in folder_of(tmp_path).glob("[!a]*"):
        path.unlink()
    PlanLog.begin_anew(Storage(), Url.parse(str(tmp_path)), "orders", None, None)
    assert start_of(log_in(tmp_path), None, "orders").segment == 1
