"""What a signal raises in the main thread, and the one line that reports it.

A signal handler runs in the middle of whatever the main thread does, also of writing a line of the log. The stream is
locked then, and another line from the same thread fails with `RuntimeError: reentrant call`. So handlers only raise,
and the line is logged where the run ends, outside of the handler.
"""

from __future__ import annotations

import logging

_raised: list[Terminated] = []


def begin() -> None:
    """Forget signals of an earlier run of this process."""
    _raised.clear()


def received() -> Terminated | None:
    """Return what a signal raised, if one came: a library may have made another error of it."""
    return _raised[0] if _raised else None


class Terminated(SystemExit):
    """The process ends because of a signal, with exit code 128 + its number.

    Args:
        signum: The signal.
        advice: What is added to the line about it.
    """

    def __init__(self, signum: int, advice: str = "") -> None:
        super().__init__(128 + signum)
        self._line: str | None = f"Received signal {signum}{advice}"
        _raised.append(self)

    def log(self, logger: logging.Logger) -> None:
        """Log the line, unless that was done before."""
        line, self._line = self._line, None
        if line is not None:
            logger.info(line)
