"""Google's errors become ours, one line with subject, cause and remedy; none is passed through."""

from __future__ import annotations

import inspect
import io
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.resumable_media import DataCorruption, InvalidResponse

from singer_arrow.errors import (
    AccessDeniedError,
    CredentialsError,
    LoadError,
    NotFoundError,
    ServiceError,
    SingerArrowError,
)
from target_bigquery import resources, sql
from target_bigquery.resources import AlreadyExistsError, ChangedError, ErrorKind, QuotaError


def call_error(kind: type[api.GoogleAPICallError], reason: str | None, text: str) -> api.GoogleAPICallError:
    return kind(f"POST https://bigquery/x: {text}", errors=[{"reason": reason, "message": text}] if reason else ())


@pytest.mark.parametrize(
    ("error", "ours", "words"),
    [
        (
            call_error(api.Forbidden, "quotaExceeded", "Quota exceeded"),
            QuotaError,
            "Quota exceeded. Wait until the quota",
        ),
        (call_error(api.Forbidden, "accessDenied", "Access Denied"), AccessDeniedError, "BigQuery Job User"),
        (call_error(api.Forbidden, "rateLimitExceeded", "too many"), ServiceError, "rateLimitExceeded: too many"),
        (
            call_error(api.Unauthorized, None, "Request had invalid credentials"),
            CredentialsError,
            "check credentials_path",
        ),
        (call_error(api.NotFound, "notFound", "Not found: Dataset p:d"), NotFoundError, "Not found: Dataset p:d"),
        (call_error(api.Conflict, "duplicate", "Already Exists"), AlreadyExistsError, "Already Exists"),
        (call_error(api.PreconditionFailed, "conditionNotMet", "x"), ChangedError, "x"),
        (call_error(api.BadRequest, "invalid", "Provided Schema\n does not match"), LoadError, "Schema does not match"),
        (call_error(api.InternalServerError, "backendError", "x"), ServiceError, "backendError"),
        (call_error(api.ServiceUnavailable, None, "x"), ServiceError, "POST https://bigquery/x: x"),
        (auth.RefreshError("invalid_grant: Token has been expired"), CredentialsError, "credentials were refused"),
        (auth.TransportError("no route"), ServiceError, "check the network"),
        (requests.ConnectionError("refused"), ServiceError, "could not be reached"),
        (requests.Timeout("slow"), ServiceError, "could not be reached"),
        (requests.exceptions.SSLError("bad certificate"), LoadError, "certificates"),
        (ConnectionResetError("reset"), ServiceError, "could not be reached"),
        (DataCorruption(None, "checksum"), ServiceError, "could not be reached"),
        (RuntimeError("anything"), LoadError, "RuntimeError: anything"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_errors(error: Exception, ours: type[Exception], words: str) -> None:
    translate_error = resources.translate_error(error, "Loading into table p.d.t")
    assert type(translate_error) is ours
    assert str(translate_error).startswith("Loading into table p.d.t: ")
    assert words in str(translate_error)
    assert "\n" not in str(translate_error)


def test_the_error_of_a_refused_upload_has_its_reason() -> None:
    response = requests.Response()
    response.status_code = 403
    response.raw = io.BytesIO(
        b'{"error": {"message": "m", "errors": [{"reason": "quotaExceeded", "message": "imports per table"}]}}'
    )
    response.request = requests.Request("PUT", "https://x").prepare()
    translate_error = resources.translate_error(InvalidResponse(response, "no"), "Loading")
    assert isinstance(translate_error, LoadError)
    assert "imports per table" in str(translate_error)


@pytest.mark.parametrize(
    "kind",
    [k for _, k in inspect.getmembers(api, inspect.isclass) if issubclass(k, api.GoogleAPICallError)],
    ids=lambda k: k.__name__,
)
def test_no_error_of_a_call_escapes(kind: type[Any]) -> None:
    assert isinstance(resources.translate_error(kind("text"), "Doing"), SingerArrowError)


def made_job(**changes: Any) -> Any:
    destination = SimpleNamespace(project="p", dataset_id="d", table_id="t")
    usual = {
        "job_id": "j",
        "job_type": "load",
        "state": "DONE",
        "error_result": None,
        "errors": None,
        "created": datetime(2026, 1, 1, tzinfo=UTC),
        "started": datetime(2026, 1, 1, tzinfo=UTC),
        "ended": datetime(2026, 1, 2, tzinfo=UTC),
        "output_rows": 5,
        "destination": destination,
    }
    return SimpleNamespace(**(usual | changes))


def test_jobs() -> None:
    job = resources.job(made_job())
    assert (job.is_done, job.rows, job.table, job.error) == (True, 5, "p.d.t", None)
    running = resources.job(made_job(state="RUNNING", output_rows=None))
    assert not running.is_done
    query = resources.job(made_job(job_type="query", destination=None, query="SELECT 1"))
    assert query.claims is None
    name = "projects/p/datasets/d/tables/t/streams/s"
    assert resources.job(made_job(job_type="query", destination=None, query=sql.claim(name))).claims == name
    assert (query.rows, query.table) == (0, None)


def test_a_failed_job_gives_bigquerys_first_reasons() -> None:
    result = {"reason": "invalid", "message": "Too many errors. Please look into the errors[] collection"}
    errors = [result, *({"reason": "invalid", "message": f"row {n}:\n bad"} for n in range(10))]
    job = resources.job(made_job(error_result=result, errors=errors))
    assert job.error == (
        "invalid: Too many errors. Please look into the errors[] collection; row 0: bad; row 1: bad; row 2: bad"
    )
    assert job.error_kind is ErrorKind.OTHER
    assert str(resources.failed("Loading into table x", job)).startswith(
        "Loading into table x: invalid: Too many errors."
    )
    quota = resources.job(made_job(error_result={"reason": "quotaExceeded", "message": "imports"}, errors=[]))
    assert "Wait until the quota is back" in str(resources.failed("Loading", quota))
