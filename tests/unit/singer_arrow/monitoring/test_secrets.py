"""Settings without secrets: declared ones, those whose names suggest one, and those in URLs."""

from __future__ import annotations

from typing import Any

from singer_arrow.monitoring.logs import mask_secrets, secret_values, without_secrets

SCHEMA: dict[str, Any] = {
    "properties": {
        "uri": {"type": "string"},
        "key": {"type": "string", "secret": True},
        "iam": {"type": "object", "properties": {"pin": {"secret": True}, "region": {}}},
        "list": {"type": "array", "items": {"properties": {"code": {"secret": True}}}},
    }
}
CONFIG: dict[str, Any] = {
    "uri": "https://me:hidden-in-uri@host/a?X-Amz-Signature=hidden-signature",
    "key": "hidden-key",
    "iam": {"pin": "hidden-pin", "region": "eu-west-1"},
    "list": [{"code": "hidden-code", "name": "plain"}],
    "headers": {"authorization": "hidden-header"},
    "params": {"key": "hidden-param"},
    "credentials_json": {"private_key": "hidden-json"},
    "password": None,
    "dataset": "raw",
}


def test_no_secret_is_left() -> None:
    clean = without_secrets(CONFIG, SCHEMA)
    assert "hidden" not in str(clean)
    assert clean["iam"] == {"pin": "***", "region": "eu-west-1"}
    assert clean["list"] == [{"code": "***", "name": "plain"}]
    assert (clean["dataset"], clean["key"], clean["password"]) == ("raw", "***", None)


def test_secrets_are_masked_in_texts() -> None:
    environ = {"AWS_SECRET_ACCESS_KEY": "hidden-environment", "HOME": "/home/me"}
    secrets = secret_values(CONFIG, SCHEMA, environ)
    text = "hidden-key hidden-pin hidden-code hidden-header hidden-param hidden-json hidden-environment /home/me raw"
    assert mask_secrets(text, secrets) == "*** *** *** *** *** *** *** /home/me raw"
