"""Credentials from the settings are used, or refused with a one-line error without secrets."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from singer_arrow.errors import ConfigError, CredentialsError, ServiceError
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from target_bigquery import connection
from target_bigquery.client import BigQuery
from target_bigquery.connection import Connection, find_credentials, storage_token
from target_bigquery.settings import Settings

USER = {"type": "authorized_user", "client_id": "i", "client_secret": "s3cret", "refresh_token": "r"}

FEDERATED = {
    "type": "external_account",
    "audience": "a",
    "subject_token_type": "x",
    "token_url": "t",
    "credential_source": ["s3cret"],
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "must hold a JSON object"),
        ("null", "must hold a JSON object"),
        ("s3cret", "is not valid JSON"),
        ("\udcff", "is not valid JSON"),
        ("{}", "no usable Google credentials"),
        ('{"type": "service_account", "private_key": "s3cret"}', "no usable Google credentials"),
        ('{"type": "impersonated_service_account"}', "no usable Google credentials"),
        ('{"type": "external_account", "credential_source": ["s3cret"]}', "no usable Google credentials"),
        (json.dumps(FEDERATED), "no usable Google credentials"),
    ],
)
def test_what_is_no_key_file_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=f"'credentials_path'.*{words}") as caught:
        find_credentials(Settings("p", "d", credentials_path=str(path)))
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none.json cannot be read: No such file or directory"):
        find_credentials(Settings("p", "d", credentials_path=str(tmp_path / "none.json")))


def test_a_key_file_and_its_text_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(USER))
    for settings in (Settings("p", "d", credentials_path=str(path)), Settings("p", "d", credentials=USER)):
        found = find_credentials(settings)
        assert (found.client_id, found.refresh_token) == ("i", "r")


@pytest.mark.parametrize("given", [{"type": "impersonated_service_account"}, {"type": 5}])
def test_text_that_is_no_key(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="'credentials_json' holds no usable Google credentials"):
        find_credentials(Settings("p", "d", credentials=given))


BUSY = api.ServiceUnavailable("GET x: busy", errors=[{"reason": "backendError", "message": "busy"}])


def failing(times: int) -> Callable[[], int]:
    """Return a function that fails that many times, and then returns the number of calls."""
    calls = itertools.count(1)

    def function() -> int:
        if (call := next(calls)) <= times:
            raise BUSY
        return call

    return function


def test_a_call_that_waits_for_long_logs_the_reason_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singer_arrow.runtime.threads.LOGGED_SECONDS", 0.002)
    monkeypatch.setattr(connection, "pauses", lambda _: iter([0.001, 0.003, 0.003, 0.003, None]))
    opened = Connection(Settings("p", "d"))
    assert opened.call("Reading", failing(1)) == 2
    assert caplog.messages == []
    assert opened.call("Reading", failing(4)) == 5
    assert caplog.messages == ["Reading: backendError: busy; trying again"]
    with pytest.raises(ServiceError, match=r"^Reading: backendError: busy; all retries failed; run again"):
        opened.call("Reading", failing(5))
    with pytest.raises(ServiceError, match=r"^Reading: backendError: busy$"):
        opened.call_once("Reading", failing(1))


class Refusing:
    """A Google client that refuses each request."""

    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, list[dict[str, Any]]()

    def query(self, _: str, **asked: Any) -> None:
        self.asked.append(asked)
        raise self.error

    def list_jobs(self, **asked: Any) -> None:
        self.asked.append(asked)
        raise self.error


class RefusingJobs(BigQuery):
    """Jobs of a client that refuses each request."""

    def __init__(self, error: Exception) -> None:
        super().__init__(Settings("p", "d"))
        self.refusing = Refusing(error)

    @property
    def client(self) -> Refusing:
        return self.refusing


def refusing(error: Exception) -> tuple[BigQuery, Refusing]:
    jobs = RefusingJobs(error)
    return jobs, jobs.refusing


def test_what_only_informs_is_asked_for_once() -> None:
    jobs, client = refusing(BUSY)
    with pytest.raises(ServiceError, match="Merging: backendError"):
        jobs.estimate("SELECT 1", what="Merging")
    with pytest.raises(ServiceError, match="Listing jobs: backendError"):
        jobs.destinations(datetime.now(UTC), datetime.now(UTC))
    assert [(a["retry"], a["timeout"] < 10) for a in client.asked] == [(None, True)] * 2


def test_ones_own_jobs_are_listed_where_everybodys_are_not_shown() -> None:
    jobs, client = refusing(api.Forbidden("GET x: denied"))
    with pytest.raises(CredentialsError, match="Listing jobs"):
        jobs.destinations(datetime.now(UTC), datetime.now(UTC))
    assert [asked["all_users"] for asked in client.asked] == [True, False]


class Expiring:
    """google.auth credentials whose tokens are valid for one check."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.expiry: datetime | None = None
        self.refreshed = 0

    @property
    def valid(self) -> bool:
        return self.refreshed % 2 == 1 and self.token is not None

    def refresh(self, request: Callable[..., Any]) -> None:
        assert callable(request)
        self.refreshed += 1
        self.token, self.expiry = f"token {self.refreshed}", datetime(2026, 11, 22, 4, 0)  # noqa: DTZ001 - as Google's


def test_tokens_for_the_storage_are_those_for_bigquery(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Expiring()]
    monkeypatch.setattr(connection, "find_credentials", lambda _: found.pop())
    token = storage_token(Settings("p", "d"))
    assert token
    assert token() == {"token": "token 1", "expires_at": datetime(2026, 11, 22, 4, 0, tzinfo=UTC)}
    assert token()["token"] == "token 1"


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (auth.RefreshError("no token", {"id_token": "s3cret"}), CredentialsError, r"were refused \(no token\); renew"),
        (auth.TransportError("no route"), ServiceError, "no route; check the network"),
    ],
)
def test_credentials_that_are_refused_are_not_asked_for_again(
    error: Exception, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused(Expiring):
        def refresh(self, _: Callable[..., Any]) -> None:
            raise error

    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setattr(connection, "find_credentials", lambda _: Refused())
    storage = Storage(None, storage_token(Settings("p", "d")))
    with pytest.raises(kind, match=f"gs://b/x: .*{message}") as caught:
        storage.head(Url.parse("gs://b/x"))
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "given"),
    [
        ({}, True),
        ({"api_endpoint": "https://bigquery.eu.rep.googleapis.com"}, True),
        ({"api_endpoint": "http://127.0.0.1:9"}, False),
        ({"api_endpoint": "http://127.0.0.1:9", "credentials": USER}, True),
    ],
)
def test_an_emulator_without_credentials_gives_the_storage_no_token(more: dict[str, Any], given: bool) -> None:
    assert (storage_token(Settings("p", "d", **more)) is not None) is given


@pytest.mark.full
def test_a_client_is_opened_without_the_other_library() -> None:
    """google-cloud-bigquery imports google-cloud-bigquery-storage if installed, and works without it."""
    text = """
import sys
from google.auth.credentials import AnonymousCredentials
from target_bigquery.settings import Settings
from target_bigquery.connection import open_client
settings = Settings.from_config({"project": "p", "dataset": "d"})
open_client(settings, AnonymousCredentials()).close()
assert not [name for name in sys.modules if name.startswith("google.cloud.bigquery_storage")]
from google.cloud.bigquery_storage_v1 import types
assert types.WriteStream.Type.PENDING
open_client(settings, AnonymousCredentials()).close()
"""
    subprocess.run([sys.executable, "-c", text], check=True)
