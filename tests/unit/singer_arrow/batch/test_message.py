"""BATCH messages: ours round-trip, those of other taps are accepted, malformed ones give a one-line error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from singer_arrow.batch.message import Batch, ContinuedLog, LogObjects, PlanLogId, place_in_log
from singer_arrow.errors import DataError
from singer_arrow.read_options import Skipped

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
    plan_log=PlanLogId(
        "a1",
        "b2",
        True,
        "c3",
        place_in_log(7, 1, 500),
        ContinuedLog("d4", "e5", place_in_log(6)),
        LogObjects(("s3://shop/in/",), "date", "2024-05-01T00:00:00"),
    ),
)


def test_round_trip() -> None:
    assert Batch.from_message(json.loads(json.dumps(OURS.to_message()))) == OURS


def test_places_in_a_log_sort_as_they_were_sent() -> None:
    places = [place_in_log(*at) for at in ((0,), (0, 0, 9), (0, 0, 10), (0, 2), (0, 10), (9, 2**31), (10,))]
    assert places == sorted(places)


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
        ({"plan_log": {"log": "a1", "source": "b2", "place": 7}}, "'place' must be text"),
        (
            {"plan_log": {"log": "a1", "source": "b2", "continues": {"log": "c3"}}},
            "'continues' of 'plan_log' must hold",
        ),
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


def test_rejected_rows_come_back_as_they_were_sent() -> None:
    rows = (Skipped(3, "n", "no number", '{"n": "x"}', "s3://b/in/a.csv"), Skipped(0, None, "no object", "{}"))
    sent = Batch("orders", "jsonl", (), batch_id="a", row_count=0, rejected=rows)
    message = json.loads(json.dumps(sent.to_message()))
    assert Batch.from_message(message) == sent
    assert message["rejected"][0].keys() == {"file", "position", "column_name", "reason", "record"}


@pytest.mark.parametrize(
    "rows",
    [
        7,
        "text",
        ["row"],
        [{}],
        [{"position": "3"}],
        [{"position": -1}],
        [{"record": None}],
        [{"file": []}],
        [{"reason": "a\0"}],
    ],
    ids=str,
)
def test_malformed_rejected_rows_are_an_error_of_the_tap(rows: Any) -> None:
    given = {"position": 3, "column_name": None, "reason": "r", "record": "{}", "file": None}
    changed = (
        [given | row if isinstance(row, dict) and row else row for row in rows] if isinstance(rows, list) else rows
    )
    message = Batch("orders", "jsonl", (), batch_id="a").to_message() | {"rejected": changed}
    with pytest.raises(DataError, match="'rejected' must hold objects with position, column_name"):
        Batch.from_message(message)
