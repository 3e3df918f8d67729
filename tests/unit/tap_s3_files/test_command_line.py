"""Paths on the command line become streams with names."""

from __future__ import annotations

from typing import Any

import pytest

from tap_s3_files.tap import merge_paths, stream_name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("s3://shop/orders/**/*.csv", "orders"),
        ("s3://shop/orders/", "orders"),
        ("s3://shop/a/orders.csv.gz", "orders"),
        ("s3://shop/a/orders-*.csv", "orders"),
        ("s3://shop/orders/day=*/*.parquet", "orders"),
        ("s3://shop/orders/{date:%Y/%m/%d}/*.gz", "orders"),
        ("s3://shop/orders/2024-*.csv", "orders"),
        ("s3://my-shop/*.csv", "my_shop"),
        ("/data/orders/*.csv", "orders"),
    ],
)
def test_the_stream_of_a_path(path: str, name: str) -> None:
    assert stream_name(path) == name


def test_paths_replace_streams_and_the_root_only_the_root() -> None:
    config: dict[str, Any] = {
        "streams": [{"name": "x", "path": "s3://b/x"}],
        "batch_config": {"encoding": {"format": "jsonl"}, "storage": {"root": "s3://old", "prefix": "p"}},
    }
    merge_paths(config, {"paths": ("s3://b/y/*",), "batch_root": "s3://new"})
    assert config == {
        "streams": [{"name": "y", "path": "s3://b/y/*"}],
        "batch_config": {"encoding": {"format": "jsonl"}, "storage": {"root": "s3://new", "prefix": "p"}},
    }


def test_nothing_given_changes_nothing() -> None:
    config: dict[str, Any] = {"max_workers": 2}
    merge_paths(config, {})
    assert config == {"max_workers": 2}
