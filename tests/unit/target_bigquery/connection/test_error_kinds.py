"""What an error calls for."""

from __future__ import annotations

import pytest

from target_bigquery.connection.error_kinds import Kind, classify


@pytest.mark.parametrize(
    ("code", "reason", "message", "kind"),
    [
        (403, "rateLimitExceeded", "Exceeded rate limits: too many table update operations for this table", Kind.RETRY),
        (403, "quotaExceeded", "Quota exceeded: Your table exceeded quota for imports per table", Kind.QUOTA),
        (500, "bytesBilledLimitExceeded", "Query exceeded limit for bytes billed: 1", Kind.LIMIT),
        (None, "bytesBilledLimitExceeded", "", Kind.LIMIT),
        (403, "quotaExceeded", "Quota exceeded: Your project exceeded quota for concurrent queries", Kind.RETRY),
        (403, "quotaExceeded", "Quota exceeded: too many api requests per user per method per 100 seconds", Kind.RETRY),
        (403, "quotaExceeded", "Quota exceeded: Your project exceeded quota for free query bytes scanned", Kind.QUOTA),
        (403, "quotaExceeded", "Your project exceeded quota for maximum number of concurrent requests", Kind.RETRY),
        (403, "quotaExceeded", "Exceeds quota: CreateWriteStream requests per minute per project", Kind.RETRY),
        (
            403,
            "quotaExceeded",
            "Table p.d.t exceeded quota for total number of dml jobs, pending + running",
            Kind.RETRY,
        ),
        (403, "quotaExceeded", "Your table p.d.concurrent_users exceeded quota for imports per table", Kind.QUOTA),
        (403, "quotaExceeded", "Your table p:d.per minute exceeded quota for imports per table", Kind.QUOTA),
        (403, "quotaExceeded", "Your table `per second` exceeded quota for imports per table", Kind.QUOTA),
        (403, "quotaExceeded", "Your table my-p.d.requests_per_minute exceeded quota for imports", Kind.QUOTA),
        (400, "resourcesExceeded", "Too many DML statements outstanding against table t, limit is 20.", Kind.RETRY),
        (400, "resourcesExceeded", "Query exceeded resource limits", Kind.OTHER),
        (400, "tableUnavailable", "", Kind.RETRY),
        (504, None, "", Kind.RETRY),
        (403, "accessDenied", "Access Denied", Kind.DENIED),
        (403, None, "Forbidden", Kind.DENIED),
        (401, "authError", "Invalid Credentials", Kind.DENIED),
        (404, "notFound", "Not found: Table", Kind.MISSING),
        (409, "duplicate", "Already Exists: Job", Kind.EXISTS),
        (412, "conditionNotMet", "Precondition Failed", Kind.CHANGED),
        (400, "invalid", "Provided Schema does not match", Kind.OTHER),
        (400, "invalidQuery", "ALTER COLUMN SET DATA TYPE requires that the type is assignable", Kind.REFUSED),
        (None, "invalidQuery", "", Kind.REFUSED),
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
