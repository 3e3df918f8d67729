"""Write STATE messages of a target to standard output."""

from __future__ import annotations

import sys

from singer_sdk.singerlib.json import serialize_json

from singer_arrow.errors import ServiceError
from singer_arrow.load.checkpoint import State
from singer_arrow.sdk.plugin import discard_output

_UNREAD = "The reader of the target's STATE has closed the pipe; the program that ran the target has probably ended"
_UNWRITTEN = "STATE cannot be written to standard output"


class StateOutput:
    """Writes STATE messages; after one could not be written, all later ones raise the same error."""

    def __init__(self) -> None:
        self._failure: str | None = None

    def write(self, state: State) -> None:
        """Write a STATE and flush standard output; ServiceError if this or an earlier one could not be written."""
        if sys.stdout is None:
            self._failure = f"{_UNWRITTEN}: it is closed"
        self.check()
        try:
            sys.stdout.write(serialize_json(state) + "\n")
            sys.stdout.flush()
        except OSError as error:
            self._failure = _UNREAD if isinstance(error, BrokenPipeError) else f"{_UNWRITTEN}: {error.strerror}"
            discard_output()
        self.check()

    def check(self) -> None:
        """Raise ServiceError if an earlier STATE could not be written."""
        if self._failure is not None:
            raise ServiceError(self._failure)
