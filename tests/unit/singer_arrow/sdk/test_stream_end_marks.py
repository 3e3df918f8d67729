"""A tap marks the end of each stream that it finished, and of no others."""

from __future__ import annotations

import io
import json
from collections.abc import Generator, Mapping
from contextlib import redirect_stdout
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from singer_sdk import Target
from singer_sdk.sinks import BatchSink
from waiting_tap import SCHEMA, TapThings, Things, sync

from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError
from singer_arrow.sdk.tap import Encode, Encoded

VERSIONS = "emit_activate_version_messages"


class Widening(Things):
    """Sends another SCHEMA in the middle."""

    def widen(self) -> None:
        properties = {**SCHEMA["properties"], "more": {"type": ["string", "null"]}}
        self.send_schema({**SCHEMA, "properties": properties})

    def batches(self) -> Generator[Batch | Mapping[str, Any]]:
        items = super().batches()
        yield next(items)
        self.widen()
        yield from items

    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        yield from encode(pa.RecordBatch.from_pylist([{"id": 1, "name": "n"}]))
        self.widen()
        self.write_state({"done": 1})


class Others(Things):
    """A second stream."""

    name = "others"


class TapTwo(TapThings):
    """A tap of two streams."""

    def discover_streams(self) -> list[Things]:
        return [Widening(self), Others(self)]


def run(tap: type[TapThings] = TapTwo, error: type[Exception] | None = None, **config: Any) -> list[dict[str, Any]]:
    """Return the messages of a run; of one that fails with this error, those before it."""
    out = io.StringIO()
    with redirect_stdout(out):
        if error is None:
            tap(config=config).sync_all()
        else:
            with pytest.raises(error):
                tap(config=config).sync_all()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def marks(messages: list[dict[str, Any]]) -> list[str]:
    return [m["end_of_stream"] for m in messages if m["type"] == "STATE" and "end_of_stream" in m]


@pytest.mark.parametrize("batches", [True, False])
def test_each_schema_announces_the_mark_and_each_stream_gets_one(batches: bool) -> None:
    messages = run(batches=batches)
    announced = [m for m in messages if m["type"] == "SCHEMA"]
    assert [(m["stream"], m["end_of_stream"]) for m in announced] == [
        ("others", True),
        ("things", True),
        ("things", True),
    ]
    assert marks(messages) == ["others", "things"]
    last = {m.get("stream"): at for at, m in enumerate(messages) if m["type"] != "STATE"}
    ends = {m["end_of_stream"]: at for at, m in enumerate(messages) if m["type"] == "STATE" and "end_of_stream" in m}
    assert last["others"] < ends["others"] < last["things"] < ends["things"] == len(messages) - 1
    assert messages[-1]["value"] == messages[-2]["value"]


@pytest.mark.parametrize("batches", [True, False])
def test_a_stream_that_fails_gets_none(batches: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Widening, "fails", True)
    monkeypatch.setattr(Widening, "rows", _failing_rows)
    messages = run(error=DataError, batches=batches)
    assert marks(messages) == ["others"]
    assert messages[-1]["stream"] == "things"


def _failing_rows(self: Things, encode: Encode[Encoded]) -> Generator[Encoded]:
    yield from encode(pa.RecordBatch.from_pylist([{"id": 1, "name": "n"}]))
    msg = "broken"
    raise DataError(msg)


def test_a_stream_with_nothing_new_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Things, "batches", lambda _: (nothing for nothing in ()))
    messages = sync({"batches": True}, state={"bookmarks": {"things": {"done": 1}}})
    assert messages[-1] == {
        "type": "STATE",
        "value": {"bookmarks": {"things": {"done": 1}}},
        "end_of_stream": "things",
    }


def test_the_first_records_of_a_test_are_no_stream() -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        TapTwo(config={}).run_sync_dry_run(1)
    assert marks([json.loads(line) for line in out.getvalue().splitlines()]) == []


def test_each_schema_has_the_part_of_the_stream_that_the_run_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("shard" in m for m in run())
    monkeypatch.setattr(Things, "shard", "1/3")
    messages = run(stream_maps={"things": {"__alias__": "a"}})
    assert {m["type"] for m in messages if m.get("shard") == "1/3"} == {"SCHEMA"}
    assert all(m["shard"] == "1/3" for m in messages if m["type"] == "SCHEMA")


def test_the_mark_has_the_names_that_stream_maps_give() -> None:
    maps = {"things": {"__alias__": "a"}, "more": {"__source__": "things"}, "others": None}
    messages = run(stream_maps=maps)
    assert sorted(marks(messages)) == ["a", "more"]
    assert {m["stream"] for m in messages if m["type"] == "SCHEMA"} == {"a", "more"}


def test_a_name_of_two_streams_is_marked_behind_the_last_of_them() -> None:
    maps = {"things": {"__alias__": "both"}, "others": {"__alias__": "both"}}
    messages = run(stream_maps=maps)
    assert marks(messages) == ["both"]
    assert messages[-1]["end_of_stream"] == "both"


@pytest.mark.parametrize(
    ("alias", "marked"), [({}, ["things"]), ({"__alias__": "both"}, []), ({"name": None}, ["things"])]
)
def test_a_name_that_a_stream_may_have_that_failed_before_it_was_known_is_not_marked(
    alias: dict[str, Any], marked: list[str]
) -> None:
    class Failing(TapThings):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.failures["others"] = DataError("no schema")

    assert marks(run(Failing, stream_maps={"*": alias} if alias else {})) == marked


class FullTable(Things):
    """A stream with full-table replication."""

    def __init__(self, tap: Any) -> None:
        super().__init__(tap)
        self.forced_replication_method = "FULL_TABLE"


class TapFull(TapThings):
    """A tap with the stream `FullTable`."""

    config_jsonschema: ClassVar[dict[str, Any]] = {
        "properties": {**TapThings.config_jsonschema["properties"], VERSIONS: {"type": "boolean"}}
    }

    def discover_streams(self) -> list[Things]:
        return [FullTable(self)]


def test_a_version_is_activated_once_its_rows_were_sent() -> None:
    kinds = [m["type"] for m in run(TapFull, batches=True, **{VERSIONS: True})]
    assert kinds == ["SCHEMA", "BATCH", "BATCH", "STATE", "ACTIVATE_VERSION", "STATE"]
    kinds = [m["type"] for m in run(TapFull, **{VERSIONS: True})]
    assert kinds[0] == "SCHEMA"
    assert kinds[-2:] == ["ACTIVATE_VERSION", "STATE"]


def test_a_version_of_which_rows_are_missing_is_not_activated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Things, "fails", True)
    assert [m["type"] for m in run(TapFull, DataError, batches=True, **{VERSIONS: True})] == ["SCHEMA", "BATCH"]


class ListSink(BatchSink):
    """Keeps records."""

    records: ClassVar[list[dict[str, Any]]] = []

    def process_batch(self, context: dict[str, Any]) -> None:
        self.records += context["records"]


class ListTarget(Target):
    """An unmodified target of the SDK."""

    name = "target-list"
    config_jsonschema: ClassVar[dict[str, Any]] = {"properties": {}}
    default_sink_class = ListSink


def test_a_target_of_the_sdk_ignores_both_keys(capsys: pytest.CaptureFixture[str]) -> None:
    ListSink.records = []
    messages = sync({})
    ListTarget(config={}).listen(io.StringIO("".join(json.dumps(m) + "\n" for m in messages)))
    assert [r["id"] for r in ListSink.records] == [0, 1, 2]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [messages[-1]["value"]]
