"""What Redshift's errors call for: which are worth another try, and which mean that the session is gone. Pure."""

from __future__ import annotations

import re
from enum import Enum


class ErrorKind(Enum):
    """What an error calls for."""

    RETRY = "another try may succeed, in a new transaction"
    GONE = "another try may succeed, in a new session"
    EXPIRED = "another try may succeed, with other credentials"
    DENIED = "credentials or permissions"
    MISSING = "something does not exist"
    EXISTS = "something exists already"
    OTHER = "what was sent is wrong"


_BY_CODE = {
    "40001": ErrorKind.RETRY,  # serialization failure
    "40P01": ErrorKind.RETRY,  # deadlock
    "55P03": ErrorKind.RETRY,  # lock not available
    "53300": ErrorKind.GONE,  # too many connections
    "57P01": ErrorKind.GONE,  # administrator command: a restart, pg_terminate_backend
    "57P02": ErrorKind.GONE,  # crash of another session
    "57P03": ErrorKind.GONE,  # the server is starting
    "57P05": ErrorKind.GONE,  # idle session
    "25P03": ErrorKind.GONE,  # idle in transaction
    "28000": ErrorKind.DENIED,
    "28P01": ErrorKind.DENIED,
    "42501": ErrorKind.DENIED,
    "3D000": ErrorKind.MISSING,
    "3F000": ErrorKind.MISSING,
    "42P01": ErrorKind.MISSING,
    "42704": ErrorKind.MISSING,
    "23505": ErrorKind.EXISTS,  # in the catalog, by two at once: Redshift's own tables have no unique keys
    "42P06": ErrorKind.EXISTS,
    "42710": ErrorKind.EXISTS,
    "42P07": ErrorKind.EXISTS,
    "42701": ErrorKind.EXISTS,
}
_BY_TEXT = (
    (re.compile(r"^1023\b|serializable isolation violation", re.IGNORECASE), ErrorKind.RETRY),
    (
        re.compile(
            r"conflict with concurrent transaction|deadlock detected|snapshot .*too old|tuple concurrently",
            re.IGNORECASE,
        ),
        ErrorKind.RETRY,
    ),
    (
        re.compile(r"during (?:a )?(?:cluster )?resize|in read-?only mode|is in maintenance", re.IGNORECASE),
        ErrorKind.RETRY,
    ),
    (re.compile(r"Status (?:500|502|503|504)\b|SlowDown|RequestTimeout|InternalError\b"), ErrorKind.RETRY),
    (re.compile(r"connection limit|terminating connection|the database system is", re.IGNORECASE), ErrorKind.GONE),
    (re.compile(r"ExpiredToken|\btoken\b[^.;]{0,60}\bexpired", re.IGNORECASE), ErrorKind.EXPIRED),
    (re.compile(r"AccessDenied|Access ?Denied|Status 403\b|not authorized to|InvalidAccessKeyId"), ErrorKind.DENIED),
    (
        re.compile(r"NoSuchBucket|NoSuchKey|Status 404\b|(?:prefix|key|bucket) .*does not exist", re.IGNORECASE),
        ErrorKind.MISSING,
    ),
)
_DENIED = re.compile(r"permission denied|must be owner|password authentication failed|not authorized", re.IGNORECASE)


def classify(code: str | None, message: str) -> ErrorKind:
    """Classify an error of the server by its SQLSTATE, and its text with its details."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code and code.startswith("08"):
        return ErrorKind.GONE
    for pattern, kind in _BY_TEXT:
        if pattern.search(message):
            return kind
    return ErrorKind.DENIED if _DENIED.search(message) else ErrorKind.OTHER
