"""How AWS is reached: the settings of `aws`, the credentials they lead to, and the region of a bucket."""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from singer_arrow.errors import ConfigError, CredentialsError
from singer_arrow.storage.aws_env import plain

SESSION_NAME = "singer-arrow"
"""The name of a role's session where none is set."""
DEFAULT_REGION = "us-east-1"
_REFRESH = timedelta(minutes=10)  # botocore renews expiring credentials itself; asking it again is cheap
_KEY_BYTES = 32
_ROLE = re.compile(r"arn:[\w-]+:iam::\d+:role/[\w+=,.@/-]+", re.ASCII)
_BUNDLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """The setting `aws` of a connector; what is not given comes from boto3's default chain."""

    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    role_arn: str | None = None
    external_id: str | None = None
    role_session_name: str | None = None
    anonymous: bool = False
    requester_pays: bool = False
    sse_customer_key: str | None = field(default=None, repr=False)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> AwsOptions:
        """Read the setting `aws`.

        Raises:
            ConfigError: A name is unknown, half of a key pair is missing, or a key or a role is none.
        """
        config = {k: v for k, v in (config or {}).items() if v is not None}
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(config) - set(known)):
            msg = f"Setting 'aws' has no {unknown[0]!r}; it has {', '.join(known)}"
            raise ConfigError(msg)
        if ("access_key_id" in config) != ("secret_access_key" in config):
            msg = "Settings aws.access_key_id and aws.secret_access_key belong together; give both or neither"
            raise ConfigError(msg)
        if config.get("role_arn") and not _ROLE.fullmatch(config["role_arn"]):
            msg = f"Setting aws.role_arn is {config['role_arn']!r}; a role reads arn:aws:iam::123456789012:role/name"
            raise ConfigError(msg)
        for name in ("external_id", "role_session_name"):
            if name in config and "role_arn" not in config:
                msg = f"Setting aws.{name} is for a role; set aws.role_arn too"
                raise ConfigError(msg)
        if "sse_customer_key" in config:
            _check_key(config["sse_customer_key"])
        return cls(**config)


def _check_key(text: str) -> None:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        msg = f"Setting aws.sse_customer_key must be the base64 text of {_KEY_BYTES} bytes; it is not"
        raise ConfigError(msg)


def ca_bundle() -> str | None:
    """The file of certificate authorities that the environment names, for the libraries that look elsewhere.

    Raises:
        ConfigError: A variable names a file that is not there.
    """
    for name in _BUNDLES:
        path = os.environ.get(name)
        if not path or Path(path).is_dir():  # a directory is known to OpenSSL alone
            continue
        if not Path(path).is_file():
            msg = f"The environment variable {name} names {path}, which does not exist; correct or unset it"
            raise ConfigError(msg)
        return path
    return None


class Session:
    """botocore's session, as boto3 would make it; boto3 itself takes longer to be imported."""

    def __init__(self, profile: str | None, region: str | None) -> None:
        import botocore.session

        self.core: Any = botocore.session.get_session()
        for name, value in (("profile", profile), ("region", region)):
            if value is not None:
                self.core.set_config_variable(name, value)

    @property
    def region_name(self) -> str | None:
        """The region that is set, or that the environment or `~/.aws/config` names."""
        region: str | None = self.core.get_config_variable("region")
        return region

    def get_credentials(self) -> Any:
        """botocore's credentials, which it renews; None if there are none."""
        return self.core.get_credentials()

    def client(self, service: str, **options: Any) -> Any:
        """botocore's client of a service."""
        return self.core.create_client(service, **options)


def session(options: AwsOptions) -> Session:
    """A session as the options say; with `role_arn` its credentials are the role's, renewed before they expire.

    Raises:
        ConfigError: The profile does not exist.
        CredentialsError: There are none with which the role could be assumed.
    """
    from botocore.credentials import CredentialResolver
    from botocore.exceptions import ProfileNotFound

    # It tells each time where it found them, and of those that it cannot renew by a traceback.
    logging.getLogger("botocore.credentials").setLevel(logging.ERROR)
    own = Session(options.profile, options.region)
    if options.access_key_id:
        own.core.set_credentials(options.access_key_id, options.secret_access_key, options.session_token)
    try:
        own.core.get_scoped_config()  # not each way to credentials, a region or an authority asks for the profile
        _trust(own.core)
    except ProfileNotFound as error:
        msg = f"Setting aws.profile: {error}; add it to ~/.aws/config or name another"
        raise ConfigError(msg) from None
    if not options.role_arn:
        return own
    assumed = Session(options.profile, own.region_name)
    assumed.core.register_component("credential_provider", CredentialResolver([_role(options, own)]))
    _trust(assumed.core)
    return assumed


def _trust(core: Any) -> None:
    """Let a session follow all variables that name authorities; its own configuration comes first."""
    if not core.get_config_variable("ca_bundle") and (bundle := ca_bundle()):
        core.set_config_variable("ca_bundle", bundle)


def _role(options: AwsOptions, own: Session) -> Any:
    """What gives the credentials of the role to a session, and renews them."""
    from botocore.credentials import AssumeRoleCredentialFetcher, CredentialProvider, DeferredRefreshableCredentials

    with mapped():
        credentials = own.get_credentials()
    if credentials is None:
        raise no_credentials()
    extra = {"ExternalId": options.external_id} if options.external_id else {}
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=partial(own.client, region_name=own.region_name or DEFAULT_REGION),
        source_credentials=credentials,
        role_arn=options.role_arn,
        extra_args={"RoleSessionName": options.role_session_name or SESSION_NAME, **extra},
    )

    class Role(CredentialProvider):  # type: ignore[misc,unused-ignore]
        METHOD = "assume-role"

        def load(self) -> Any:
            return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)

    return Role()


@contextmanager
def mapped() -> Iterator[None]:
    """Turn what botocore says when it looks for credentials into our error."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        msg = f"AWS credentials could not be had: {' '.join(str(error).split())}"
        raise CredentialsError(msg) from None


def no_credentials() -> CredentialsError:
    """The error that there are none."""
    return CredentialsError(
        "No AWS credentials were found in the settings, the environment, ~/.aws or the machine's role; "
        "set aws.profile or aws.access_key_id, or aws.anonymous for a public bucket"
    )


def credentials(options: AwsOptions) -> Callable[[], dict[str, Any]]:
    """See `credential_provider`, by the options; botocore is loaded only where they and the environment do not tell."""
    known = plain(options)
    return known.credentials if known and known.credentials else credential_provider(session(options))


def credential_provider(boto: Session) -> Callable[[], dict[str, Any]]:
    """A function that gives fresh credentials each time, in the form that obstore asks for.

    `expires_at` is when it should be asked again (None: never): in ten minutes, or once half of the credentials' own
    time is over.

    Raises:
        CredentialsError: There are none, also later, when the function is called.
    """
    with mapped():
        credentials = boto.get_credentials()
    if credentials is None:
        raise no_credentials()
    lock = threading.Lock()
    known: dict[str, Any] = {}

    def provide() -> dict[str, Any]:
        with lock:  # botocore would renew credentials of a few minutes on each call
            now = datetime.now(UTC)
            if not known or known["expires_at"] <= now:
                with mapped():
                    frozen = credentials.get_frozen_credentials()
                ends = getattr(credentials, "_expiry_time", None)
                known.update(
                    access_key_id=frozen.access_key,
                    secret_access_key=frozen.secret_key,
                    token=frozen.token,
                    expires_at=now + (min(_REFRESH, (ends - now) / 2) if ends else _REFRESH),
                )
            return dict(known)

    return provide


def s3_endpoint(boto: Session) -> str | None:
    """The endpoint of S3 that the environment or `~/.aws/config` names; None if Amazon's own is meant."""
    from botocore.config import Config

    region = boto.region_name or DEFAULT_REGION
    named = boto.client("s3", region_name=region).meta.endpoint_url
    own = boto.client("s3", region_name=region, config=Config(ignore_configured_endpoint_urls=True)).meta.endpoint_url
    return None if named == own else str(named)


def bucket_region(boto: Session, bucket: str, *, anonymous: bool) -> str:
    """The region of a bucket, as S3 tells it also to those whom it refuses; else the session's, else `us-east-1`."""
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(signature_version=UNSIGNED if anonymous else None, connect_timeout=10, read_timeout=20)
    usual = boto.region_name or DEFAULT_REGION
    try:
        answer = boto.client("s3", region_name=usual, config=config).head_bucket(Bucket=bucket)
    except ClientError as error:
        answer = error.response
    except BotoCoreError:
        return usual  # the request that follows meets the same trouble and reports it
    headers: dict[str, str] = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers.get("x-amz-bucket-region", usual)
