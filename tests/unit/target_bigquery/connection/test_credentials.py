"""Every login to BigQuery, by real requests: which token is requested, and which one BigQuery receives."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.auth.transport.requests import Request
from small_google import SmallGoogle

from target_bigquery.client import BigQuery
from target_bigquery.connection import SCOPES, find_credentials
from target_bigquery.settings import Settings

ROBOT = "robot@p.iam.gserviceaccount.com"


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set an environment and home without configuration of Google and proxies."""
    for name in list(os.environ):
        if name.startswith(("GOOGLE_", "CLOUDSDK_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallGoogle]:
    with SmallGoogle() as running:
        monkeypatch.setattr("google.auth.iam._IAM_ENDPOINT", running.acting_as)
        yield running


def ask(google: SmallGoogle, **config: Any) -> set[str | None]:
    """Return the signer of the request for the dataset."""
    settings = Settings.from_config({"project": "p", "dataset": "d", "api_endpoint": google.url, **config})
    client = BigQuery(settings)
    try:
        assert client.dataset_location() == "EU"
    finally:
        client.close()
    return google.signers


@pytest.mark.parametrize("setting", ["credentials_path", "credentials_json", "text"])
@pytest.mark.full
def test_a_key(setting: str, google: SmallGoogle, tmp_path: Path) -> None:
    key = google.key()
    path = tmp_path / "key.json"
    path.write_text(json.dumps(key))
    given: Any = {"credentials_path": str(path), "credentials_json": key, "text": json.dumps(key)}[setting]
    name = "credentials_json" if setting == "text" else setting
    assert ask(google, **{name: given}) == {"Bearer of-oauth"}
    assert len(google.bodies("/oauth")) == 1


@pytest.mark.full
def test_workload_identity(google: SmallGoogle, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-kubernetes")
    assert ask(google, credentials_json=google.federated(str(tmp_path / "token"))) == {"Bearer of-sts"}
    (asked,) = google.bodies("/sts")
    assert (asked["subject_token"], asked["scope"]) == ("of-kubernetes", " ".join(SCOPES))
    assert asked["audience"].endswith("/providers/ci")


@pytest.mark.full
def test_workload_identity_that_acts_as_a_service_account(google: SmallGoogle, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-github")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(google.federated(str(tmp_path / "token"), ROBOT)))
    assert ask(google, credentials_path=str(path)) == {f"Bearer of-{ROBOT}"}
    (acting,) = [asked for asked in google.asked if asked.path.endswith(":generateAccessToken")]
    assert acting.authorization == "Bearer of-sts"


@pytest.mark.full
def test_impersonation_on_top_of_a_key(google: SmallGoogle) -> None:
    assert ask(google, credentials_json=google.key(), impersonate_service_account=ROBOT) == {f"Bearer of-{ROBOT}"}
    (acting,) = [asked for asked in google.asked if asked.path.endswith(f"/{ROBOT}:generateAccessToken")]
    assert (acting.authorization, acting.body["scope"]) == ("Bearer of-oauth", list(SCOPES))


@pytest.mark.full
def test_a_server_of_ones_own_gets_no_credentials_that_are_not_set(
    google: SmallGoogle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key.json").write_text(json.dumps(google.key()))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    assert ask(google) == {None}


@pytest.mark.parametrize("kind", ["key", "federated"])
@pytest.mark.full
def test_application_default_credentials(
    kind: str, google: SmallGoogle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of-ci")
    monkeypatch.setattr("google.auth.external_account._CLOUD_RESOURCE_MANAGER", f"{google.url}/v1/projects/")
    made = google.key() if kind == "key" else google.federated(str(tmp_path / "token"))
    (tmp_path / "adc.json").write_text(json.dumps(made))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))
    found = find_credentials(Settings("p", "d"))
    found.refresh(Request())
    assert found.token == {"key": "of-oauth", "federated": "of-sts"}[kind]
