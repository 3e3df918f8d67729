"""Which of BigQuery's errors are worth another try. Pure."""

from __future__ import annotations

import re
from enum import Enum

_TRANSIENT_REASONS = frozenset(
    {
        *("backendError", "internalError", "badGateway", "rateLimitExceeded", "tableUnavailable"),
        *("jobBackendError", "jobInternalError", "jobRateLimitExceeded"),
    }
)
_QUOTA_REASONS = frozenset({"quotaExceeded", "billingTierLimitExceeded", "dailyLimitExceeded"})
_NAMES = re.compile(r"`[^`]*`|\S*\w[.:_]\w\S*")
_SHORT_QUOTAS = re.compile(
    r"quota for (?:[\w-]+ ){0,4}concurrent\b|\bconcurrent (?:[\w-]+ ){0,4}requests\b|"
    r"\bper (?:\d+ )?(?:second|minute)s?\b|\bpending \+ running\b",
    re.IGNORECASE,
)
"""How quotas are called that are back within the time that is spent on tries; all others are for hours."""
_LIMIT_REASONS = frozenset({"bytesBilledLimitExceeded"})
_DENIED_REASONS = frozenset(
    {"accessDenied", "billingNotEnabled", "forbidden", "authError", "required", "accountDisabled"}
)
_TRANSIENT_CODES = frozenset({408, 429, 500, 502, 503, 504})
_TRANSIENT_TEXTS = (
    "too many table update operations",
    "Could not serialize access",
    "aborted due to concurrent update",
    "Too many DML statements outstanding",
)


class ErrorKind(Enum):
    """What an error calls for."""

    RETRY = "another try may succeed"
    LIMIT = "it would cost more than bytes_billed_limit"
    QUOTA = "a quota is used up; it comes back hours later"
    DENIED = "credentials or permissions"
    MISSING = "something does not exist"
    EXISTS = "something exists already"
    CHANGED = "somebody else changed it meanwhile"
    REFUSED = "a query cannot be done"
    OTHER = "what was sent is wrong"


def classify(code: int | None, reason: str | None, message: str) -> ErrorKind:
    """Classify an error response of the API, or the error of a job, which has no HTTP status `code`."""
    if any(text in message for text in _TRANSIENT_TEXTS) or reason in _TRANSIENT_REASONS:
        return ErrorKind.RETRY
    if reason in _LIMIT_REASONS:
        return ErrorKind.LIMIT
    if reason in _QUOTA_REASONS:
        return ErrorKind.RETRY if _SHORT_QUOTAS.search(_NAMES.sub("", message)) else ErrorKind.QUOTA
    if reason in _DENIED_REASONS or code in (401, 403):
        return ErrorKind.DENIED
    if code in _TRANSIENT_CODES:
        return ErrorKind.RETRY
    return _BY_CODE.get(code or 0, _BY_REASON.get(reason or "", ErrorKind.OTHER))


_BY_CODE = {404: ErrorKind.MISSING, 409: ErrorKind.EXISTS, 412: ErrorKind.CHANGED}
_BY_REASON = {"notFound": ErrorKind.MISSING, "duplicate": ErrorKind.EXISTS, "conditionNotMet": ErrorKind.CHANGED} | {
    "invalidQuery": ErrorKind.REFUSED
}
