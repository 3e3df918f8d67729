"""Results of queries, tables, and the error texts for errors of the driver, of Redshift and of AWS."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from singer_arrow.errors import (
    AccessDeniedError,
    ConfigError,
    CredentialsError,
    ExpiredCredentialsError,
    LoadError,
    NotFoundError,
    ServiceError,
    SingerArrowError,
)
from singer_arrow.warehouse import table
from singer_arrow.warehouse.settings import marked
from target_redshift import sql, types
from target_redshift.types import TableColumn

# What Redshift's errors call for: which are worth another try, and which mean that the session is gone. Pure.


class ErrorKind(Enum):
    """What an error calls for."""

    RETRY = "another try may succeed, in a new transaction"
    GONE = "another try may succeed, in a new session"
    EXPIRED = "another try may succeed, with other credentials"
    LOGIN = "a user or a password that is wrong"
    DENIED = "permissions"
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
    "28000": ErrorKind.LOGIN,
    "28P01": ErrorKind.LOGIN,
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
_LOGIN = re.compile(r"password authentication failed|authentication failed for user", re.IGNORECASE)
_DENIED = re.compile(r"permission denied|must be owner|not authorized", re.IGNORECASE)


def classify(code: str | None, message: str) -> ErrorKind:
    """Classify an error of the server by its SQLSTATE, and its text with its details."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code and code.startswith("08"):
        return ErrorKind.GONE
    for pattern, kind in _BY_TEXT:
        if pattern.search(message):
            return kind
    if _LOGIN.search(message):
        return ErrorKind.LOGIN
    return ErrorKind.DENIED if _DENIED.search(message) else ErrorKind.OTHER


Row = tuple[Any, ...]


class AlreadyExistsError(SingerArrowError):
    """The resource to create exists already."""


class ExpiredError(ExpiredCredentialsError):
    """The credentials that a COPY was given, or those of its role, have expired."""


class RefusedDataError(LoadError):
    """Redshift refuses a statement because of a value."""

    code = "refused-data"


class CopyRefusedError(RefusedDataError):
    """Redshift refuses a COPY because of the value `bad`."""

    def __init__(self, message: str, bad: LoadErrorRow) -> None:
        super().__init__(message)
        self.bad = bad


class SessionLostError(ServiceError):
    """The session ended before it answered: what was sent may have been done, or not."""

    code = "session-lost"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query, or how many rows a statement changed (-1 if unknown)."""

    rows: list[Row]
    affected: int = -1

    @property
    def value(self) -> Any:
        """The first value of the first row; None if there is no row."""
        return self.rows[0][0] if self.rows else None


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the catalog knows it; `created` is in UTC, without a zone."""

    name: str
    columns: tuple[TableColumn, ...]
    created: datetime | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class LoadErrorRow:
    """A load error: its file, line and column, the value if Redshift reports it, and the reason."""

    file: str
    line: int | None
    column: str
    value: str | None
    reason: str

    @classmethod
    def of(cls, row: Row) -> LoadErrorRow:
        """Read a row of `sql.LOAD_ERRORS`."""
        file, line, column, value, reason = ("" if part is None else str(part).strip() for part in row)
        return cls(file, int(line or 0) or None, column, value or None, reason)

    def __str__(self) -> str:
        where = ", ".join(
            [*([self.file] if self.file else []), *([f"line {self.line}"] if self.line else [])]
            + ([f"column {self.column!r}"] if self.column else [])
        )
        value = f" (value {self.value[:100]!r})" if self.value else ""
        return " ".join(f"{where}: {self.reason}{value}".split()) if where else self.reason


def columns_from_catalog(rows: Iterable[Row], comments: Mapping[str | None, str]) -> tuple[TableColumn, ...]:
    """Return the columns of rows of `sql.COLUMNS`, with their comments, and the variants and owners that these record.

    `comments` are those of columns by name, and that of the table.
    """
    recorded, columns = any(map(table.has_line, comments.values())), list[TableColumn]()
    for name, data_type, length, precision, scale, nullable, default in rows:
        may_be_null, text = str(nullable).upper() != "NO", comments.get(name)
        column = types.table_column(
            name, data_type, length, precision, scale, nullable=may_be_null, is_filled=default is not None
        )
        owner = table.owner(text, name, recorded=recorded)
        columns.append(replace(column, variant_of=marked(text), owner=owner, comment=text))
    return tuple(columns)


def translate_error(error: BaseException, what: str, text: str = "") -> SingerArrowError:
    """Translate an error of the driver, of AWS or of the network, of the statement `text`, if it was one.

    Return `SessionLostError` if the session is of no use any more, `ServiceError` if another try may succeed.
    """
    import ssl

    from botocore.exceptions import BotoCoreError, ClientError
    from redshift_connector.error import Error, InterfaceError

    what = " ".join(what.split())  # names may hold the end of a line

    details = error.args[0] if error.args else None
    if isinstance(details, Mapping) and "M" in details:
        return _server_error(details, what, sql.role_of(text))
    if isinstance(error, ClientError):
        return _aws_error(error, what)
    if isinstance(error, BotoCoreError):
        return CredentialsError(f"{what}: AWS gave no credentials ({_line(error)}); check the settings iam and aws")
    cause = error.args[1] if isinstance(error, Error) and len(error.args) > 1 else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        if "ismatch" in str(cause):
            hint = "check host, or set sslmode: verify-ca"
            return ConfigError(f"{what}: the server's certificate is for another name ({_line(cause)}); {hint}")
        return ConfigError(f"{what}: the server's certificate is not trusted ({_line(cause)}); check host and ssl")
    if "refuses SSL" in str(error):
        return ConfigError(f"{what}: the server takes no encrypted connection; set ssl: false, or check host and port")
    if isinstance(cause, socket.gaierror):
        return ServiceError(f"{what}: the host could not be found ({_line(cause)}); check the network, then run again")
    if isinstance(cause, OSError | struct.error | EOFError) or _LOST.search(str(error)):
        short = _line(cause).partition(". ")[0][:200] or type(cause).__name__
        return SessionLostError(f"{what}: the connection to Redshift was lost ({short}); run again")
    if isinstance(error, InterfaceError) and "password" in str(error):
        return CredentialsError(f"{what}: the server requires a password, and none is set; set password or iam")
    return LoadError(f"{what}: {type(error).__name__}: {_line(error)}")


_LOST = re.compile(r"BrokenPipe|connection is closed|communication error|connection time out|write to closed file")


def _server_error(details: Mapping[str, str], what: str, role: str | None) -> SingerArrowError:
    text = server_message(details)
    message = f"{what}: {text}"
    match classify(details.get("C"), text):
        case ErrorKind.RETRY:
            return ServiceError(f"{message}; run again")
        case ErrorKind.GONE:
            return SessionLostError(f"{message}; run again")
        case ErrorKind.EXPIRED:
            renewed = "run again" if role else "renew the credentials in aws, then run again"
            return ExpiredError(f"{message}; {renewed}")
        case ErrorKind.LOGIN:
            return CredentialsError(f"{message}; check the settings user and password, or iam")
        case ErrorKind.DENIED:
            return AccessDeniedError(f"{message}; {_denied_hint(text, role)}")
        case ErrorKind.MISSING:
            hint = "check the setting dbname" if details.get("C") == "3D000" else _hint(text)
            return NotFoundError(f"{message}; {hint}" if hint else message)
        case ErrorKind.EXISTS:
            return AlreadyExistsError(message)
    if (details.get("C") or "")[:2] in _OF_VALUES:
        return RefusedDataError(message)
    hint = _hint(text)
    return LoadError(f"{message}; {hint}" if hint else message)


_OF_VALUES = ("22", "23")
"""The classes of SQLSTATE that are for values: data exceptions, and violated constraints such as NOT NULL."""


def _hint(text: str) -> str | None:
    return next((hint for pattern, hint in _HINTS if re.search(pattern, text)), None)


_HINTS = (
    (
        r"Status 301\b|PermanentRedirect|must be addressed using the specified endpoint",
        "the bucket must be in the region of the cluster: use another s3_stage, or copy the files there",
    ),
    (r"NoSuchBucket", "create the bucket, or name another one"),
    (r"NoSuchKey|S3 prefix .*does not exist", "run the tap again, and keep its batch storage until all is loaded"),
    (
        r"InvalidRange",
        "the file was replaced during the load: run the tap again, and keep batch files unchanged",
    ),
)


def _denied_hint(text: str, role: str | None) -> str:
    """Return which permission to grant: of the database or of S3."""
    if re.search(r"S3|Status 403|not authorized to|AccessKey|Token", text):
        if role:
            return f"let role {role} read the bucket"
        return "let the credentials in aws read the bucket, or set copy_role_arn, the way that Redshift documents"
    return next((hint for pattern, hint in _RIGHTS if re.search(pattern, text)), _ALL_RIGHTS)


_ALL_RIGHTS = "grant the user what it needs: USAGE and CREATE on the schema, and its tables"
_RIGHTS = (
    ("must be owner", "make the user the owner of the table: ALTER TABLE ... OWNER TO, which only its owner may alter"),
    ("temporary tables", "grant the user TEMP on the database: GRANT TEMP ON DATABASE"),
    ("for database", "grant the user CREATE on the database, or create the schema"),
    ("for schema", "grant the user USAGE and CREATE on the schema"),
    ("for (relation|table)", "grant the user SELECT, INSERT, UPDATE and DELETE on the table, or make it the owner"),
)


def server_message(details: Mapping[str, str]) -> str:
    """Return an error of the server on one line: its message and the useful part of its details."""
    detail = details.get("D") or ""
    fields = dict(re.findall(r"^\s*(error|context):\s*(.+?)\s*$", detail, re.MULTILINE))
    if fields:
        detail = " ".join(v for k, v in fields.items() if v and v not in details["M"] and v != "0")
    texts = [details["M"], detail, details.get("H") or ""]
    joined = ". ".join(" ".join(t.split()).rstrip(".") for t in texts if t.strip(" -\n"))
    return sql.masked(joined)[:1500]


def _aws_error(error: Any, what: str) -> SingerArrowError:
    found = error.response.get("Error", {})
    code, status = str(found.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    message = f"{what}: {code}: {' '.join(str(found.get('Message', '')).split())[:300]}"
    if status >= 500 or code in ("Throttling", "ThrottlingException", "RequestLimitExceeded"):
        return ServiceError(f"{message}; run again")
    if code.endswith(("NotFound", "NotFoundException", "NotFoundFault")):
        return NotFoundError(f"{message}; check iam.cluster_identifier or iam.workgroup, and iam.region")
    return CredentialsError(f"{message}; check the credentials in iam, and what they are allowed")


def _line(error: object) -> str:
    return sql.masked(" ".join(str(error).split()))[:500]
