"""Input lines are read unchanged, reads can be interrupted, and a failed target ends at once."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_target import SCHEMA, batch, command, lines

from singer_arrow.reading import chunks as text
from singer_arrow.records.queue import InputLines

STATE = {"type": "STATE", "value": {"n": 1}}


@contextmanager
def pipe(write: Callable[[int], None]) -> Iterator[IO[str]]:
    """Return the read end of a pipe that a thread writes to, and closes."""
    reader, writer = os.pipe()

    def work() -> None:
        try:
            write(writer)
        finally:
            os.close(writer)

    thread = threading.Thread(target=work)
    thread.start()
    with os.fdopen(reader, encoding="utf-8") as source:
        yield source
    thread.join()


def pieces(data: bytes, sizes: list[int]) -> Callable[[int], None]:
    def write(handle: int) -> None:
        at = 0
        for size in [*sizes, len(data)]:
            os.write(handle, data[at : at + size])
            at += size

    return write


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))), st.lists(st.integers(0, 9))
)
def test_lines_are_whole_however_they_come(texts: list[str], sizes: list[int]) -> None:
    data = "\n".join(texts).encode()
    with pipe(pieces(data, sizes)) as source:
        got = list(InputLines().of(source))
    assert b"".join(got) == data
    assert all(chunk.endswith(b"\n") for chunk in got[:-1])


def test_a_line_longer_than_a_pipe() -> None:
    long = "x" * (3 << 20)

    def write(handle: int) -> None:
        with os.fdopen(os.dup(handle), "w") as out:
            out.write(f"{long}\nshort\n{long}")

    with pipe(write) as source:
        got = list(InputLines().of(source))
    assert b"".join(got) == f"{long}\nshort\n{long}".encode()
    assert all(chunk.endswith(b"\n") for chunk in got[:-1])


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_RECORD_BYTES", 1 << 20)
    with pipe(pieces(b"ok\n" + b"x" * (4 << 20) + b"\n", [])) as source, closing(InputLines().of(source)) as read:
        assert next(read) == b"ok\n"
        with pytest.raises(text.LongRecordError):
            next(read)
        source.buffer.read()


def test_files_and_what_has_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb")
    with (tmp_path / "f").open() as source:
        assert list(InputLines().of(source)) == [b"a\n", b"b"]
    assert list(InputLines().of(io.StringIO("a\nb"))) == [b"a\n", b"b"]


def test_who_waits_is_interrupted() -> None:
    some, ended = InputLines(), threading.Event()

    def write(handle: int) -> None:
        os.write(handle, b"one\n")
        ended.wait(20)

    def interrupt() -> None:
        some.interrupt(ValueError("first"))
        some.interrupt(OSError("second"))

    with pipe(write) as source:
        with closing(some.of(source)) as read:
            assert next(read) == b"one\n"
            threading.Timer(0.3, interrupt).start()
            with pytest.raises(ValueError, match="first"):
                next(read)
        ended.set()


def test_an_error_that_came_before_is_raised_at_the_next_line() -> None:
    some = InputLines()
    some.interrupt(ValueError("before"))
    with pytest.raises(ValueError, match="before"):
        next(some.of(io.StringIO("a\nb\n")))


@contextmanager
def target() -> Iterator[subprocess.Popen[str]]:
    """Start a target whose input stays open."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command(), text=True, **streams) as running:  # type: ignore[call-overload]
        yield running
        running.kill()


@pytest.mark.full
def test_a_target_ends_when_a_load_fails_while_nothing_comes() -> None:
    with target() as running:
        running.stdin.write(lines(SCHEMA, batch("good"), STATE))
        running.stdin.flush()
        assert running.stdout.readline() == '{"n":1}\n'
        running.stdin.write(lines(batch("bad"), STATE))
        running.stdin.flush()
        assert running.wait(timeout=60) == 1
        log = running.stderr.read()
        assert "Traceback" not in log
        assert log.splitlines()[-1].endswith("The warehouse refused bad [load]")
        assert running.stdout.read() == ""


@pytest.mark.full
def test_a_signal_ends_a_target_that_waits() -> None:
    with target() as running:
        running.stdin.write(lines(SCHEMA, batch("good"), STATE))
        running.stdin.flush()
        running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 128 + signal.SIGTERM


@pytest.mark.full
def test_a_target_ends_with_its_input() -> None:
    with target() as running:
        out, log = running.communicate(lines(SCHEMA, batch("good"), STATE, batch("a"), {**STATE, "value": {"n": 2}}))
        assert running.returncode == 0, log
        assert out.splitlines()[-1] == '{"n":2}'


@pytest.mark.full
def test_a_target_without_input_is_an_error() -> None:
    ran = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *command()], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith("pipe the messages of a tap into the target [data]")
    assert "Traceback" not in ran.stderr
