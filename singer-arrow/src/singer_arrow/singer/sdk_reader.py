"""How a target reads messages: line by line, and what is none of Singer's ends the run in one line.

The privates used here are listed in `tests/unit/singer_arrow/test_sdk_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import IO, Any

from singer_sdk.io_base import SingerReader
from singer_sdk.singerlib.json import deserialize_json

from singer_arrow.errors import DataError
from singer_arrow.singer.lines import Lines


class LineReader(SingerReader):
    """Reads messages; what is none of Singer's ends the run in one line that names the line of the input."""

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._lines = Lines()

    def process_lines(self, file_input: IO[str] | None, callbacks: dict[str, Callable[[dict[str, Any]], None]]) -> Any:
        """Read all lines.

        Raises:
            DataError: There is no input, or a line is no text.
            BaseException: What `interrupt` was given.
        """
        given = file_input or self.default_input
        if given is None:
            msg = "There is no input: standard input is closed; pipe the messages of a tap into the target"
            raise DataError(msg)
        source: Any = self._lines.of(given)  # all that the SDK does is to iterate
        try:
            with contextlib.closing(source):
                return super().process_lines(source, callbacks)
        except UnicodeDecodeError as error:
            msg = f"The input is no UTF-8 after line {self._number} ({error.reason}); the tap must write UTF-8"
            raise DataError(msg) from None

    def interrupt(self, error: BaseException) -> None:
        """End the reading with an error, at once, also while it waits for a line; from any thread."""
        self._lines.interrupt(error)

    def deserialize_json(self, line: str | bytes) -> dict[str, Any]:
        """Read a line.

        Raises:
            DataError: It is no JSON object.
        """
        self._number += 1
        try:
            message = deserialize_json(line)
        except (ValueError, RecursionError) as error:
            msg = f"Line {self._number} of the input is no JSON ({error}): {_shortened(line)}"
            raise DataError(msg) from None
        if not isinstance(message, dict):
            msg = f"Line {self._number} of the input is no Singer message: {_shortened(line)}"
            raise DataError(msg)
        return message

    def _process_unknown_message(self, message_dict: dict[str, Any]) -> None:
        kind = message_dict["type"]
        msg = f"Line {self._number} of the input is a message of type {kind!r}, which Singer does not know"
        raise DataError(msg)

    @staticmethod
    def assert_line_requires(line_dict: dict[str, Any], requires: set[str]) -> None:
        """See the SDK; but the message itself, which may be long and private, is not repeated.

        Raises:
            DataError: A key is missing.
        """
        if missing := requires - line_dict.keys():
            kind = line_dict.get("type", "")
            of = f" of stream {line_dict['stream']!r}" if "stream" in line_dict else ""
            msg = (
                f"A {kind} message{of} lacks {', '.join(repr(m) for m in sorted(missing))}; this is an error of the tap"
            )
            raise DataError(" ".join(msg.split()))


def _shortened(line: str | bytes) -> str:
    text = line if isinstance(line, str) else line.decode(errors="replace")
    return repr(text[:80] + ("..." if len(text) > 80 else ""))
