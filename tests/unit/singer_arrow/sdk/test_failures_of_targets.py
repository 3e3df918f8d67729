"""No STATE that covers a lost row leaves a target, for failures of any kind at any point."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from recording_target import RecordingTable, RecordingTarget
from singer_lines import states

from singer_arrow.batch import files
from singer_arrow.errors import DataError
from singer_arrow.records.parse import ParsedLines, RecordParser
from singer_arrow.records.queue import Block, RecordQueue
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.sdk.target import RecordLineRouter

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture(autouse=True)
def fresh() -> None:
    RecordingTable.methods = []


class Overtaken(RecordingTarget):
    """A target whose old records are drained right before it takes given lines."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message_reader.record_lines = OvertakenLines(self)


class OvertakenLines(RecordLineRouter):
    """A router of input lines that drains the old records of `Overtaken` first."""

    comes_before = b'"id": 3'

    def __init__(self, target: Overtaken) -> None:
        super().__init__(target.run, target._sinks)
        self._target = target

    def take(self, stream: str, lines: bytes, first: int, count: int) -> None:
        if self.comes_before in lines:
            self._target.ticker.drain_old_records()
        super().take(stream, lines, first, count)


def line(kind: str, **more: Any) -> bytes:
    return json.dumps({"type": kind, **more}).encode() + b"\n"


def schema() -> bytes:
    return line("SCHEMA", stream="s", schema=SCHEMA, key_properties=[])


def record(number: Any) -> bytes:
    return line("RECORD", stream="s", record={"id": number})


def state(number: int) -> bytes:
    return line("STATE", value={"n": number})


RECORDS_AND_STATES = [message(number) for number in (1, 3, 4) for message in (record, state)]


def source(*lines: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(b"".join(lines)), encoding="utf-8")


def loaded() -> list[int]:
    return [row["id"] for method in RecordingTable.methods for part in method.loaded_items for row in part.records]


def failure(target: RecordingTarget, *lines: bytes) -> BaseException:
    """Return the exception that ends a run, in the order of `invoke`."""
    try:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the tests look at it
            target.listen(source(*lines))
        try:
            target.run.abandon(caught.value)
        except DataError as earlier:
            return earlier
        return caught.value
    finally:
        target.run.close()


def test_nothing_is_taken_after_the_ticker_has_found_a_bad_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [schema(), record(1), state(1), record("x"), record(2), state(2), record(3), state(3), record(4), state(4)]
    error = failure(Overtaken(config={"max_batch_age_seconds": 0}), *lines)
    assert "Line 4 " in str(error)
    assert states(capsys.readouterr().out) == [1]
    assert loaded() == [1]


def test_the_first_bad_line_is_the_error_though_another_ends_the_reading(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [schema(), record(1), state(1), record("x"), state(2), b"null\n", state(3)]
    assert "Line 4 " in str(failure(RecordingTarget(config={}), *lines))
    assert states(capsys.readouterr().out) == [1]


def test_records_that_are_all_bad_wait_no_longer_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    handed_over = list[int]()

    target = Overtaken(config={"on_bad_row": "dead_letter", "max_batch_age_seconds": 0})
    drain_old_records = target.ticker.drain_old_records

    def watched() -> None:
        drain_old_records()
        if not any(stream.waiting for stream in target.run.streams()):
            handed_over.append(target.run.tallies.of("s").counts().get("records", 0))

    monkeypatch.setattr(target.ticker, "drain_old_records", watched)
    try:
        target.listen(source(schema(), record("x"), record("y"), state(1), record(3)))
    finally:
        target.run.close()
    assert 2 in handed_over


def test_no_state_passes_a_file_that_the_ticker_could_not_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = files.write_record_spool, [OSError("No space left on device")]

    class Writer:
        def __init__(self, path: Path, schema: pa.Schema) -> None:
            self.inner = write(path, schema)
            self.write_batch = self.inner.write_batch

        def close(self) -> None:
            if failures:
                raise failures.pop()
            self.inner.close()

    monkeypatch.setattr(files, "write_record_spool", Writer)
    error = failure(Overtaken(config={"max_batch_age_seconds": 0}), schema(), *RECORDS_AND_STATES)
    assert isinstance(error, OSError)
    assert states(capsys.readouterr().out) == []
    assert loaded() == []


@pytest.mark.parametrize("error", [DataError("it does not fit"), OSError("No space left on device")])
def test_no_state_passes_records_that_could_not_be_handed_over(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_over, failures = RecordingTable.take_records, [error]

    def take_records(self: RecordingTable, *args: Any, **options: Any) -> None:
        if failures:
            raise failures.pop()
        hand_over(self, *args, **options)

    monkeypatch.setattr(RecordingTable, "take_records", take_records)
    found = failure(Overtaken(config={"max_batch_age_seconds": 0}), schema(), *RECORDS_AND_STATES)
    assert found is error
    assert states(capsys.readouterr().out) == []
    assert 1 not in loaded()


def test_the_ticker_leaves_alone_what_a_signal_broke_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = RecordingTarget(config={})
    monkeypatch.setattr(
        target.message_reader.record_lines, "flush", lambda: None
    )  # the signal comes before the end of the input
    target.process_lines(source(schema(), record(1), state(1)))
    with pytest.raises(SystemExit) as caught:
        target._handle_termination(signal.SIGTERM, None)
    assert target.run.record_queue.is_due(0)
    monkeypatch.setattr(RecordQueue, "flush", lambda _: pytest.fail("it was taken"))
    monkeypatch.setattr(RecordQueue, "is_due", lambda *_: True)
    target.ticker.drain_old_records()
    target.run.abandon(caught.value)
    target.run.close()
    assert loaded() == []
    assert states(capsys.readouterr().out) == []


class Failing:
    """Accepts rows until it fails."""

    stream_name = "s"

    def __init__(self, error: BaseException) -> None:
        self.error, self.rows = error, 0
        fields = from_json_schema(SCHEMA)
        self.parser = RecordParser(fields, around=(), rules=None, check=lambda _: None, checks_types=False)

    def take_parsed(self, parsed: ParsedLines, lines: int, block: Block) -> None:
        self.rows += parsed.rows_of(lines)
        raise self.error


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt(), pa.ArrowInvalid("no")])
def test_an_intake_that_failed_takes_nothing_more(error: BaseException) -> None:
    states = list[Mapping[str, Any]]()
    record_queue, sink = RecordQueue(1, states.append), Failing(error)
    record_queue.add(sink, record(1), 1, 1)
    record_queue.state(2, {"n": 1})
    again: Sequence[Any] = [
        record_queue.flush,
        lambda: record_queue.state(3, {"n": 2}),
        lambda: record_queue.add(sink, record(2), 4, 1),
        record_queue.flush,
        record_queue.check,
    ]
    for call in again:
        with pytest.raises(type(error)) as caught:
            call()
        assert caught.value is error
    assert not record_queue.is_due(0)
    assert (states, sink.rows) == ([], 1)
    record_queue.stop()
