"""The setting `batch_config` of taps."""

from __future__ import annotations

from typing import Any

import pytest

from singer_arrow.batch.message import BatchSettings
from singer_arrow.errors import ConfigError


def settings(root: str, **encoding: Any) -> BatchSettings:
    found = BatchSettings.from_config({"encoding": encoding, "storage": {"root": root}})
    assert found is not None
    return found


def test_arrow_files_are_compressed_unless_they_stay_on_local_disk() -> None:
    assert settings("s3://stage", format="arrow").compression == "zstd"
    assert settings("file:///stage", format="arrow").message_compression is None
    assert settings("file:///stage", format="arrow", compression="lz4").message_compression == "lz4"
    assert settings("file:///stage", format="arrow").suffix == "arrow"
    assert settings("file:///stage", format="parquet").compression == "zstd"


def test_only_parquet_and_gzip_json_lines_pass_through() -> None:
    found = [settings("s3://stage", format=name).can_pass for name in ("parquet", "jsonl", "arrow")]
    assert found == [True, True, False]
    assert not settings("s3://stage", format="jsonl", compression="none").can_pass


def test_a_compression_of_another_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="is 'snappy', arrow batch files have zstd or lz4 or none"):
        settings("s3://stage", format="arrow", compression="snappy")
