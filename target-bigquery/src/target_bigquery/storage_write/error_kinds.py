"""Which answers of the Storage Write API call for what. Pure."""

from __future__ import annotations

from enum import Enum

from singer_arrow.errors import LoadError


class Kind(Enum):
    """What an answer calls for."""

    RETRY = "the same again, on a new connection"
    THERE = "nothing: an earlier try of the same has been done"
    ANEW = "a new write stream: this one, or the table as it was, is of no use any more"
    GONE = "the write stream is not known any more"
    QUOTA = "a quota is used up; the same again after a while"
    HIDDEN = "permissions, or a table that it does not find just now: the same again, for a short while"
    DENIED = "credentials or permissions"
    REFUSED = "what was sent is wrong"


class WriteError(LoadError):
    """The Storage Write API did not do what it was asked for.

    Args:
        message: What it says, in one line.
        kind: What that calls for.
    """

    def __init__(self, message: str, kind: Kind) -> None:
        super().__init__(message)
        self.kind = kind


_BY_STORAGE_CODE = {
    "OFFSET_ALREADY_EXISTS": Kind.THERE,
    "STREAM_ALREADY_COMMITTED": Kind.THERE,
    "STREAM_NOT_FOUND": Kind.GONE,
    "TABLE_NOT_FOUND": Kind.ANEW,  # it takes a while to hear of a new table, or of new columns
    "SCHEMA_MISMATCH_EXTRA_FIELDS": Kind.ANEW,
    "STREAM_FINALIZED": Kind.ANEW,
    "INVALID_STREAM_STATE": Kind.ANEW,
    "OFFSET_OUT_OF_RANGE": Kind.ANEW,
}
_BY_STATUS = {
    "ALREADY_EXISTS": Kind.THERE,
    "NOT_FOUND": Kind.GONE,
    "OUT_OF_RANGE": Kind.ANEW,
    "RESOURCE_EXHAUSTED": Kind.QUOTA,
    "PERMISSION_DENIED": Kind.DENIED,
    "UNAUTHENTICATED": Kind.DENIED,
    **dict.fromkeys(
        ("UNAVAILABLE", "INTERNAL", "ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN", "DATA_LOSS"), Kind.RETRY
    ),
}


def classify(status: str, storage_code: str | None = None, message: str = "") -> Kind:
    """Tell what an answer calls for.

    Args:
        status: The name of the gRPC status, such as `UNAVAILABLE`.
        storage_code: BigQuery's own word in its details, such as `OFFSET_ALREADY_EXISTS`.
        message: Its text.
    """
    if status == "PERMISSION_DENIED" and "may not exist" in message:
        return Kind.HIDDEN
    return _BY_STORAGE_CODE.get(storage_code or "") or _BY_STATUS.get(status, Kind.REFUSED)
