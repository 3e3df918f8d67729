"""Classification of BigQuery errors by the required reaction."""

from __future__ import annotations

import pytest

from target_bigquery.resources import ErrorKind, classify


@pytest.mark.parametrize(
    ("code", "reason", "message", "kind"),
    [
        (
            403,
            "rateLimitExceeded",
            "Exceeded rate limits: too many table update operations for this table",
            ErrorKind.RETRY,
        ),
        (403, "quotaExceeded", "Quota exceeded: Your table exceeded quota for imports per table", ErrorKind.QUOTA),
        (500, "bytesBilledLimitExceeded", "Query exceeded limit for bytes billed: 1", ErrorKind.LIMIT),
        (None, "bytesBilledLimitExceeded", "", ErrorKind.LIMIT),
        (403, "quotaExceeded", "Quota exceeded: Your project exceeded quota for concurrent queries", ErrorKind.RETRY),
        (
            403,
            "quotaExceeded",
            "Quota exceeded: too many api requests per user per method per 100 seconds",
            ErrorKind.RETRY,
        ),
        (
            403,
            "quotaExceeded",
            "Quota exceeded: Your project exceeded quota for free query bytes scanned",
            ErrorKind.QUOTA,
        ),
        (
            403,
            "quotaExceeded",
            "Your project exceeded quota for maximum number of concurrent requests",
            ErrorKind.RETRY,
        ),
        (403, "quotaExceeded", "Exceeds quota: CreateWriteStream requests per minute per project", ErrorKind.RETRY),
        (
            403,
            "quotaExceeded",
            "Table p.d.t exceeded quota for total number of dml jobs, pending + running",
            ErrorKind.RETRY,
        ),
        (403, "quotaExceeded", "Your table p.d.concurrent_users exceeded quota for imports per table", ErrorKind.QUOTA),
        (403, "quotaExceeded", "Your table p:d.per minute exceeded quota for imports per table", ErrorKind.QUOTA),
        (403, "quotaExceeded", "Your table `per second` exceeded quota for imports per table", ErrorKind.QUOTA),
        (403, "quotaExceeded", "Your table my-p.d.requests_per_minute exceeded quota for imports", ErrorKind.QUOTA),
        (
            400,
            "resourcesExceeded",
            "Too many DML statements outstanding against table t, limit is 20.",
            ErrorKind.RETRY,
        ),
        (400, "resourcesExceeded", "Query exceeded resource limits", ErrorKind.OTHER),
        (400, "tableUnavailable", "", ErrorKind.RETRY),
        (504, None, "", ErrorKind.RETRY),
        (403, "accessDenied", "Access Denied", ErrorKind.DENIED),
        (403, None, "Forbidden", ErrorKind.DENIED),
        (401, "authError", "Invalid Credentials", ErrorKind.LOGIN),
        (404, "notFound", "Not found: Table", ErrorKind.MISSING),
        (409, "duplicate", "Already Exists: Job", ErrorKind.EXISTS),
        (412, "conditionNotMet", "Precondition Failed", ErrorKind.CHANGED),
        (400, "invalid", "Provided Schema does not match", ErrorKind.OTHER),
        (400, "invalidQuery", "ALTER COLUMN SET DATA TYPE requires that the type is assignable", ErrorKind.REFUSED),
        (None, "invalidQuery", "", ErrorKind.REFUSED),
        (400, "invalidQuery", "Could not serialize access to table due to concurrent update", ErrorKind.RETRY),
        (500, "backendError", "", ErrorKind.RETRY),
        (503, None, "", ErrorKind.RETRY),
        (429, None, "", ErrorKind.RETRY),
        (None, "backendError", "", ErrorKind.RETRY),
        (None, "jobRateLimitExceeded", "", ErrorKind.RETRY),
        (None, "notFound", "", ErrorKind.MISSING),
        (None, "invalid", "", ErrorKind.OTHER),
    ],
)
def test_kinds(code: int | None, reason: str | None, message: str, kind: ErrorKind) -> None:
    assert classify(code, reason, message) is kind
