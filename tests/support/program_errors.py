"""Extract the error line of a failed program."""

from __future__ import annotations

from local_cloud.programs import Ran


def error_of(ran: Ran) -> str:
    """Return the one error line of a failed run, without time and logger."""
    assert ran.code == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    errors = [line for line in ran.stderr.splitlines() if "| ERROR " in line or " | " not in line]
    assert len(errors) == 1, ran.stderr
    return errors[0].split(" | ", 3)[-1]


def check_contains(line: str, *words: str) -> None:
    """Check that the line contains all of the words."""
    lacking = [word for word in words if word not in line]
    assert not lacking, f"{line!r} lacks {lacking}"
