"""Classifies the errors of the Storage Write API."""

from __future__ import annotations

from enum import Enum

from singer_arrow.errors import LoadError


class WriteErrorKind(Enum):
    """What to do about an error response."""

    RETRY = "the same again, on a new connection"
    ALREADY_DONE = "nothing: an earlier try of the same has been done"
    NEW_STREAM = "a new write stream: this one, or the table as it was, is of no use any more"
    UNKNOWN_STREAM = "the write stream is not known any more"
    QUOTA = "a quota is used up; the same again after a while"
    POSSIBLY_MISSING = "permissions, or a table that it does not find just now: the same again, for a short while"
    DENIED = "credentials or permissions"
    REFUSED = "what was sent is wrong"


class WriteError(LoadError):
    """The Storage Write API did not do what it was asked for; `kind` is what that calls for."""

    code = "storage-write"

    def __init__(self, message: str, kind: WriteErrorKind) -> None:
        super().__init__(message)
        self.kind = kind


_BY_STORAGE_CODE = {
    "OFFSET_ALREADY_EXISTS": WriteErrorKind.ALREADY_DONE,
    "STREAM_ALREADY_COMMITTED": WriteErrorKind.ALREADY_DONE,
    "STREAM_NOT_FOUND": WriteErrorKind.UNKNOWN_STREAM,
    "TABLE_NOT_FOUND": WriteErrorKind.NEW_STREAM,  # new tables and columns become visible after a delay
    "SCHEMA_MISMATCH_EXTRA_FIELDS": WriteErrorKind.NEW_STREAM,
    "STREAM_FINALIZED": WriteErrorKind.NEW_STREAM,
    "INVALID_STREAM_STATE": WriteErrorKind.NEW_STREAM,
    "OFFSET_OUT_OF_RANGE": WriteErrorKind.NEW_STREAM,
}
_BY_STATUS = {
    "ALREADY_EXISTS": WriteErrorKind.ALREADY_DONE,
    "NOT_FOUND": WriteErrorKind.UNKNOWN_STREAM,
    "OUT_OF_RANGE": WriteErrorKind.NEW_STREAM,
    "RESOURCE_EXHAUSTED": WriteErrorKind.QUOTA,
    "PERMISSION_DENIED": WriteErrorKind.DENIED,
    "UNAUTHENTICATED": WriteErrorKind.DENIED,
    **dict.fromkeys(
        ("UNAVAILABLE", "INTERNAL", "ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN", "DATA_LOSS"),
        WriteErrorKind.RETRY,
    ),
}


def classify_write_error(status: str, storage_code: str | None = None, message: str = "") -> WriteErrorKind:
    """Classify an error by its gRPC status (`UNAVAILABLE`) and BigQuery's own code (`OFFSET_ALREADY_EXISTS`)."""
    if status == "PERMISSION_DENIED" and "may not exist" in message:
        return WriteErrorKind.POSSIBLY_MISSING
    return _BY_STORAGE_CODE.get(storage_code or "") or _BY_STATUS.get(status, WriteErrorKind.REFUSED)
