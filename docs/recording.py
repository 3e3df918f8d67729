"""Record the first load in docs/pictures/first-load.cast, as asciicast 2; docs/pictures.py draws it.

`python docs/recording.py` starts a local cloud with its sample data and runs the commands in a terminal of 66 columns.
Left out of the recording: time and level of log lines, those on versions and settings, the STATE, and waits.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

CAST = Path(__file__).parent / "pictures/first-load.cast"
COLUMNS, ROWS = 66, 24
LOAD = (
    "tap-s3-files 's3://source/flights/**/*.csv.gz' \\\n"
    "    --batch-root s3://stage/batches |\n"
    "  target-bigquery --config=ENV --dataset raw"
)
STEPS = (
    ("# What do these files hold?", "tap-s3-files 's3://source/airlines/*.jsonl' --preview 3"),
    ("# Load a year of flights: 365 files.", LOAD),
    ("# Once more. Nothing is loaded twice.", LOAD),
)
"""A comment and a command of each step."""
TYPING, LONGEST_WAIT, AFTER = 0.07, 0.6, 1.6
"""Seconds for three letters, without output, and after a command."""
PREFIX = re.compile(r"\d{4}-\d\d-\d\d \S+ \| \w+ +\| ([\w-]+)\S* *\| ")
LEFT_OUT = re.compile(
    r"Meltano SDK v|Skipping parse|Beginning sync|Reader '|\{\"bookmarks|and is left out;|nothing was loaded"
    r"|columns about"
)
Event = tuple[float, str]


def main() -> None:
    """Record, in a local cloud."""
    if "--inside" not in sys.argv:
        tools = Path(sys.executable).parent
        os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
        cloud = [str(tools / "local-cloud"), "run", "--service", "s3,bigquery", "--seed", "--"]
        raise SystemExit(subprocess.run([*cloud, sys.executable, __file__, "--inside"], check=False).returncode)
    lines = [json.dumps({"version": 2, "width": COLUMNS, "height": ROWS, "title": "The first load"})]
    now = 0.0
    for comment, command in STEPS:
        for wait, text in _step(comment, command):
            now += wait
            lines.append(json.dumps([round(now, 2), "o", text], ensure_ascii=False))
    CAST.write_text("\n".join(lines) + "\n")


def _step(comment: str, command: str) -> Iterator[Event]:
    """Yield waits and texts of a step: its command as it is typed, and its output."""
    yield 0.3, f"\x1b[32m{comment}\x1b[0m\r\n\x1b[36m$\x1b[0m "
    for start in range(0, len(command), 3):
        yield TYPING, command[start : start + 3].replace("\n", "\r\n")
    yield 0.3, "\r\n"
    last = time.monotonic()
    for text in _output(command):
        yield min(time.monotonic() - last, LONGEST_WAIT), text
        last = time.monotonic()
    yield AFTER, "\r\n"


def _output(command: str) -> Iterator[str]:
    """Run a command in a terminal, and yield what it shows there."""
    child, terminal = pty.fork()
    if not child:
        os.execvp("bash", ["bash", "-o", "pipefail", "-c", command])  # noqa: S606  commands of this file
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    kept = b""
    while True:
        try:
            kept += os.read(terminal, 65536)
        except OSError:  # the end, on Linux
            break
        *whole, kept = kept.split(b"\r\n")
        shown = "".join(f"{line}\r\n" for each in whole if (line := _line(each.decode())) is not None)
        if kept.startswith(b"\r\x1b[2K") and b"\x1b[1m" in kept and b"{" not in kept:  # a row of progress
            shown, kept = shown + kept.decode(), b""
        if shown:
            yield shown
    assert os.waitpid(child, 0)[1] == 0, command


def _line(text: str) -> str | None:
    """Return a line of the output as the recording has it; None if it is left out."""
    cleared = "\r\x1b[2K" if "\x1b[2K" in text else ""
    text = text.rpartition("\x1b[2K")[2]
    if LEFT_OUT.search(text):
        return None
    return cleared + PREFIX.sub(lambda match: f"\x1b[1m{match[1]}\x1b[0m | ", text)


if __name__ == "__main__":
    main()
