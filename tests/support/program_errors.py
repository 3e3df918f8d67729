"""Extract the error line of a failed program."""

from __future__ import annotations

import re

from local_cloud.programs import Ran


def error_of(ran: Ran) -> str:
    """Return the one error line of a failed run, without time, logger and code; it must have a code."""
    assert ran.code == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    errors = [line for line in ran.stderr.splitlines() if "| ERROR " in line or " | " not in line]
    assert len(errors) == 1, ran.stderr
    found = re.fullmatch(r"(.*) \[[a-z-]+\]", errors[0].split(" | ", 3)[-1])
    assert found is not None, errors[0]
    return found[1]


def check_contains(line: str, *words: str) -> None:
    """Check that the line contains all of the words."""
    lacking = [word for word in words if word not in line]
    assert not lacking, f"{line!r} lacks {lacking}"
