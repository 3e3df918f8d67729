"""Settings with which `after_load` would lose rows, or cannot keep to the version that was loaded."""

from __future__ import annotations

from typing import Any

import pytest

from singer_arrow.errors import ConfigError
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
        ({"tag": {"a": "b"}}, {"run": {"batch_config": None, "plan_root": "s3://stage/plans"}}),
        (None, {"replication_method": "FULL_TABLE"}),
    ],
)
def test_what_loses_nothing_is_allowed(after_load: Any, more: dict[str, Any]) -> None:
    tap(after_load, **more)
