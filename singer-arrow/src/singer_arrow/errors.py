"""Exceptions of all connectors; their base class determines whether the run ends, may be retried, or can continue.

    SingerArrowError
    |-- FatalError                 the run ends; the user must act
    |   |-- ConfigError            a setting is wrong
    |   |-- CredentialsError       credentials are missing, wrong, expired or not enough
    |   |   |-- AccessDeniedError        they do not allow what was asked
    |   |   `-- ExpiredCredentialsError  they have expired
    |   |-- NotFoundError          a bucket, an object or a batch file does not exist
    |   |-- DataError              a file or a message has invalid content
    |   |   `-- DriftError         a file does not fit its stream's schema
    |   |-- IdentityError          two records of what a table holds are not of each other
    |   |-- SchemaError            a schema is invalid, or two are incompatible
    |   |-- LoadError              the warehouse refused a load
    |   `-- FailedStreamsError     several streams of a tap failed, each for a reason of its own
    |-- RetriableError             a second try may succeed
    |   |-- ServiceError           the service was busy, unreachable or broke the connection
    |   |   |-- ConflictError      another write to the same key was under way
    |   |   `-- ClosedPipeError    the target does not read any more
    |   |-- SupersededError        another run did the same work at the same time
    |   |-- ObjectChangedError     the object was replaced or deleted while it was read
    |   `-- UnfinishedStreamError  the input ended before a stream whose table is to be replaced did
    `-- SkippableError             only this object cannot be read
        |-- EmptyObjectError       it is empty
        `-- ArchivedError          it is archived and must be restored first

Each message is one line: what happened, where, why, and what to do; `code` identifies the kind of error. Errors of
client libraries are translated in one place each: `storage.errors` for object stores, and for a warehouse its target's
`resources`, which `connection` calls.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Characters that move the cursor, break lines, or change the direction or the order of a text, or have no width."""
_PASSWORD = re.compile(r"(?<=://)[^\s/@:]*:[^\s/]*@")
_SIGNATURE = re.compile(
    r"(?<=[?&])((?:sig|[\w-]*(?:signature|security-token|credential))=)[^\s&#'\")]*[^\s&#'\"):;,.]", re.IGNORECASE
)


def one_line(text: str) -> str:
    """Return a text with control characters escaped, and with passwords and signatures in URLs masked."""
    text = _SIGNATURE.sub(r"\1***", _PASSWORD.sub("***@", text)) if "://" in text else text
    return visible(text)


def visible(text: str) -> str:
    """Return a text with its control characters escaped."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def with_code(text: str, code: str) -> str:
    """Return a message for the log: on one line, with the code by which docs/errors.md lists it."""
    return f"{' '.join(text.split())} [{code}]"


_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE)
_NO_FOLDER = "No usable temporary directory"  # raised by tempfile if no folder is writable


def is_of_disk(error: BaseException) -> bool:
    """Return whether the local disk is full or read-only, or a limit of files or file sizes is reached."""
    return isinstance(error, OSError) and (error.errno in _OF_DISK or _NO_FOLDER in str(error))


_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def os_error_in(error: BaseException) -> OSError | None:
    """Return the error of the operating system that a library in Rust has put into the text of another; else None."""
    found = _OS_ERROR.search(str(error))
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else None


def is_of_memory(error: BaseException) -> bool:
    """Return whether the process is out of memory or threads."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error))


def is_panic(error: BaseException) -> bool:
    """Return whether a library in Rust gave up on what it was given; such an error is no Exception."""
    return type(error).__name__ == "PanicException"


class SingerArrowError(Exception):
    """Base of all errors of this project; `str(error)` is one line, also if a key contains line breaks.

    Attributes:
        code: Identifies the kind of error; the command line appends it, and docs/errors.md lists them.
        ends_run: Whether it concerns all streams of a tap, not only the one that is read.
    """

    code: str = "error"
    ends_run: bool = False

    def __str__(self) -> str:
        return one_line(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how pickle makes the error again: from its text and attributes, whatever its `__init__` takes."""
        return _unpickled, (type(self), self.args), self.__dict__


def _unpickled(kind: type[SingerArrowError], args: tuple[Any, ...]) -> SingerArrowError:
    return kind.__new__(kind, *args)


class FatalError(SingerArrowError):
    """The run ends; the user must act."""


class ConfigError(FatalError):
    """A setting is wrong."""

    code = "config"


class CredentialsError(FatalError):
    """Credentials are missing, wrong, expired, or do not allow what was asked."""

    code = "credentials"
    ends_run = True


class AccessDeniedError(CredentialsError):
    """The credentials do not allow what was asked."""

    code = "access-denied"
    ends_run = False


class ExpiredCredentialsError(CredentialsError):
    """The credentials have expired."""

    code = "expired-credentials"
    ends_run = True


class IdentityError(FatalError):
    """Two records of what a table holds, such as a STATE and a plan log, are not of each other."""

    code = "identity"


class NotFoundError(FatalError):
    """A bucket, an object, or a batch file does not exist."""

    code = "not-found"


_BAD_ROW = "bad-row"
_MOST_NAMES = 20


class DataError(FatalError):
    """A file or a message has invalid content; its code is `bad-row` if it names a row.

    Args:
        reason: The problem and the value.
        url: The object or batch file.
        line: Number of the line in it, from 1.
        row_group: Number of the Parquet row group in it, from 0.
        row: Number of the row in its row group, from 1; in the file, where no row group is named.
        column: Name of the column.
        hint: What the user can do.
    """

    code = "data"

    def __init__(
        self,
        reason: str,
        *,
        url: object = None,
        line: int | None = None,
        row_group: int | None = None,
        row: int | None = None,
        column: str | None = None,
        hint: str | None = None,
    ) -> None:
        where = [
            *([str(url)] if url is not None else []),
            *([f"line {line}"] if line is not None else []),
            *([f"row group {row_group}"] if row_group is not None else []),
            *([f"row {row}"] if row is not None else []),
            *([f"column {column!r}"] if column is not None else []),
        ]
        text = f"{', '.join(where)}: {reason}" if where else reason
        super().__init__(" ".join(f"{text}. {hint}".split() if hint else text.split()))
        self.reason, self.url, self.line, self.column = reason, url, line, column
        self.row_group, self.row = row_group, row
        if self.code == DataError.code and (line is not None or row is not None):
            self.code = _BAD_ROW
        self.hint = hint

    def at(self, url: object) -> DataError:
        """Return the error for another URL, such as the source of a local copy."""
        return self._with(url, self.hint)

    def placed(self, url: object, *, row: int | None = None, hint: str | None = None) -> DataError:
        """Return the error for another place in place of its own; a code other than those of places stays."""
        changed = DataError(self.reason, url=url, row=row, column=self.column, hint=hint or self.hint)
        if self.code not in (DataError.code, _BAD_ROW):
            changed.code = self.code
        return changed

    def hinting(self, more: str) -> DataError:
        """Return the error with an additional hint."""
        return self._with(self.url, f"{self.hint}. {more}" if self.hint else more)

    def _with(self, url: object, hint: str | None) -> DataError:
        where: dict[str, Any] = {"line": self.line, "row_group": self.row_group, "row": self.row, "column": self.column}
        changed = DataError(self.reason, url=url, hint=hint, **where)
        changed.code = self.code
        return changed


class DriftError(DataError):
    """A file has columns or types that do not fit its stream's schema.

    Args:
        reason: The columns and both types.
        fields: New and widened columns (`pyarrow.Field`) that the schema needs.
        url: The object.
        line: See DataError.
        row_group: See DataError.
        column: Name of the first column.
    """

    code = "drift"

    def __init__(
        self,
        reason: str,
        fields: Sequence[Any],
        *,
        url: object = None,
        line: int | None = None,
        row_group: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(
            reason,
            url=url,
            line=line,
            row_group=row_group,
            column=column,
            hint="Set the column's type in the stream's 'schema', or on_drift to evolve or rescue",
        )
        self.fields = tuple(fields)

    def at(self, url: object) -> DriftError:
        where = {"line": self.line, "row_group": self.row_group}
        return DriftError(self.reason, self.fields, url=url, column=self.column, **where)


class SchemaError(FatalError):
    """A schema is invalid, or two schemas are incompatible."""

    code = "schema"


class LoadError(FatalError):
    """The warehouse refused a load."""

    code = "load"


class FailedStreamsError(FatalError):
    """Several streams of a tap failed; each has a line of its own in the log.

    Args:
        failed: The streams.
        total: Number of streams of the run.
    """

    code = "failed-streams"

    def __init__(self, failed: Sequence[str], total: int) -> None:
        names = ", ".join(map(repr, failed[:_MOST_NAMES])) + (", ..." if len(failed) > _MOST_NAMES else "")
        super().__init__(f"{len(failed)} of {total} streams failed: {names}; the log has the reason of each")


class RetriableError(SingerArrowError):
    """A second try may succeed."""


class ServiceError(RetriableError):
    """The service was busy, unreachable, or broke the connection, even after retries."""

    code = "service"


class ConflictError(ServiceError):
    """A write was refused because another one to the same key was under way."""

    code = "conflict"


class ClosedPipeError(ServiceError):
    """The target has closed the pipe."""

    ends_run = True


class SupersededError(RetriableError):
    """Another run has written the same work first; a new run continues after it."""

    code = "superseded"


class ObjectChangedError(RetriableError):
    """The object was replaced or deleted while it was read."""

    code = "object-changed"


class UnfinishedStreamError(RetriableError):
    """A target's input ended before the end of streams whose tables it replaces.

    Args:
        unfinished: The incomplete streams.
        interleaved: Complete streams whose tables could not be replaced without the others.
    """

    code = "unfinished-stream"

    def __init__(self, unfinished: Sequence[str], interleaved: Sequence[str] = ()) -> None:
        text = (
            f"{_streams(unfinished)}: the input ended before the tap marked the end of the stream, so the table keeps "
            "its former rows, and no STATE from within the stream was written. "
        )
        if interleaved:
            text += f"{_streams(interleaved)}: kept too, because rows of unfinished streams came in between. "
        super().__init__(f"{text}See the tap's log for the reason, then run both again")


def _streams(names: Sequence[str]) -> str:
    return f"Stream{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


class SkippableError(SingerArrowError):
    """Only this object cannot be read."""


class EmptyObjectError(SkippableError):
    """The object is empty."""

    code = "empty-object"


class ArchivedError(SkippableError):
    """The object is in a storage class such as GLACIER and must be restored first."""

    code = "archived"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names what the user may have meant; empty if nothing is near."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {match[0]!r}?" if match else ""
