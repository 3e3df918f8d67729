"""The exception that a signal raises in the main thread, and its log line.

A signal handler interrupts the main thread anywhere, also while it writes a log line. The log stream is locked then,
and another line from the same thread fails with `RuntimeError: reentrant call`. So handlers only raise, and the line
is logged at the end of the run, outside of the handler.
"""

from __future__ import annotations

import logging
import signal

_raised: list[Terminated] = []


def begin() -> None:
    """Forget signals of an earlier run of this process."""
    _raised.clear()


def received() -> Terminated | None:
    """Return the exception of a signal, if one was received; a library may have replaced it by another error."""
    return _raised[0] if _raised else None


class Terminated(SystemExit):
    """The process ends because of a signal, with exit code 128 + its number; the log line ends with the advice."""

    def __init__(self, signum: int, advice: str = "") -> None:
        super().__init__(128 + signum)
        self._line: str | None = f"Interrupted ({signal.Signals(signum).name}){advice}"
        _raised.append(self)

    def log(self, logger: logging.Logger) -> None:
        """Log the line, unless that was done before."""
        line, self._line = self._line, None
        if line is not None:
            logger.info(line)
