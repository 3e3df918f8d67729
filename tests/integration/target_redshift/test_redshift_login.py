"""Login to Redshift over TLS: certificates, and credentials from AWS."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from local_cloud import Cloud
from singer_arrow.errors import ConfigError, CredentialsError, NotFoundError
from target_redshift.client import Redshift
from target_redshift.settings import Settings

pytestmark = pytest.mark.filterwarnings(
    "ignore:ssl:DeprecationWarning",  # the driver's
    "ignore:datetime.datetime.utc:DeprecationWarning",  # moto's and botocore's
)
PASSWORD = "Passw0rd-of-AWS"
IAM = {"cluster_identifier": "c1", "db_user": "etl", "region": "eu-west-1"}


@pytest.fixture(scope="module")
def secured() -> Iterator[Cloud]:
    """Start a Redshift with TLS and a certificate for localhost of an authority of its own."""
    with Cloud(["redshift"], redshift_tls=True) as cloud:
        yield cloud


@pytest.fixture
def trusted(secured: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add that authority to the trusted ones."""
    [certificate] = secured.services["redshift"].log.parent.rglob("ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Provide an in-memory AWS with a cluster `c1`."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        client = boto3.client("redshift")
        client.create_cluster(ClusterIdentifier="c1", NodeType="x", MasterUsername="m", MasterUserPassword=PASSWORD)
        yield client


class HTTPAnswer:
    """The attributes that botocore reads from an HTTP answer."""

    status_code = 200


def client(cloud: Cloud, **more: Any) -> Redshift:
    service = cloud.services["redshift"].facts
    config = {
        "host": "localhost",
        "port": service["port"],
        "dbname": service["dbname"],
        "default_target_schema": "s",
        "s3_stage": "s3://stage/redshift",
    }
    return Redshift(Settings.from_config(config | more))


def account(cloud: Cloud) -> dict[str, str]:
    environ = cloud.environ()
    return {"user": environ["TARGET_REDSHIFT_USER"], "password": environ["TARGET_REDSHIFT_PASSWORD"]}


def test_an_untrusted_certificate_is_refused(secured: Cloud) -> None:
    with pytest.raises(ConfigError, match="certificate is not trusted.*check host and ssl"):
        client(secured, **account(secured)).now()


@pytest.mark.usefixtures("trusted")
def test_one_that_is_trusted_is_taken(secured: Cloud) -> None:
    opened = client(secured, **account(secured))
    assert opened.now()
    opened.close()


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("mode", ["verify-ca", "verify-full", None])
def test_a_certificate_for_another_name(secured: Cloud, mode: str | None, caplog: pytest.LogCaptureFixture) -> None:
    opened = client(secured, **account(secured), host="127.0.0.1", sslmode=mode)
    try:
        if mode == "verify-full":
            with pytest.raises(
                ConfigError, match="certificate is for another name .*; check host, or set sslmode: verify-ca"
            ):
                opened.now()
        else:
            assert opened.now()
    finally:
        opened.close()
    assert ("sslmode was not set" in caplog.text) == (mode is None)


def test_statements_belong_to_a_query_group(secured: Cloud) -> None:
    opened = client(secured, **account(secured), ssl=False, query_group="night's")
    try:
        assert opened.query("SHOW query_group", what="test").value == "night's"
    finally:
        opened.close()


@pytest.mark.usefixtures("trusted")
class TestIam:
    def test_aws_is_asked_for_a_password(self, secured: Cloud, aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        with secured.redshift_connection() as connection:
            connection.execute(f"CREATE USER \"iam:etl\" PASSWORD '{PASSWORD}'")
        long_ago = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)  # the driver caches credentials until they expire
        given = {"DbUser": "iam:etl", "DbPassword": PASSWORD, "Expiration": long_ago}
        asked: list[Any] = []
        make = boto3.Session.client

        def remember(self: Any, *args: Any, **more: Any) -> Any:
            made = make(self, *args, **more)

            def give(params: Any, **_: Any) -> None:
                asked.append(params)

            made.meta.events.register("provide-client-params.redshift.GetClusterCredentials", give)
            made.meta.events.register(
                "after-call.redshift.GetClusterCredentials", lambda parsed, **_: parsed.update(given)
            )
            return made

        monkeypatch.setattr(boto3.Session, "client", remember)
        opened = client(secured, iam=IAM)
        assert opened.query("SELECT current_user", what="test").value == "iam:etl"
        opened.close()
        assert (asked[0]["DbUser"], asked[0]["DbName"], asked[0]["AutoCreate"]) == ("etl", "dev", False)

    def test_aws_is_asked_for_a_password_of_a_workgroup(
        self, secured: Cloud, aws: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with secured.redshift_connection() as connection:
            connection.execute(f"CREATE USER \"iamr:loader\" PASSWORD '{PASSWORD}'")
        given = {"dbUser": "iamr:loader", "dbPassword": PASSWORD, "expiration": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}
        asked: list[Any] = []
        make = boto3.Session.client

        def answer(self: Any, *args: Any, **more: Any) -> Any:
            made = make(self, *args, **more)

            def give(params: Any, **_: Any) -> Any:
                asked.append(json.loads(params["body"]))
                return HTTPAnswer(), dict(given)

            made.meta.events.register("before-call.redshift-serverless.GetCredentials", give)
            return made

        monkeypatch.setattr(boto3.Session, "client", answer)
        opened = client(secured, iam={"workgroup": "wg1", "region": "eu-west-1"})
        assert opened.query("SELECT current_user", what="test").value == "iamr:loader"
        opened.close()
        assert asked == [{"dbName": "dev", "workgroupName": "wg1"}]

    def test_the_database_refuses_it(self, secured: Cloud, aws: Any) -> None:
        with pytest.raises(CredentialsError, match="password authentication failed.*user and password, or iam"):
            client(secured, iam=IAM).now()

    @pytest.mark.usefixtures("tried_once")
    def test_there_is_no_such_cluster(self, secured: Cloud, aws: Any) -> None:
        with pytest.raises(NotFoundError, match="zz not found.*check iam.cluster_identifier"):
            client(secured, iam=IAM | {"cluster_identifier": "zz"}).now()

    def test_there_is_no_such_role(self, secured: Cloud, aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setattr("botocore.credentials.CredentialResolver.load_credentials", lambda _: None)
        with pytest.raises(CredentialsError, match="No AWS credentials were found"):
            client(secured, iam=IAM).now()
