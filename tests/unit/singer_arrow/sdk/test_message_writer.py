"""Only whole lines are written, for any speed of the reader and any interruption."""

from __future__ import annotations

import inspect
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

import pytest
from singer_sdk.io_base import SingerWriter
from singer_sdk.singerlib import StateMessage

from singer_arrow.errors import ServiceError
from singer_arrow.sdk import message_writer as module
from singer_arrow.sdk.message_writer import LineWriter

LINES = [json.dumps({"n": n, "text": "é" * (n % 100)}) for n in range(20_000)]
BLOCK = memoryview("".join(line + "\n" for line in LINES).encode())


class Reader(threading.Thread):
    """Reads a pipe, some KB at a time."""

    def __init__(self, handle: int, then: Callable[[bytearray], object]) -> None:
        super().__init__()
        self.handle, self.then, self.data = handle, then, bytearray()

    def run(self) -> None:
        while part := os.read(self.handle, 10_000):
            self.data += part
            self.then(self.data)

    def lines(self) -> list[Any]:
        assert not self.data or self.data.endswith(b"\n")
        return [json.loads(line) for line in self.data.splitlines()]


@contextmanager
def taken(then: Callable[[bytearray], object] = len) -> Iterator[Reader]:
    """Make standard output a pipe, which is read until the block ends."""
    handle, writer = os.pipe()
    reader = Reader(handle, then)
    reader.start()
    try:
        with os.fdopen(writer, "w") as stream, redirect_stdout(stream):
            yield reader
    finally:
        reader.join()
        os.close(handle)


def test_the_sdk_still_has_what_the_writer_uses() -> None:
    assert list(inspect.signature(SingerWriter.write_message).parameters) == ["self", "message"]
    assert "sys.stdout.write(self.format_message(message) +" in inspect.getsource(SingerWriter.write_message)


def test_blocks_and_messages_leave_in_order() -> None:
    with taken() as reader:
        writer = LineWriter()
        for _ in range(2):
            writer.write_message(StateMessage({"bookmarks": {}}))
            writer.write_lines(BLOCK)
    once = [{"type": "STATE", "value": {"bookmarks": {}}}, *map(json.loads, LINES)]
    assert reader.lines() == once * 2


def test_output_that_is_no_file_gets_the_same() -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        LineWriter().write_lines(BLOCK)
    assert out.getvalue().splitlines() == LINES


@pytest.mark.parametrize("at_once", [1 << 20, 4099])
def test_a_signal_within_a_block_takes_effect_after_the_line(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITE_BYTES", at_once)
    writer = LineWriter()
    stopped = threading.Event()

    def stop(data: bytearray) -> None:
        if len(data) > 100_000 and not stopped.is_set():
            stopped.set()
            writer.stop(15)  # as the handler does; of a block that is being written, it only makes a note

    with taken(stop) as reader, pytest.raises(SystemExit) as ended:
        writer.write_lines(BLOCK)
    assert ended.value.code == 128 + 15
    found = reader.lines()
    assert found == [json.loads(line) for line in LINES[: len(found)]]
    assert 0 < len(found) < len(LINES)


@pytest.mark.parametrize(("data", "at", "end"), [(b"ab\ncd\n", 1, 3), (b"ab\ncd\n", 3, 3), (b"ab\ncd\n", 4, 6)])
def test_where_the_line_ends_that_is_begun(data: bytes, at: int, end: int) -> None:
    assert module._line_end(memoryview(data), at) == end
    long = b"x" * 200_000 + b"\n"
    assert module._line_end(memoryview(long + data), 5) == len(long)


def test_an_exit_that_was_swallowed_comes_with_the_next_block() -> None:
    writer = LineWriter()
    with suppress(SystemExit):
        writer.stop(2)
    with taken() as reader, pytest.raises(SystemExit) as ended:
        writer.write_lines(BLOCK)
    assert ended.value.code == 130
    assert reader.data == b""


@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_within_a_line_after_unwinding_waits_for_it_once(signals: int) -> None:
    writer = LineWriter()
    with pytest.raises(SystemExit):
        writer.stop(15)
    writer.has_unwound = True  # as `StateMessages.flush` sets it
    ended = list[int | str | None]()

    def stop(data: bytearray) -> None:
        if len(data) > 100_000 and not ended:
            ended.append(0)
            for _ in range(signals):
                try:
                    writer.stop(15)  # as the handler does, which would raise in the thread that writes
                except SystemExit as error:
                    ended.append(error.code)

    state = StateMessage({"bookmarks": {"a": "x" * 3_000_000}})
    with taken(stop) as reader:
        writer.write_message(state)
    assert reader.lines() == [state.to_dict()]
    assert ended == [0, 143][:signals]


WRITES = """
import signal, sys
from singer_sdk.singerlib import StateMessage
from singer_arrow.sdk.message_writer import LineWriter

writer = LineWriter()
signal.signal(signal.SIGTERM, lambda number, _: writer.stop(number))
writer.write_message(StateMessage({"bookmarks": {"a": "x" * 3_000_000}}))
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])  # then Python loses what a write that was interrupted has left
@pytest.mark.full
def test_a_signal_within_a_long_message_takes_effect_after_it(unbuffered: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen([sys.executable, "-c", WRITES], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        begun = process.stdout.read(10)
        process.send_signal(signal.SIGTERM)
        line = begun + process.stdout.read()
    assert process.returncode == 143
    assert line.endswith(b"\n")
    assert len(json.loads(line)["value"]["bookmarks"]["a"]) == 3_000_000


def test_a_target_that_is_gone_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "discard_output", lambda: None)  # it would end the output of the tests too
    handle, end = os.pipe()
    os.close(handle)
    with os.fdopen(end, "w") as stream, redirect_stdout(stream), pytest.raises(ServiceError, match="closed the pipe"):
        LineWriter().write_lines(BLOCK)
