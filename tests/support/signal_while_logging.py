"""Run a connector that receives a signal while it writes a log line.

Usage: `python signal_while_logging.py SIGNAL TEXT EXECUTABLE [ARGUMENTS]`

The line is the first that contains TEXT. The stream is locked when the signal arrives.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from importlib import import_module
from typing import Any


class Signalling(io.RawIOBase):
    """Unbuffered standard error that sends the signal while it writes the line."""

    def __init__(self, number: signal.Signals, text: bytes) -> None:
        self._number, self._text = number, text

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        line = bytes(data)
        if self._text and self._text in line:
            self._text = b""
            signal.raise_signal(self._number)  # as in a blocked write(2): nothing is written yet
        return os.write(2, line)


def main() -> None:
    """Run the connector."""
    number, text, executable = signal.Signals[sys.argv[1]], sys.argv[2].encode(), sys.argv[3]
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(Signalling(number, text)), line_buffering=True)
    del sys.argv[:3]
    sys.argv[0] = executable
    import_module(f"{executable.replace('-', '_')}.__main__").main()


if __name__ == "__main__":
    main()
