"""Classification of server errors by the required reaction."""

from __future__ import annotations

import pytest

from target_redshift.resources import ErrorKind, classify


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("XX000", "1023", ErrorKind.RETRY),
        ("XX000", "1023. Serializable isolation violation on table - 100073", ErrorKind.RETRY),
        ("40001", "could not serialize access due to concurrent update", ErrorKind.RETRY),
        ("XX000", "tuple concurrently updated", ErrorKind.RETRY),
        (
            "XX000",
            "S3ServiceException:We encountered an internal error,Status 500,Error InternalError",
            ErrorKind.RETRY,
        ),
        ("57P01", "", ErrorKind.GONE),
        ("08006", "", ErrorKind.GONE),
        (None, "terminating connection because of crash of another server process", ErrorKind.GONE),
        ("42501", "", ErrorKind.DENIED),
        ("XX000", "S3ServiceException:Access Denied,Status 403,Error AccessDenied", ErrorKind.DENIED),
        (
            "XX000",
            "S3ServiceException:The provided token has expired.,Status 400,Error ExpiredToken",
            ErrorKind.EXPIRED,
        ),
        ("XX000", "The security token included in the request is expired", ErrorKind.EXPIRED),
        ("XX000", "must be owner of relation orders", ErrorKind.DENIED),
        ("42P01", "", ErrorKind.MISSING),
        ("XX000", "The specified S3 prefix 'x' does not exist", ErrorKind.MISSING),
        ("42P07", "", ErrorKind.EXISTS),
        ("23505", 'duplicate key value violates unique constraint "pg_type_typname_nsp_index"', ErrorKind.EXISTS),
        ("22003", "Numeric data overflow 1023", ErrorKind.OTHER),
        ("22001", "Value too long for character type", ErrorKind.OTHER),
        ("57014", "Query cancelled on user's request", ErrorKind.OTHER),
        (None, "", ErrorKind.OTHER),
    ],
)
def test_each_error_has_its_kind(code: str | None, message: str, kind: ErrorKind) -> None:
    assert classify(code, message) is kind
