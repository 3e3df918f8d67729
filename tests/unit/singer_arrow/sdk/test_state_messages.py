"""STATE of many streams: as many bytes as the other messages, whatever the number of streams; no end mark is lost."""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from singer_sdk import Stream, Tap
from singer_sdk.helpers._state import StateWriter
from waiting_tap import BATCH, SCHEMA, TapThings

from singer_arrow.batch.message import Batch
from singer_arrow.errors import ConfigError
from singer_arrow.sdk import message_writer as module
from singer_arrow.sdk.message_writer import LineWriter
from singer_arrow.sdk.tap import ArrowStream, Encode, Encoded

COUNT = 300


class Folder(ArrowStream):
    """One of many streams, with a bookmark of some 200 bytes."""

    def __init__(self, tap: Tap, name: str) -> None:
        super().__init__(tap, schema=SCHEMA, name=name)
        self.forced_replication_method = "INCREMENTAL"

    def batch_encoding(self) -> tuple[str, str, str] | None:
        return ("parquet", "zstd", "file:///tmp") if self.config.get("batches") else None

    def batches(self) -> Generator[Batch | Mapping[str, Any]]:
        yield replace(BATCH, stream=self.name)
        TapMany.within(self)
        yield self.entry

    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        yield from encode(pa.RecordBatch.from_pylist([{"id": 1, "name": "n"}]))
        TapMany.within(self)
        self.write_state(self.entry)

    @property
    def entry(self) -> dict[str, Any]:
        return {"done": self.name, "watermark": "x" * 200}


class TapMany(TapThings):
    """A tap of many streams."""

    count = COUNT
    within: Callable[[Stream], object] = staticmethod(lambda _: None)

    def discover_streams(self) -> list[Any]:
        return [Folder(self, f"s{number:05}") for number in range(self.count)]


def lines_of(*, batches: bool, state: Any = None, error: type[BaseException] | None = None) -> list[str]:
    out = io.StringIO()
    with redirect_stdout(out):
        tap = TapMany(config={"batches": batches}, state=state)
        if error is None:
            tap.sync_all()
        else:
            with pytest.raises(error):
                tap.sync_all()
    return out.getvalue().splitlines()


def states(lines: list[str]) -> list[dict[str, Any]]:
    return [message for message in map(json.loads, lines) if message["type"] == "STATE"]


def marks(lines: list[str]) -> list[str]:
    found = [state["end_of_stream"] for state in states(lines) if "end_of_stream" in state]
    return [name for names in found for name in (names if isinstance(names, list) else [names])]


def names(count: int) -> list[str]:
    return [f"s{number:05}" for number in range(count)]


def sizes(lines: list[str]) -> tuple[int, int]:
    """Return the bytes of STATE, and of other messages."""
    of_states = sum(len(line) for line in lines if '"type":"STATE"' in line)
    return of_states, sum(map(len, lines)) - of_states


def test_the_sdk_still_has_what_is_replaced() -> None:
    assert "self._state_writer: StateWriter = StateWriter(self.message_writer)" in inspect.getsource(Tap.__init__)
    assert "self._tap.state_writer.write_state(self.tap_state)" in inspect.getsource(Stream._write_state_message)
    assert list(inspect.signature(StateWriter.write_state).parameters) == ["self", "state"]


@pytest.mark.parametrize("batches", [True, False], ids=["BATCH", "RECORD"])
@pytest.mark.full
def test_states_have_as_many_bytes_as_other_messages(batches: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STATE_BYTES_PER_SECOND", 0)
    of_states = dict[int, int]()
    for count in (COUNT, 4 * COUNT):
        monkeypatch.setattr(TapMany, "count", count)
        lines = lines_of(batches=batches)
        of_states[count], others = sizes(lines)
        assert of_states[count] < 2 * others + (2 << 20), "of small ones, 2 MiB at most"
        assert marks(lines) == names(count)
        assert list(states(lines)[-1]["value"]["bookmarks"]) == names(count)
        again = lines_of(batches=batches, state=states(lines)[-1]["value"])
        assert states(again)[0]["value"] == states(again)[-1]["value"] == states(lines)[-1]["value"]
        assert marks(again) == names(count)
    assert of_states[4 * COUNT] < 5 * of_states[COUNT]


@pytest.mark.full
def test_each_second_makes_some_bytes_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STATE_BYTES_PER_SECOND", 1 << 60)
    found = states(lines_of(batches=True))
    assert [state["end_of_stream"] for state in found if "end_of_stream" in state] == names(COUNT)


@pytest.mark.parametrize("batches", [True, False], ids=["BATCH", "RECORD"])
def test_what_waits_leaves_behind_messages_of_a_stream_without_states(
    batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow_batches(stream: Folder) -> Generator[Batch | Mapping[str, Any]]:
        yield from [replace(BATCH, stream=stream.name)] * 100
        yield stream.entry

    def slow_rows(stream: Folder, encode: Encode[Encoded]) -> Generator[Encoded]:
        for number in range(100):
            yield from encode(pa.RecordBatch.from_pylist([{"id": number, "name": "n" * 200}]))
        stream.write_state(stream.entry)

    monkeypatch.setattr(module, "_SMALL_STATE", 1)
    monkeypatch.setattr(module, "_STATE_BYTES_PER_SECOND", 0)
    monkeypatch.setattr(TapMany, "count", 8)
    monkeypatch.setattr(Folder, "batches", slow_batches)
    monkeypatch.setattr(Folder, "rows", slow_rows)
    lines = [json.loads(line) for line in lines_of(batches=batches)]
    assert marks(list(map(json.dumps, lines))) == names(8)
    kinds = [message["type"] for message in lines]
    for name in names(8)[2:-1]:  # between messages of the next stream
        at = next(n for n, line in enumerate(lines) if kinds[n] == "STATE" and name in line.get("end_of_stream", ""))
        assert kinds[at - 1] == kinds[at + 1] == ("BATCH" if batches else "RECORD"), name


def ends_run(stream: Stream) -> None:
    if stream.name == names(COUNT)[-2]:
        error = ConfigError("of the whole run")
        error.ends_run = True
        raise error


def is_stopped(stream: Stream) -> None:
    if stream.name == names(COUNT)[-2]:
        assert isinstance(stream._tap.message_writer, LineWriter)
        stream._tap.message_writer.stop(15)


@pytest.mark.parametrize("batches", [True, False], ids=["BATCH", "RECORD"])
@pytest.mark.parametrize(("within", "error"), [(ends_run, ConfigError), (is_stopped, SystemExit)])
@pytest.mark.full("is_stopped-SystemExit-RECORD")
def test_what_waits_is_written_when_the_run_ends_early(
    batches: bool, within: Callable[[Stream], object], error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TapMany, "within", staticmethod(within))
    lines = lines_of(batches=batches, error=error)
    assert marks(lines) == names(COUNT - 2)
    last = json.loads(lines[-1])
    entries = last["value"]["bookmarks"].items()
    sent = [name for name, entry in entries if entry != {"done": -1}]
    assert (last["type"], len(entries), sent) == ("STATE", COUNT, names(COUNT - 2))
