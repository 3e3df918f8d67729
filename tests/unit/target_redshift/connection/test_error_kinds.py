"""What the errors of the server call for."""

from __future__ import annotations

import pytest

from target_redshift.connection.error_kinds import Kind, classify


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("XX000", "1023", Kind.RETRY),
        ("XX000", "1023. Serializable isolation violation on table - 100073", Kind.RETRY),
        ("40001", "could not serialize access due to concurrent update", Kind.RETRY),
        ("XX000", "tuple concurrently updated", Kind.RETRY),
        ("XX000", "S3ServiceException:We encountered an internal error,Status 500,Error InternalError", Kind.RETRY),
        ("57P01", "", Kind.GONE),
        ("08006", "", Kind.GONE),
        (None, "terminating connection because of crash of another server process", Kind.GONE),
        ("42501", "", Kind.DENIED),
        ("XX000", "S3ServiceException:Access Denied,Status 403,Error AccessDenied", Kind.DENIED),
        ("XX000", "S3ServiceException:The provided token has expired.,Status 400,Error ExpiredToken", Kind.EXPIRED),
        ("XX000", "The security token included in the request is expired", Kind.EXPIRED),
        ("XX000", "must be owner of relation orders", Kind.DENIED),
        ("42P01", "", Kind.MISSING),
        ("XX000", "The specified S3 prefix 'x' does not exist", Kind.MISSING),
        ("42P07", "", Kind.EXISTS),
        ("23505", 'duplicate key value violates unique constraint "pg_type_typname_nsp_index"', Kind.EXISTS),
        ("22003", "Numeric data overflow 1023", Kind.OTHER),
        ("22001", "Value too long for character type", Kind.OTHER),
        ("57014", "Query cancelled on user's request", Kind.OTHER),
        (None, "", Kind.OTHER),
    ],
)
def test_each_error_has_its_kind(code: str | None, message: str, kind: Kind) -> None:
    assert classify(code, message) is kind
