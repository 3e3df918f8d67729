"""Which credentials a client gets, and that calls are tried again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import google.auth
import pytest
from google.api_core import exceptions as api
from google.auth import impersonated_credentials
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import DefaultCredentialsError
from google.oauth2.credentials import Credentials

from singer_arrow.errors import ConfigError, CredentialsError, LoadError, ServiceError
from target_bigquery import connection
from target_bigquery.config import Settings
from target_bigquery.connection import Connection, find_credentials

USER = {"type": "authorized_user", "client_id": "i", "client_secret": "SECRET", "refresh_token": "TOKEN"}


def settings(**config: Any) -> Settings:
    return Settings.from_config({"project": "p", "dataset": "d"} | config)


def test_credentials_as_json_and_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(USER))
    for given in ({"credentials_json": json.dumps(USER)}, {"credentials_json": USER}, {"credentials_path": str(path)}):
        found = find_credentials(settings(**given))
        assert isinstance(found, Credentials)
        assert found.refresh_token == "TOKEN"


def test_a_server_of_ones_own_gets_no_credentials_that_were_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google.auth, "default", lambda **_: ("defaults", "p"))
    for endpoint in ("http://127.0.0.1:9", "https://bigquery.example.com", "https://evilgoogleapis.com"):
        assert isinstance(find_credentials(settings(api_endpoint=endpoint)), AnonymousCredentials)
    for endpoint in ("https://bigquery.europe-west3.rep.googleapis.com", "https://x.p.googleapis.com"):
        assert find_credentials(settings(api_endpoint=endpoint)) == "defaults"
    assert find_credentials(settings()) == "defaults"
    given = find_credentials(settings(api_endpoint="http://127.0.0.1:9", credentials_json=USER))
    assert isinstance(given, Credentials)


def test_impersonation() -> None:
    found = find_credentials(settings(credentials_json=USER, impersonate_service_account="a@p.iam.gserviceaccount.com"))
    assert isinstance(found, impersonated_credentials.Credentials)
    assert found.service_account_email == "a@p.iam.gserviceaccount.com"


def test_no_credentials_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise DefaultCredentialsError("none")

    monkeypatch.setattr(google.auth, "default", fail)
    with pytest.raises(CredentialsError, match="gcloud auth application-default login"):
        find_credentials(settings())


@pytest.mark.parametrize(
    "content", ["", "not json", "[]", '{"type": "service_account", "private_key": "SECRET"}', '{"type": "x"}']
)
def test_a_file_that_holds_no_credentials_is_named_and_not_shown(content: str, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(content)
    for config in ({"credentials_path": str(path)}, {"credentials_path": str(tmp_path / "gone")}):
        with pytest.raises(ConfigError, match="'credentials_path' holds no usable Google credentials") as caught:
            find_credentials(settings(**config))
        assert "SECRET" not in str(caught.value)


def test_calls_are_tried_again_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    monkeypatch.setattr(connection.time, "sleep", calls.append)
    made = Connection(settings())
    answers = iter([api.ServiceUnavailable("x"), api.TooManyRequests("x"), ConnectionResetError(), None])

    def flaky() -> str:
        error = next(answers)
        if error is not None:
            raise error
        return "done"

    assert made.call("Doing", flaky) == "done"
    assert len(calls) == 3
    monkeypatch.setattr(connection, "DEADLINE_SECONDS", 0.0)
    with pytest.raises(ServiceError, match="^Doing: "):
        made.call("Doing", lambda: (_ for _ in ()).throw(api.ServiceUnavailable("x")))


def test_what_is_wrong_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.time, "sleep", lambda _: pytest.fail("it waited"))
    with pytest.raises(LoadError):
        Connection(settings()).call("Doing", lambda: (_ for _ in ()).throw(api.BadRequest("x")))
