"""BATCH messages: ours round-trip, those of other taps are accepted, malformed ones give a one-line error."""

from __future__ import annotations

import json

import pytest

from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError

OURS = Batch(
    stream="s",
    format="parquet",
    manifest=("s3://b/x.parquet", "s3://b/y.parquet"),
    compression="zstd",
    batch_id="3f9c",
    row_count=842,
    byte_count=31245,
    version=17,
    ranks=(((500, "a 1"), (342, "a 2")), ((None, "b 1"),)),
)


def test_round_trip() -> None:
    assert Batch.from_message(json.loads(json.dumps(OURS.to_message()))) == OURS


def test_a_message_of_the_sdk() -> None:
    message = {
        "type": "BATCH",
        "stream": "s",
        "encoding": {"format": "jsonl", "compression": "gzip"},
        "manifest": ["file:///x"],
    }
    batch = Batch.from_message(message)
    assert batch == Batch(stream="s", format="jsonl", manifest=("file:///x",), compression="gzip")
    assert batch.to_message() == message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stream": None}, "names no stream"),
        ({"encoding": None}, "no 'encoding'"),
        ({"encoding": {"format": 3}}, "no 'encoding'"),
        ({"encoding": {"format": "avro"}}, "format 'avro'.*parquet or jsonl or arrow"),
        ({"manifest": "s3://b/x"}, "'manifest' must be a list"),
        ({"manifest": [None]}, "'manifest' must be a list"),
        ({"batch_id": 3}, "'batch_id' must be text, it is 3"),
        ({"row_count": "3"}, "'row_count' must be an integer"),
        ({"ranks": [[[500, "a 1"]]]}, "'ranks' must hold for each file"),  # there are two
        ({"ranks": [[[-1, "a 1"]], []]}, "'ranks' must hold"),
        ({"ranks": [[[None, "without"]], []]}, "'ranks' must hold"),
        ({"ranks": [[[None, "a \0"]], []]}, "'ranks' must hold"),
        ({"ranks": [[[None, 7]], []]}, "'ranks' must hold"),
        ({"ranks": 7}, "'ranks' must hold"),
        ({"version": True}, "'version' must be an integer"),
        ({"manifest": ["https://u:SECRET@h/"]}, "'https://h/' in its manifest is not the URL of a file"),
        ({"manifest": ["gopher://u:SECRET@h/x"]}, "'gopher://h/x' in its manifest has the scheme"),
        ({"manifest": ["sftp:///x?SECRET"]}, "'sftp:///x' in its manifest is not the URL of a file"),
        ({"manifest": ["sftp://h/data/.\t./x"]}, "in its manifest has control characters"),
        ({"manifest": ["https://h\n/x"]}, "in its manifest has control characters"),
    ],
)
def test_malformed(change: dict[str, object], reason: str) -> None:
    with pytest.raises(DataError, match=reason) as caught:
        Batch.from_message({**OURS.to_message(), **change})
    assert "\n" not in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://b/line\nbreak\t.parquet", "/data/line\nbreak", "https://h/a%0ab"])
def test_keys_of_buckets_and_files_may_hold_anything(url: str) -> None:
    assert Batch.from_message({**OURS.to_message(), "manifest": [url], "ranks": None}).manifest == (url,)
