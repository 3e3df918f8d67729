"""Classification of the answers of the Storage Write API by the required reaction."""

from __future__ import annotations

import pytest

from target_bigquery.storage_write.client import WriteErrorKind, classify_write_error


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        ("UNAVAILABLE", None, WriteErrorKind.RETRY),
        ("ABORTED", None, WriteErrorKind.RETRY),
        ("INTERNAL", None, WriteErrorKind.RETRY),
        ("DEADLINE_EXCEEDED", None, WriteErrorKind.RETRY),
        ("RESOURCE_EXHAUSTED", None, WriteErrorKind.QUOTA),
        ("ALREADY_EXISTS", None, WriteErrorKind.ALREADY_DONE),
        ("ALREADY_EXISTS", "OFFSET_ALREADY_EXISTS", WriteErrorKind.ALREADY_DONE),
        ("FAILED_PRECONDITION", "STREAM_ALREADY_COMMITTED", WriteErrorKind.ALREADY_DONE),
        ("OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE", WriteErrorKind.NEW_STREAM),
        ("OUT_OF_RANGE", None, WriteErrorKind.NEW_STREAM),
        ("INVALID_ARGUMENT", "STREAM_FINALIZED", WriteErrorKind.NEW_STREAM),
        ("FAILED_PRECONDITION", "INVALID_STREAM_STATE", WriteErrorKind.NEW_STREAM),
        ("INVALID_ARGUMENT", "SCHEMA_MISMATCH_EXTRA_FIELDS", WriteErrorKind.NEW_STREAM),
        ("NOT_FOUND", "TABLE_NOT_FOUND", WriteErrorKind.NEW_STREAM),
        ("NOT_FOUND", "STREAM_NOT_FOUND", WriteErrorKind.UNKNOWN_STREAM),
        ("NOT_FOUND", None, WriteErrorKind.UNKNOWN_STREAM),
        ("PERMISSION_DENIED", None, WriteErrorKind.DENIED),
        ("UNAUTHENTICATED", None, WriteErrorKind.DENIED),
        ("INVALID_ARGUMENT", None, WriteErrorKind.REFUSED),
        ("INVALID_ARGUMENT", "STORAGE_ERROR_CODE_UNSPECIFIED", WriteErrorKind.REFUSED),
        ("FAILED_PRECONDITION", None, WriteErrorKind.REFUSED),
        ("SOMETHING_NEW", "SOMETHING_NEW", WriteErrorKind.REFUSED),
    ],
)
def test_what_an_answer_calls_for(status: str, code: str | None, kind: WriteErrorKind) -> None:
    assert classify_write_error(status, code) is kind


def test_what_is_denied_or_does_not_exist() -> None:
    text = "Permission 'TABLES_UPDATE_DATA' denied on resource 'projects/p/datasets/d/tables/t' (or it may not exist)."
    assert classify_write_error("PERMISSION_DENIED", None, text) is WriteErrorKind.POSSIBLY_MISSING
