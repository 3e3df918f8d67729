"""Where a target writes STATE: standard output."""

from __future__ import annotations

import sys

from singer_sdk.singerlib.json import serialize_json

from singer_arrow.errors import ServiceError
from singer_arrow.load.checkpoint import State
from singer_arrow.sdk.plugin import discard_output

_UNREAD = "Nobody reads the STATE that the target writes; whatever ran it has ended"
_UNWRITTEN = "STATE cannot be written to standard output"


class StateOutput:
    """Writes STATE messages; once one could not be written, no later one is, although nothing hinders its writing."""

    def __init__(self) -> None:
        self._failure: str | None = None

    def write(self, state: State) -> None:
        """Write a STATE, which has left the process then.

        Raises:
            ServiceError: It could not be written, or one before it.
        """
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
        """Raise where a STATE could not be written.

        Raises:
            ServiceError: See above.
        """
        if self._failure is not None:
            raise ServiceError(self._failure)
