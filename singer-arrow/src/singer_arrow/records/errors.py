"""Errors of messages, with the line of the input; also of the SDK's class where it has one."""

from __future__ import annotations

from singer_sdk.exceptions import InvalidRecord, MissingKeyPropertiesError, RecordsWithoutSchemaException

from singer_arrow.errors import DataError, SchemaError

BAD_INPUT = (DataError, SchemaError, InvalidRecord, MissingKeyPropertiesError, RecordsWithoutSchemaException)
"""What is raised where a message is at fault, rather than what is done with it."""

LACKS_KEY = "it lacks the key property"
"""The reason for a record without a key."""
_HINT = "Correct it in the tap, change the SCHEMA that the tap sends, or set on_bad_row: dead_letter to put it aside"


class MissingKeyError(DataError, MissingKeyPropertiesError):
    """A record lacks a key property."""

    code = "missing-key"


class NoSchemaError(DataError, RecordsWithoutSchemaException):
    """A message came before the SCHEMA of its stream."""

    code = "no-schema"


def input_place(number: int, kind: object, stream: object) -> str:
    """Return the position of a message in words; `number` is that of its line in the input, from 1."""
    of = f", a {kind} of stream {stream!r}" if isinstance(stream, str) else ""
    return f"Line {number} of the input{of}"


def bad_record(number: int, stream: str, reason: str, column: str | None = None) -> DataError:
    """Return the error for a bad RECORD line of the input."""
    kind = MissingKeyError if reason == LACKS_KEY else DataError
    return kind(reason, url=input_place(number, "RECORD", stream), column=column, hint=_HINT)
