"""AWS configuration read from settings and environment without boto3 equals that of boto3."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singer_arrow.errors import CredentialsError
from singer_arrow.storage import aws
from singer_arrow.storage.aws import AwsOptions, static_access

VARIABLES = {
    "AWS_ACCESS_KEY_ID": ["env", ""],
    "AWS_SECRET_ACCESS_KEY": ["env-secret", ""],
    "AWS_SESSION_TOKEN": ["env-token", ""],
    "AWS_SECURITY_TOKEN": ["old-token"],
    "AWS_CREDENTIAL_EXPIRATION": ["2999-01-01T00:00:00Z"],
    "AWS_REGION": ["ap-south-1", ""],
    "AWS_DEFAULT_REGION": ["eu-west-1", ""],
    "AWS_ENDPOINT_URL": ["http://127.0.0.1:1", ""],
    "AWS_ENDPOINT_URL_S3": ["http://127.0.0.1:2", ""],
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": ["true"],
    "AWS_PROFILE": ["mine"],
    "AWS_CONFIG_FILE": [""],
}
CONFIG = "[default]\nregion = us-west-1\nendpoint_url = http://127.0.0.1:3\n[profile mine]\nregion = us-west-2\n"
OPTIONS = {
    "region": ["eu-north-1"],
    "profile": ["mine"],
    "keys": [("set", "set-secret", None), ("set", "set-secret", "set-token")],
    "anonymous": [True],
}


def some(of: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in of.items()})


def environment(home: Path, variables: dict[str, str], *, config: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (home / ".aws").mkdir(exist_ok=True)
    (home / ".aws" / "config").write_text(CONFIG if config else "")


def keys(options: AwsOptions) -> dict[str, Any] | str:
    """Return the keys that boto3 finds."""
    try:
        found = aws.credential_provider(aws.session(options))()
    except CredentialsError as error:
        return str(error)
    return {name: found[name] or None for name in ("access_key_id", "secret_access_key", "token")}


@settings(
    deadline=None,
    max_examples=settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(variables=some(VARIABLES), given_options=some(OPTIONS), config=st.booleans())
def test_it_is_what_boto3_finds(
    variables: dict[str, str], given_options: dict[str, Any], config: bool, tmp_path: Path
) -> None:
    key, secret, token = given_options.pop("keys", (None, None, None))
    options = AwsOptions(access_key_id=key, secret_access_key=secret, session_token=token, **given_options)
    with pytest.MonkeyPatch.context() as patch:
        environment(tmp_path, variables, config=config, monkeypatch=patch)
        found = static_access(options)
        if config or options.profile or "AWS_PROFILE" in variables:
            assert found is None
        if found is None:
            return
        boto = aws.session(options)
        assert found.region == (boto.region_name or None)
        assert found.endpoint == aws.s3_endpoint(boto)
        if options.anonymous:
            assert found.credentials is None
        else:
            assert found.credentials is not None
            credentials = found.credentials()
            assert credentials.pop("expires_at") is None
            assert credentials == keys(options)


def test_usual_surroundings_need_no_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "eu-west-1"}
    environment(tmp_path, own, config=False, monkeypatch=monkeypatch)
    found = static_access(AwsOptions())
    assert found is not None
    assert found.region == "eu-west-1"
    empty = static_access(AwsOptions(), own | {"AWS_ENDPOINT_URL": "", "AWS_DEFAULT_REGION": ""})
    assert empty is not None
    assert (empty.endpoint, empty.region) == (None, None)
    assert static_access(AwsOptions(role_arn="arn:aws:iam::123456789012:role/r")) is None


def test_files_that_cannot_be_looked_into_are_left_to_boto3(tmp_path: Path) -> None:
    own = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    os.mkfifo(tmp_path / "pipe")
    assert static_access(AwsOptions(), own | {"AWS_CONFIG_FILE": os.devnull}) is not None
    assert static_access(AwsOptions(), own | {"AWS_CONFIG_FILE": str(tmp_path / "gone")}) is not None
    assert static_access(AwsOptions(), own | {"AWS_CONFIG_FILE": str(tmp_path / "pipe")}) is None
