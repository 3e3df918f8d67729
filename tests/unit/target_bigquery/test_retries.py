"""What an error calls for, and how long the pauses are."""

from __future__ import annotations

import itertools

import pytest

from target_bigquery.retries import Kind, classify, pauses


@pytest.mark.parametrize(
    ("code", "reason", "message", "kind"),
    [
        (403, "rateLimitExceeded", "Exceeded rate limits: too many table update operations for this table", Kind.RETRY),
        (403, "quotaExceeded", "Quota exceeded: Your table exceeded quota for imports per table", Kind.QUOTA),
        (403, "accessDenied", "Access Denied", Kind.DENIED),
        (403, None, "Forbidden", Kind.DENIED),
        (401, "authError", "Invalid Credentials", Kind.DENIED),
        (404, "notFound", "Not found: Table", Kind.MISSING),
        (409, "duplicate", "Already Exists: Job", Kind.EXISTS),
        (412, "conditionNotMet", "Precondition Failed", Kind.CHANGED),
        (400, "invalid", "Provided Schema does not match", Kind.OTHER),
        (400, "invalidQuery", "Could not serialize access to table due to concurrent update", Kind.RETRY),
        (500, "backendError", "", Kind.RETRY),
        (503, None, "", Kind.RETRY),
        (429, None, "", Kind.RETRY),
        (None, "backendError", "", Kind.RETRY),
        (None, "jobRateLimitExceeded", "", Kind.RETRY),
        (None, "notFound", "", Kind.MISSING),
        (None, "invalid", "", Kind.OTHER),
    ],
)
def test_kinds(code: int | None, reason: str | None, message: str, kind: Kind) -> None:
    assert classify(code, reason, message) is kind


def test_pauses_double_up_to_a_limit_and_end() -> None:
    now = itertools.count()
    waits = list(pauses(10, first=1, most=4, clock=lambda: next(now), chance=lambda: 1.0))
    assert waits == [1, 2, 4, 4, 4, None]
    assert list(pauses(0)) == [None]


def test_pauses_hold_chance() -> None:
    first = [next(pauses(100, first=8)) for _ in range(50)]
    assert all(4 <= (p or 0) <= 8 for p in first)
    assert len(set(first)) > 10
