"""Tables, jobs and query results of BigQuery; translates the errors of Google's libraries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from singer_arrow.errors import (
    AccessDeniedError,
    CredentialsError,
    LoadError,
    NotFoundError,
    ServiceError,
    SingerArrowError,
)
from singer_arrow.warehouse.settings import marked
from singer_arrow.warehouse.table import owner
from target_bigquery import sql
from target_bigquery.columns import records_owners
from target_bigquery.types import TableColumn, kind_of

# Which of BigQuery's errors are worth another try. Pure.

_TRANSIENT_REASONS = frozenset(
    {
        *("backendError", "internalError", "badGateway", "rateLimitExceeded", "tableUnavailable"),
        *("jobBackendError", "jobInternalError", "jobRateLimitExceeded"),
    }
)
_QUOTA_REASONS = frozenset({"quotaExceeded", "billingTierLimitExceeded", "dailyLimitExceeded"})
_NAMES = re.compile(r"`[^`]*`|\S*\w[.:_]\w\S*")
_SHORT_QUOTAS = re.compile(
    r"quota for (?:[\w-]+ ){0,4}concurrent\b|\bconcurrent (?:[\w-]+ ){0,4}requests\b|"
    r"\bper (?:\d+ )?(?:second|minute)s?\b|\bpending \+ running\b",
    re.IGNORECASE,
)
"""How quotas are called that are back within the time that is spent on tries; all others are for hours."""
_LIMIT_REASONS = frozenset({"bytesBilledLimitExceeded"})
_LOGIN_REASONS = frozenset({"authError", "required"})
_DENIED_REASONS = frozenset({"accessDenied", "billingNotEnabled", "forbidden", "accountDisabled"})
_TRANSIENT_CODES = frozenset({408, 429, 500, 502, 503, 504})
_TRANSIENT_TEXTS = (
    "too many table update operations",
    "Could not serialize access",
    "aborted due to concurrent update",
    "Too many DML statements outstanding",
)


class ErrorKind(Enum):
    """What an error calls for."""

    RETRY = "another try may succeed"
    LIMIT = "it would cost more than bytes_billed_limit"
    QUOTA = "a quota is used up; it comes back hours later"
    LOGIN = "credentials that are missing or wrong"
    DENIED = "permissions"
    MISSING = "something does not exist"
    EXISTS = "something exists already"
    CHANGED = "somebody else changed it meanwhile"
    REFUSED = "a query cannot be done"
    OTHER = "what was sent is wrong"


def classify(code: int | None, reason: str | None, message: str) -> ErrorKind:
    """Classify an error response of the API, or the error of a job, which has no HTTP status `code`."""
    if any(text in message for text in _TRANSIENT_TEXTS) or reason in _TRANSIENT_REASONS:
        return ErrorKind.RETRY
    if reason in _LIMIT_REASONS:
        return ErrorKind.LIMIT
    if reason in _QUOTA_REASONS:
        return ErrorKind.RETRY if _SHORT_QUOTAS.search(_NAMES.sub("", message)) else ErrorKind.QUOTA
    if reason in _LOGIN_REASONS or code == 401:
        return ErrorKind.LOGIN
    if reason in _DENIED_REASONS or code == 403:
        return ErrorKind.DENIED
    if code in _TRANSIENT_CODES:
        return ErrorKind.RETRY
    return _BY_CODE.get(code or 0, _BY_REASON.get(reason or "", ErrorKind.OTHER))


_BY_CODE = {404: ErrorKind.MISSING, 409: ErrorKind.EXISTS, 412: ErrorKind.CHANGED}
_BY_REASON = {"notFound": ErrorKind.MISSING, "duplicate": ErrorKind.EXISTS, "conditionNotMet": ErrorKind.CHANGED} | {
    "invalidQuery": ErrorKind.REFUSED
}


class AlreadyExistsError(SingerArrowError):
    """The resource to create exists already."""


class QuotaError(LoadError):
    """A quota is used up for hours."""

    code = "quota"


class RefusedError(LoadError):
    """BigQuery refuses a valid query because of the state of its tables."""


class MissingError(LoadError):
    """A job names a table, or something else, that does not exist."""


class RefusedDataError(LoadError):
    """BigQuery refuses the rows of a load job."""

    code = "refused-data"


class ChangedError(SingerArrowError):
    """The resource was changed concurrently."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job; times are the server's."""

    id: str
    kind: str
    is_done: bool
    created: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    error: str | None = None  # of a job that failed, BigQuery's own reason, on one line
    error_kind: ErrorKind | None = None
    rows: int = 0
    table: str | None = None  # the destination of a load or copy, as `project.dataset.table`
    claims: str | None = None  # the write stream that a claim names; see `sql.claim`
    is_nothing: bool = False  # it only takes its id, so that no other job has it
    resource: Any = None


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The column that a table is partitioned by, and how."""

    column: str
    unit: str | None = None  # HOUR, DAY, MONTH or YEAR
    cells: tuple[int, int, int] | None = None  # of integers: the first value, the end (exclusive), values per partition


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    name: str
    columns: tuple[TableColumn, ...]
    fields: tuple[Mapping[str, Any], ...]  # its columns as the API writes them
    created: datetime
    labels: Mapping[str, str]
    partitions: Partitioning | None
    clustered_by: tuple[str, ...]
    resource: Any
    filtered_by: str | None = None  # the column by which each query of it must choose partitions, if that is required


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query, how many rows it changed, and when the server began with it."""

    rows: list[Mapping[str, Any]]
    started: datetime | None
    affected: int = 0


def table(name: str, found: Any) -> Table:
    fields = tuple(f.to_api_repr() for f in found.schema)
    by_time, by_range, partitions = found.time_partitioning, found.range_partitioning, None
    if by_time and by_time.field:
        partitions = Partitioning(by_time.field, unit=by_time.type_ or "DAY")
    elif by_range and not by_time:
        cells = (by_range.range_.start, by_range.range_.end, by_range.range_.interval)
        is_known = all(n is not None for n in cells) and int(cells[2]) > 0
        partitions = Partitioning(by_range.field, cells=tuple(int(n) for n in cells) if is_known else None)  # type: ignore[arg-type]
    recorded, by = records_owners(fields), by_time or by_range
    return Table(
        name=name,
        columns=tuple(_existing(f, recorded=recorded) for f in fields),
        fields=fields,
        created=found.created,
        labels=dict(found.labels or {}),
        partitions=partitions,
        clustered_by=tuple(found.clustering_fields or ()),
        resource=found,
        filtered_by=(by.field or "_PARTITIONTIME") if by and found.require_partition_filter else None,
    )


def _existing(field: Mapping[str, Any], *, recorded: bool) -> TableColumn:
    return TableColumn(
        name=field["name"],
        kind=kind_of(field["type"]),
        mode=(field.get("mode") or "NULLABLE").upper(),
        fields=tuple(_existing(f, recorded=recorded) for f in field.get("fields") or ()),
        variant_of=marked(field.get("description")),
        owner=owner(field.get("description"), field["name"], recorded=recorded),
    )


def job(found: Any) -> Job:
    result = found.error_result
    reason, error = (result or {}).get("reason"), None
    if result:  # why it failed: its result, and the first errors that led to it
        texts = [" ".join((e.get("message") or e.get("reason") or "").split()) for e in (result, *(found.errors or ()))]
        error = f"{reason}: {'; '.join(list(dict.fromkeys(filter(None, texts)))[:4])}"[:1500]
    claim = sql.CLAIM.fullmatch(found.query or "") if found.job_type == "query" else None
    return Job(
        id=found.job_id,
        kind=found.job_type,
        is_done=found.state == "DONE",
        created=found.created,
        started=found.started,
        ended=found.ended,
        error=error,
        error_kind=classify(None, reason, result.get("message") or "") if result else None,
        rows=(found.output_rows or 0) if found.job_type == "load" else 0,
        table=destination(found),
        claims=claim[1] if claim else None,
        is_nothing=found.job_type == "query" and found.query == sql.NOTHING,
        resource=found,
    )


def destination(found: Any) -> str | None:
    """Return the table that a load or copy job of Google's library writes, as `project.dataset.table`."""
    to = found.destination if found.job_type in ("load", "copy") else None
    return None if to is None else f"{to.project}.{to.dataset_id}.{to.table_id}"


def failed(what: str, found: Job) -> LoadError:
    if found.error_kind is ErrorKind.QUOTA:
        return QuotaError(f"{what}: {found.error}. {_QUOTA_HINT}")
    text = f"{what}: {found.error} (job {found.id})"
    if found.error_kind is ErrorKind.LIMIT:
        return LoadError(f"{text}. {_LIMIT_HINT}")
    if "Too many partitions" in text:  # 4,000 (https://cloud.google.com/bigquery/quotas#partitioned_tables, 2026-08-22)
        hint = "let partition_by have larger ones, or let each run bring fewer: start_date, end_date"
        return LoadError(f"{text}; {hint}")
    if found.error_kind is ErrorKind.OTHER and found.kind == "load":
        return RefusedDataError(text)
    if STREAMED in text:
        text += (
            "; wait until its streaming buffer is empty, 90 minutes after the last streamed row at most, and run again"
        )
    kinds = {ErrorKind.REFUSED: RefusedError, ErrorKind.MISSING: MissingError}
    return kinds.get(found.error_kind or ErrorKind.OTHER, LoadError)(text)


STREAMED = "streaming buffer"
"""Words of the error of a statement that cannot change rows which were streamed lately."""
_QUOTA_HINT = (
    "Wait until the quota is back, raise it in the Google Cloud console, "
    "or let max_batch_age_seconds and max_batch_mb make fewer and larger loads"
)
_LIMIT_HINT = (
    "Nothing was done or billed. Raise bytes_billed_limit, or let partition_by and cluster_by bound what is read"
)
_DENIED_HINT = "check the credentials and the roles they have (BigQuery Job User and BigQuery Data Editor)"
_OF_CALLS: dict[ErrorKind, tuple[type[SingerArrowError], str]] = {
    ErrorKind.RETRY: (ServiceError, ""),
    ErrorKind.QUOTA: (QuotaError, f". {_QUOTA_HINT}"),
    ErrorKind.LIMIT: (LoadError, f". {_LIMIT_HINT}"),
    ErrorKind.LOGIN: (CredentialsError, "; check credentials_path, credentials_json or the login of this machine"),
    ErrorKind.DENIED: (AccessDeniedError, f"; {_DENIED_HINT}"),
    ErrorKind.MISSING: (NotFoundError, ""),
    ErrorKind.EXISTS: (AlreadyExistsError, ""),
    ErrorKind.CHANGED: (ChangedError, ""),
    ErrorKind.REFUSED: (RefusedError, ""),
    ErrorKind.OTHER: (LoadError, ""),
}
"""The error of a call, and the advice behind its message."""


def translate_error(error: Exception, what: str) -> SingerArrowError:
    """Translate an error of Google's libraries or of the network; `ServiceError` if a retry may succeed."""
    import requests
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.resumable_media import DataCorruption, InvalidResponse

    if isinstance(error, InvalidResponse):
        error = api.from_http_response(error.response)  # type: ignore[no-untyped-call]  # the library lacks it
    if isinstance(error, api.GoogleAPICallError):
        details = [e for e in (error.errors or []) if isinstance(e, Mapping)]
        reason = details[0].get("reason") if details else None
        text = " ".join(((details[0].get("message") if details else None) or error.message or "").split())
        kind, advice = _OF_CALLS[classify(error.code, reason, text)]
        return kind(f"{what}: {reason}: {text}{advice}" if reason else f"{what}: {text}{advice}")
    if isinstance(error, auth.TransportError):
        return ServiceError(f"{what}: {_line(error)}; check the network")
    if isinstance(error, auth.InvalidOperation):  # no credentials were given
        hint = "set credentials_path or credentials_json"
        return CredentialsError(
            f"{what}: the server requires credentials, and none are set for this api_endpoint; {hint}"
        )
    if isinstance(error, auth.GoogleAuthError):
        message = error.args[0] if error.args else error  # what follows is the whole answer, which may hold tokens
        return CredentialsError(f"{what}: the Google credentials were refused ({_line(message)}); renew them")
    if isinstance(error, requests.exceptions.SSLError):
        return LoadError(f"{what}: {_line(error)}; check the certificates and the api_endpoint")
    if isinstance(error, requests.RequestException | ConnectionError | TimeoutError | DataCorruption | api.RetryError):
        return ServiceError(f"{what}: BigQuery could not be reached ({_line(error)}); check the network")
    return LoadError(f"{what}: {type(error).__name__}: {_line(error)}")


def _line(error: object) -> str:
    return " ".join(str(error).split())[:500]
