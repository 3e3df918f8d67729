"""Errors of the Storage Write API, as errors of ours in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from singer_arrow.errors import AccessDeniedError, SingerArrowError
from target_bigquery.connection import resources
from target_bigquery.storage_write.error_kinds import WriteError, WriteErrorKind, classify_write_error

T = TypeVar("T")
_QUOTA_HINT = "raise the quota in the Google Cloud console, or set load_via: load_job"
_DENIED_HINT = "check the credentials and the roles they have (BigQuery Data Editor)"


def call_once(what: str, function: Callable[[], T]) -> T:
    """Call Google's library once, and raise its errors as ours."""
    from google.api_core.exceptions import GoogleAPICallError

    try:
        return function()
    except SingerArrowError:
        raise
    except GoogleAPICallError as error:
        if (status := error.grpc_status_code) is None:
            raise resources.translate_error(error, what) from None
        codes = [code for detail in error.details if (code := _storage_code(detail))]
        raise write_error(what, status.name, error.message or "", codes[0] if codes else None) from None
    except Exception as error:  # noqa: BLE001 - all of the vendor's errors pass this boundary
        raise resources.translate_error(error, what) from None


def row_error(what: str, answer: Any) -> SingerArrowError:
    """Return the error of an answer to rows that were not appended."""
    import grpc

    names = {code.value[0]: code.name for code in grpc.StatusCode}
    codes = [code for detail in answer.error.details if (code := _storage_code(detail))]
    text = answer.error.message
    if rows := [f"row {row.index + 1} of the request: {row.message}" for row in answer.row_errors][:3]:
        text = f"{text} ({'; '.join(rows)})"
    return write_error(what, names.get(answer.error.code, "UNKNOWN"), text, codes[0] if codes else None)


def _storage_code(detail: Any) -> str | None:
    """Return BigQuery's own code in a detail of an error."""
    from google.cloud.bigquery_storage_v1 import types

    if not getattr(detail, "type_url", "").endswith("/google.cloud.bigquery.storage.v1.StorageError"):
        return None
    return str(types.StorageError.deserialize(detail.value).code.name)


def write_error(what: str, status: str, text: str, storage_code: str | None) -> SingerArrowError:
    """Return the error of an answer, with advice where there is some."""
    text = " ".join(text.split())[:1000]
    message = f"{what}: {storage_code or status}: {text}"
    kind = classify_write_error(status, storage_code, text)
    if kind is WriteErrorKind.DENIED:
        return AccessDeniedError(f"{message}; {_DENIED_HINT}")
    hint = {WriteErrorKind.QUOTA: f"; {_QUOTA_HINT}", WriteErrorKind.POSSIBLY_MISSING: f"; {_DENIED_HINT}"}.get(
        kind, ""
    )
    return WriteError(f"{message}{hint}", kind)


def short_name(name: str) -> str:
    """Return a short description of a write stream for messages."""
    found = re.fullmatch(r"projects/([^/]+)/datasets/([^/]+)/tables/([^/]+)/streams/(.+)", name)
    return f"a write stream into table {'.'.join(found.groups()[:3])}" if found else name


def table_of(name: str) -> str:
    """Return the table of a write stream, as the API writes it."""
    return name.rpartition("/streams/")[0]
