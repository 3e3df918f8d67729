"""What the settings name as credentials is used, or told in one line that holds nothing of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singer_arrow.errors import ConfigError
from target_bigquery.config import Settings
from target_bigquery.connection import find_credentials

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
        ("s3cret", "is no JSON"),
        ("\udcff", "is no JSON"),
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
