"""Every source of credentials and every route to a bucket, by real requests from listing and reading."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_aws import BUCKET, Refusal, Request, SmallAws
from small_network import Tunnel, certificates
from waiting import wait_until

from singer_arrow.errors import AccessDeniedError, ConfigError, CredentialsError, ServiceError
from singer_arrow.storage import aws
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.sqs import Queue

ROOT = Url("s3", BUCKET, "")
OBJECTS = {"in/a.csv": b"id\n1\n", "in//odd.csv": b"id\n2\n"}


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set an environment and home without configuration of AWS, proxies and certificate authorities."""
    for name in list(os.environ):
        if (
            name.startswith("AWS_")
            or name.lower().endswith("_proxy")
            or name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def server() -> Iterator[SmallAws]:
    with SmallAws(dict(OBJECTS)) as running:
        yield running


def read(server: SmallAws, **options: Any) -> dict[str, bytes]:
    """Return the listing and the content of each object, by boto3 and by obstore."""
    storage = Storage(AwsOptions.from_config({"endpoint_url": server.url, **options}))
    return {info.url.key: bytes(storage.get(info.url, version_of=info).data) for info in storage.list(ROOT)}


def configure(tmp_path: Path, text: str) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(text)


# Credentials --------------------------------------------------------------------------------------------------------


def test_keys_of_the_settings_with_a_token(server: SmallAws) -> None:
    assert read(server, access_key_id="mine", secret_access_key="s", session_token="t") == OBJECTS
    assert server.signers() == {"mine"}
    assert {r.headers["x-amz-security-token"] for r in server.requests} == {"t"}


def test_the_environment(server: SmallAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert read(server) == OBJECTS
    assert server.signers() == {"env"}


def test_a_profile(server: SmallAws, tmp_path: Path) -> None:
    configure(tmp_path, "[profile other]\naws_access_key_id = profile\naws_secret_access_key = s\nregion = eu-west-3\n")
    assert read(server, profile="other") == OBJECTS
    assert server.signers() == {"profile"}
    assert {r.headers["authorization"].split("/")[2] for r in server.requests} == {"eu-west-3"}


@pytest.mark.parametrize("kind", ["session", "profile"])
def test_sso(kind: str, server: SmallAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = "https://example.awsapps.com/start"
    login = f"sso_start_url = {start}\nsso_region = eu-west-3\n"
    own = login if kind == "profile" else "sso_session = company\n"
    profile = f"[profile sso]\n{own}sso_account_id = 123456789012\nsso_role_name = Reader\nregion = eu-west-3\n"
    configure(tmp_path, profile if kind == "profile" else f"{profile}[sso-session company]\n{login}")
    cache = tmp_path / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    known = {"startUrl": start, "accessToken": "of-login", "expiresAt": "2100-01-01T00:00:00Z", "region": "eu-west-3"}
    name = hashlib.sha1((start if kind == "profile" else "company").encode()).hexdigest()
    (cache / f"{name}.json").write_text(json.dumps(known))
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", server.url)
    for place in ("botocore.tokens.SSOTokenProvider", "botocore.credentials.SSOProvider"):  # found when imported
        monkeypatch.setattr(f"{place}._SSO_TOKEN_CACHE_DIR", str(cache))
    assert read(server, profile="sso") == OBJECTS
    assert server.signers() == {"sso-1"}
    assert server.asked == [{"token": "of-login", "role_name": "Reader", "account_id": "123456789012"}]


def test_web_identity(server: SmallAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("of-kubernetes")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    assert read(server) == OBJECTS
    assert server.signers() == {"web-1"}
    assert server.asked[0]["WebIdentityToken"] == "of-kubernetes"


def test_the_role_of_a_container(server: SmallAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/role")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of-task")
    assert read(server) == OBJECTS
    assert server.signers() == {"container-1"}
    assert server.asked == [{"authorization": "of-task"}]


@pytest.mark.parametrize("base", ["keys", "web identity"])
def test_a_role_with_external_id_and_session_name(
    base: str, server: SmallAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    own = {"access_key_id": "mine", "secret_access_key": "s"} if base == "keys" else {}
    if base == "web identity":
        (tmp_path / "token").write_text("of-kubernetes")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/pod")
    role = {"role_arn": "arn:aws:iam::2:role/reader", "external_id": "x-1", "role_session_name": "nightly"}
    assert read(server, **own, **role) == OBJECTS
    assert {s.partition("-")[0] for s in server.signers()} == {"role"}
    roles = [{k: a.get(k) for k in ("RoleArn", "ExternalId", "RoleSessionName")} for a in server.asked]
    assert roles[-1] == {"RoleArn": role["role_arn"], "ExternalId": "x-1", "RoleSessionName": "nightly"}
    assert len(roles) == (1 if base == "keys" else 2)


def test_a_queue_is_asked_by_the_same_role(server: SmallAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    role = AwsOptions(access_key_id="mine", secret_access_key="s", role_arn="arn:aws:iam::2:role/reader")
    assert Queue(f"{server.url}/123456789012/events", role, visibility=30).receive(0) == []
    assert server.signers() == {"role-1"}


def test_anonymous(server: SmallAws) -> None:
    assert read(server, anonymous=True) == OBJECTS
    assert not [r for r in server.requests if "authorization" in r.headers]


def test_without_any(server: SmallAws) -> None:
    with pytest.raises(CredentialsError, match="No AWS credentials were found"):
        read(server)
    with pytest.raises(CredentialsError, match="No AWS credentials were found"):
        read(server, role_arn="arn:aws:iam::2:role/reader")


def test_a_role_that_cannot_be_assumed_is_one_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    role = {"access_key_id": "mine", "secret_access_key": "s", "role_arn": "arn:aws:iam::2:role/reader"}
    give = aws.credentials(AwsOptions.from_config(role))
    with pytest.raises(CredentialsError, match="AWS credentials could not be had: "):
        give()
    assert not caplog.records  # botocore would log a traceback


# Credentials that expire ----------------------------------------------------------------------------------------------


def only_fresh(server: SmallAws) -> None:
    """Make the server refuse expired credentials."""
    given: dict[str, float] = {}

    def refuse(request: Request) -> Refusal | None:
        first = given.setdefault(request.signer, time.monotonic())
        if time.monotonic() - first > server.lifetime:
            return 400, "ExpiredToken", "The provided token has expired."
        return None

    server.refuse = refuse


def read_until_signed_by(number: int, server: SmallAws, **options: Any) -> None:
    """Read repeatedly, beyond the credentials' lifetime, until that many of them have signed requests."""
    storage, began = Storage(AwsOptions.from_config({"endpoint_url": server.url, **options})), time.monotonic()

    def has_signed() -> bool:
        for info in storage.list(ROOT):
            storage.get(info.url, version_of=info)
        return len(server.signers()) >= number and time.monotonic() - began > server.lifetime

    wait_until(has_signed)


@pytest.mark.parametrize("kind", ["role", "container"])
def test_credentials_are_renewed_in_a_long_run(kind: str, server: SmallAws, monkeypatch: pytest.MonkeyPatch) -> None:
    server.lifetime = 4
    only_fresh(server)
    options = {}
    if kind == "role":
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        options = {"access_key_id": "mine", "secret_access_key": "s", "role_arn": "arn:aws:iam::2:role/reader"}
    else:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/role")
    read_until_signed_by(3, server, **options)


def test_credentials_of_a_process_are_renewed_and_its_failure_is_an_error(server: SmallAws, tmp_path: Path) -> None:
    program = tmp_path / "give.py"
    program.write_text(
        "import datetime, json, pathlib, sys\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "n = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (n + 1))\n"
        "if n >= 4: sys.exit('the vault is closed')\n"
        "ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=4)\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'process-{n}', 'SecretAccessKey': 's', 'SessionToken': 't',"
        " 'Expiration': ends.isoformat()}))\n"
    )
    configure(tmp_path, f"[default]\ncredential_process = {sys.executable} {program}\n")
    server.lifetime = 4
    only_fresh(server)
    with pytest.raises(CredentialsError, match="the vault is closed") as caught:
        read_until_signed_by(5, server)
    assert len(server.signers()) >= 2
    assert "\n" not in str(caught.value)


# What requests carry --------------------------------------------------------------------------------------------------


def test_requester_pays(server: SmallAws) -> None:
    def refuse(request: Request) -> Refusal | None:
        return None if request.headers.get("x-amz-request-payer") == "requester" else (403, "AccessDenied", "Pay.")

    server.refuse = refuse
    assert read(server, access_key_id="a", secret_access_key="s", requester_pays=True) == OBJECTS
    with pytest.raises(AccessDeniedError, match="access is denied"):
        read(server, access_key_id="a", secret_access_key="s")


KEY = base64.b64encode(bytes(range(32))).decode()


def encrypted(request: Request) -> Refusal | None:
    """Answer as S3 does when all objects except `in/plain.csv` are encrypted with KEY."""
    given = request.headers.get("x-amz-server-side-encryption-customer-key")
    if not request.key or (given is None and request.key == "in/plain.csv"):
        return None
    if request.key == "in/plain.csv":
        return 400, "InvalidRequest", "The encryption parameters are not applicable to this object."
    if given is None:
        why = "The object was stored using a form of Server Side Encryption. The correct parameters must be provided"
        return 400, "InvalidRequest", why
    digest = base64.b64encode(hashlib.md5(base64.b64decode(given)).digest()).decode()
    assert request.headers["x-amz-server-side-encryption-customer-key-md5"] == digest
    assert request.headers["x-amz-server-side-encryption-customer-algorithm"] == "AES256"
    return None if given == KEY else (403, "AccessDenied", "Access Denied")


def test_objects_encrypted_with_a_key_of_the_customer(server: SmallAws) -> None:
    keys = {"access_key_id": "a", "secret_access_key": "s"}
    server.objects["in/plain.csv"] = b"id\n3\n"
    server.refuse = encrypted
    assert read(server, **keys, sse_customer_key=KEY) == {**OBJECTS, "in/plain.csv": b"id\n3\n"}
    storage = Storage(AwsOptions.from_config({"endpoint_url": server.url, **keys, "sse_customer_key": KEY}))
    assert [storage.head(Url("s3", BUCKET, key)).size for key in server.objects] == [5, 5, 5]
    with pytest.raises(CredentialsError, match="is encrypted with a key of yours .*; set aws.sse_customer_key"):
        read(server, **keys)
    with pytest.raises(CredentialsError, match="encrypted with a key that aws.sse_customer_key lacks"):
        Storage(AwsOptions.from_config({"endpoint_url": server.url, **keys})).head(Url("s3", BUCKET, "in/a.csv"))
    with pytest.raises(AccessDeniedError, match="access is denied"):
        read(server, **keys, sse_customer_key=base64.b64encode(b"x" * 32).decode())


@pytest.mark.parametrize("key", ["x", "not base64 at all!", base64.b64encode(b"x" * 16).decode()])
def test_a_key_of_the_customer_that_is_none(key: str) -> None:
    with pytest.raises(ConfigError, match="must be the base64 text of 32 bytes") as caught:
        AwsOptions.from_config({"sse_customer_key": key})
    assert key not in str(caught.value) or key == "x"
    assert KEY not in repr(AwsOptions.from_config({"sse_customer_key": KEY}))


def test_an_endpoint_has_buckets_in_its_path(server: SmallAws) -> None:
    read(server, anonymous=True)
    assert {r.headers["host"] for r in server.requests} == {f"127.0.0.1:{server.port}"}


@pytest.mark.parametrize("where", ["service", "all services", "profile", "profile's services"])
def test_an_endpoint_of_the_surroundings(
    where: str, server: SmallAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where in ("service", "all services"):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3" if where == "service" else "AWS_ENDPOINT_URL", server.url)
    elif where == "profile":
        configure(tmp_path, f"[default]\nendpoint_url = {server.url}\n")
    else:
        configure(tmp_path, f"[default]\nservices = own\n[services own]\ns3 =\n  endpoint_url = {server.url}\n")
    assert read(server, endpoint_url=None, anonymous=True) == OBJECTS
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert aws.s3_endpoint(aws.session(AwsOptions())) is None


def test_the_region_of_a_bucket_is_found(server: SmallAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    boto = aws.session(AwsOptions(access_key_id="a", secret_access_key="s", region="us-west-2"))
    assert aws.bucket_region(boto, BUCKET, anonymous=False) == "eu-west-3"
    assert aws.bucket_region(boto, BUCKET, anonymous=True) == "eu-west-3"
    assert aws.bucket_region(boto, "nobodys", anonymous=True) == "us-west-2"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert aws.bucket_region(aws.session(AwsOptions()), BUCKET, anonymous=True) == "us-east-1"


@pytest.mark.parametrize("code", ["PermanentRedirect", "AuthorizationHeaderMalformed"])
def test_a_region_that_is_not_the_buckets(code: str, server: SmallAws) -> None:
    server.refuse = lambda _: (400, code, "The region 'us-east-1' is wrong; expecting 'eu-west-3'")
    with pytest.raises(CredentialsError, match="the bucket is in another region .*eu-west-3"):
        read(server, access_key_id="a", secret_access_key="s")


def test_a_service_that_is_busy_is_asked_again(server: SmallAws) -> None:
    server.refuse = lambda _: (
        (503, "SlowDown", "Please reduce your request rate.") if len(server.requests) < 3 else None
    )
    assert read(server, anonymous=True) == OBJECTS


def test_a_service_that_is_down_is_one_line() -> None:
    nowhere = Storage(AwsOptions(endpoint_url="http://127.0.0.1:9", anonymous=True))
    with pytest.raises(ServiceError, match="did not answer as it should") as caught:
        nowhere.get(Url("s3", BUCKET, "in//odd.csv"))
    assert "\n" not in str(caught.value)


# Proxies and authorities ----------------------------------------------------------------------------------------------

KEYS = {"access_key_id": "a", "secret_access_key": "s"}


def test_a_proxy_of_the_environment(server: SmallAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("HTTP_PROXY", server.url)
    assert read(server, endpoint_url="http://s3.example", **KEYS) == OBJECTS
    assert {r.headers["host"] for r in server.requests} == {"s3.example"}


def test_a_host_that_needs_no_proxy(server: SmallAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    assert read(server, **KEYS) == OBJECTS


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_an_authority_of_the_environment_behind_a_proxy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = certificates(tmp_path, "s3.example")
    monkeypatch.delenv("NO_PROXY")
    with SmallAws(dict(OBJECTS), tls=context) as server, Tunnel(server.port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "https://s3.example")
        monkeypatch.setenv(name, str(authority))
        role = {"role_arn": "arn:aws:iam::2:role/reader"}
        assert read(server, endpoint_url="https://s3.example", **KEYS, **role) == OBJECTS
        assert server.signers() == {"role-1"}
        assert set(proxy.asked) == {"CONNECT s3.example:443 HTTP/1.1"}


def test_an_untrusted_certificate_authority(tmp_path: Path) -> None:
    with (
        SmallAws(dict(OBJECTS), tls=certificates(tmp_path, "127.0.0.1")[1]) as server,
        pytest.raises(ServiceError, match="certificate verify failed") as caught,
    ):
        read(server, **KEYS)
    assert "\n" not in str(caught.value)


def test_a_file_of_authorities_that_is_not_there(server: SmallAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere/ca.pem")
    with pytest.raises(ConfigError, match="AWS_CA_BUNDLE names /nowhere/ca.pem, which does not exist"):
        read(server, **KEYS)
