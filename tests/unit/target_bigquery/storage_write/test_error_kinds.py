"""Which answers of the Storage Write API call for what."""

from __future__ import annotations

import pytest

from target_bigquery.storage_write.error_kinds import Kind, classify


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        ("UNAVAILABLE", None, Kind.RETRY),
        ("ABORTED", None, Kind.RETRY),
        ("INTERNAL", None, Kind.RETRY),
        ("DEADLINE_EXCEEDED", None, Kind.RETRY),
        ("RESOURCE_EXHAUSTED", None, Kind.QUOTA),
        ("ALREADY_EXISTS", None, Kind.THERE),
        ("ALREADY_EXISTS", "OFFSET_ALREADY_EXISTS", Kind.THERE),
        ("FAILED_PRECONDITION", "STREAM_ALREADY_COMMITTED", Kind.THERE),
        ("OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE", Kind.ANEW),
        ("OUT_OF_RANGE", None, Kind.ANEW),
        ("INVALID_ARGUMENT", "STREAM_FINALIZED", Kind.ANEW),
        ("FAILED_PRECONDITION", "INVALID_STREAM_STATE", Kind.ANEW),
        ("INVALID_ARGUMENT", "SCHEMA_MISMATCH_EXTRA_FIELDS", Kind.ANEW),
        ("NOT_FOUND", "TABLE_NOT_FOUND", Kind.ANEW),
        ("NOT_FOUND", "STREAM_NOT_FOUND", Kind.GONE),
        ("NOT_FOUND", None, Kind.GONE),
        ("PERMISSION_DENIED", None, Kind.DENIED),
        ("UNAUTHENTICATED", None, Kind.DENIED),
        ("INVALID_ARGUMENT", None, Kind.REFUSED),
        ("INVALID_ARGUMENT", "STORAGE_ERROR_CODE_UNSPECIFIED", Kind.REFUSED),
        ("FAILED_PRECONDITION", None, Kind.REFUSED),
        ("SOMETHING_NEW", "SOMETHING_NEW", Kind.REFUSED),
    ],
)
def test_what_an_answer_calls_for(status: str, code: str | None, kind: Kind) -> None:
    assert classify(status, code) is kind


def test_what_is_denied_or_does_not_exist() -> None:
    text = "Permission 'TABLES_UPDATE_DATA' denied on resource 'projects/p/datasets/d/tables/t' (or it may not exist)."
    assert classify("PERMISSION_DENIED", None, text) is Kind.HIDDEN
