"""Records of a tap are the same by every way of sending them, whatever hooks change single ones."""

from __future__ import annotations

import io
import json
from collections.abc import Generator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import waiting_tap
from singer_sdk import Stream, Tap
from waiting_tap import TapThings, Things

from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.sdk.message_writer import LineWriter
from singer_arrow.sdk.tap import ArrowStream, Encode, Encoded

RICH = {
    "type": "object",
    "properties": {
        "id": {"type": ["integer", "null"]},
        "spot": {"type": ["object", "null"], "properties": {"x": {"type": ["number", "null"]}}},
        "free": {"type": ["object", "null"]},
        "price": {"type": ["number", "null"], "multipleOf": 0.01},
        "at": {"type": ["string", "null"], "format": "date-time"},
    },
}


class Rich(Things):
    """Rows that several hooks modify."""

    looked_at = 0

    def __init__(self, tap: Tap) -> None:
        Stream.__init__(self, tap, schema=RICH)
        self.forced_replication_method = tap.config["method"]

    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        schema = from_json_schema(RICH)
        for number in range(3):
            at = datetime(2024, 5, number + 1, tzinfo=UTC)
            row = {
                "id": number,
                "spot": {"x": number / 4},
                "free": '{"a": 1, "b": {"c": 1.10}}',
                "price": None,
                "at": at,
            }
            yield from encode(pa.RecordBatch.from_pylist([row, {**row, "price": Decimal("0.10")}], schema=schema))
            self.write_state({"done": number})


class LookedAt(Rich):
    """A stream that inspects each of its records."""

    def post_process(self, row: dict[str, Any], context: Any = None) -> dict[str, Any]:
        type(self).looked_at += 1
        return row


def sync_rich(kind: type[Rich], config: dict[str, Any], deselected: set[tuple[str, ...]]) -> list[dict[str, Any]]:
    class TapRich(TapThings):
        config_jsonschema = {"properties": {"method": {"type": "string"}}}  # noqa: RUF012 - as the SDK declares it

        def discover_streams(self) -> list[Things]:
            return [kind(self)]

    given = json.loads(TapRich(config=config).catalog_json_text)
    (entry,) = given["streams"]
    entry["metadata"] += [{"breadcrumb": list(crumb), "metadata": {"selected": False}} for crumb in deselected]
    out = io.StringIO()
    with redirect_stdout(out):
        TapRich(config=config, catalog=given).sync_all()
    return [json.loads(line, parse_float=Decimal) for line in out.getvalue().splitlines()]


FLAT = {"flattening_enabled": True, "flattening_max_depth": 1}
WAYS: list[tuple[dict[str, Any], set[tuple[str, ...]], bool]] = [
    ({}, set(), True),
    ({"method": "FULL_TABLE"}, set(), True),
    ({}, {("properties", "spot"), ("properties", "free")}, False),  # the rows above hold them all the same
    ({}, {("properties", "spot", "properties", "x")}, False),
    ({}, {("properties", "free", "properties", "b", "properties", "c")}, False),
    ({}, {("properties", "free", "properties", "gone")}, False),
    ({}, {("properties", "spot", "properties", "gone"), ("properties", "price", "properties", "gone")}, True),
    (FLAT, set(), False),
    ({"stream_maps": {"things": {"id": "id + 1"}}}, set(), False),
    ({"stream_maps": {"things": {"__filter__": "id != 1"}}}, set(), False),
    ({"stream_maps": {"things": {"__alias__": "others"}}}, set(), False),
    ({"stream_maps": {"things": None}}, set(), False),
]


@pytest.mark.parametrize(("config", "deselected", "at_once"), WAYS)
def test_records_are_the_same_whether_they_are_written_at_once_or_singly(
    config: dict[str, Any],
    deselected: set[tuple[str, ...]],
    at_once: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    blocks: list[memoryview] = []
    write = LineWriter.write_lines

    def write_lines(writer: LineWriter, lines: memoryview) -> None:
        blocks.extend([lines] if bytes(lines).count(b"\n") > 1 else [])
        write(writer, lines)

    monkeypatch.setattr(LineWriter, "write_lines", write_lines)
    config = {"method": "INCREMENTAL", **config}
    found = [sync_rich(kind, config, deselected) for kind in (Rich, LookedAt)]
    assert [len(blocks), LookedAt.looked_at > 0] == [3 * at_once, True]
    for messages in found:
        for message in messages:
            message.pop("time_extracted", None)
            if "version" in message:
                assert message.pop("version") > 10**9
    assert found[0] == found[1]
    assert [m["type"] for m in found[0]].count("STATE") == 3 + (
        config.get("stream_maps") != {"things": None}
    )  # the end mark too
    points = [json.loads(r.getMessage().removeprefix("METRIC: ")) for r in caplog.records if r.name.endswith("metrics")]
    counts = [(point["value"], point["tags"]) for point in points if point["metric"] == "record_count"]
    assert counts[0] == counts[1]
    assert [count for count, _ in counts] == [6, 6] if "stream_maps" not in config else counts


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"stream_maps": {"things": {"name": "name.upper()"}}}, "stream_maps"),
        ({"stream_maps": {"more": {"__source__": "things"}}}, "stream_maps"),
        ({"flattening_enabled": True, "flattening_max_depth": 2}, None),
        ({}, None),
    ],
)
def test_what_changes_single_records_needs_records(config: dict[str, Any], reason: str | None) -> None:
    tap = TapThings(config={"batches": True, **config})
    stream = tap.streams["things"]
    assert isinstance(stream, ArrowStream)
    assert stream.records_needed_by() == reason
    assert stream.sends_batches == (reason is None)


def test_nested_columns_are_flattened_in_records(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}
    monkeypatch.setattr(waiting_tap, "SCHEMA", nested)
    tap = TapThings(config={"batches": True, "flattening_enabled": True, "flattening_max_depth": 2})
    stream = tap.streams["things"]
    assert isinstance(stream, ArrowStream)
    assert stream.records_needed_by() == "flattening_enabled"


def test_a_stream_that_maps_remove_is_seen() -> None:
    stream = TapThings(config={"batches": True, "stream_maps": {"things": None}}).streams["things"]
    assert isinstance(stream, ArrowStream)
    assert stream.is_mapped_away
    kept = TapThings(config={"batches": True}).streams["things"]
    assert isinstance(kept, ArrowStream)
    assert not kept.is_mapped_away
