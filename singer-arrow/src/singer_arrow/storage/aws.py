"""AWS credentials, endpoint and region by botocore; its settings."""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from singer_arrow.errors import ConfigError
from singer_arrow.settings import setting
from singer_arrow.storage.errors import no_credentials, translate_credential_errors

# The setting `aws` of a connector: `AwsOptions`; access to AWS from it and the environment alone: `static_access`.
#
# That needs no botocore, whose import takes 0.2 s of CPU time, and equals what botocore would find. It exists only
# without a profile, a role, files in `~/.aws` and expiring keys.

_KEY_BYTES = 32
_ROLE = re.compile(r"arn:[\w-]+:iam::\d+:role/[\w+=,.@/-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """Values of the setting `aws` of a connector; missing ones come from boto3's default chain."""

    profile: str | None = setting("Profile in `~/.aws/config`.")
    region: str | None = setting("Region; detected if not set.")
    endpoint_url: str | None = setting("URL of another S3 than Amazon's.")
    access_key_id: str | None = setting("Access key; by default AWS's default chain finds credentials.", secret=True)
    secret_access_key: str | None = setting("Secret of the access key.", secret=True)
    session_token: str | None = setting("Session token of temporary credentials.", secret=True)
    role_arn: str | None = setting("Role to assume.")
    external_id: str | None = setting("External id for the role.")
    role_session_name: str | None = setting("Name of the role's session, which AWS logs; by default `singer-arrow`.")
    anonymous: bool = setting("Read public buckets without credentials.", factory=bool)
    requester_pays: bool = setting("Pay for requests to requester-pays buckets.", factory=bool)
    sse_customer_key: str | None = setting(
        "Your own key (SSE-C) that objects are encrypted with, base64 of its 32 bytes. They are read with it; other "
        "objects are read as they are, and nothing is written with it.",
        secret=True,
    )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> AwsOptions:
        """Validate the setting `aws`."""
        config = {k: v for k, v in config.items() if v is not None}
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(config) - set(known)):
            raise ConfigError(f"Setting 'aws' has no {unknown[0]!r}; it has {', '.join(known)}")
        if ("access_key_id" in config) != ("secret_access_key" in config):
            msg = "Settings aws.access_key_id and aws.secret_access_key belong together; give both or neither"
            raise ConfigError(msg)
        if config.get("role_arn") and not _ROLE.fullmatch(config["role_arn"]):
            msg = f"Setting aws.role_arn is {config['role_arn']!r}; a role reads arn:aws:iam::123456789012:role/name"
            raise ConfigError(msg)
        for name in ("external_id", "role_session_name"):
            if name in config and "role_arn" not in config:
                raise ConfigError(f"Setting aws.{name} is for a role; set aws.role_arn too")
        if "sse_customer_key" in config:
            try:
                key = base64.b64decode(config["sse_customer_key"], validate=True)
            except (binascii.Error, ValueError):
                key = b""
            if len(key) != _KEY_BYTES:
                msg = f"Setting aws.sse_customer_key must be the base64 text of {_KEY_BYTES} bytes; it is not"
                raise ConfigError(msg)
        return cls(**config)


def aws_setting() -> Any:
    """Declare the setting `aws` of a connector."""
    words = "How S3 is accessed; by default as the AWS command line does."
    return setting(words, factory=AwsOptions, parse=AwsOptions.from_config)


_NEED_BOTOCORE = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SECURITY_TOKEN",
    "AWS_CREDENTIAL_EXPIRATION",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}


@dataclass(frozen=True, slots=True)
class S3Access:
    """Region and endpoint of S3, if set, and a provider of keys in obstore's form; None for anonymous access."""

    region: str | None
    endpoint: str | None
    credentials: Callable[[], dict[str, Any]] | None


def static_access(options: AwsOptions, environ: Mapping[str, str] = os.environ) -> S3Access | None:
    """Return the access to AWS; None if botocore is needed to find it."""
    if options.profile or options.role_arn or any(name in environ for name in _NEED_BOTOCORE):
        return None
    if any(_may_hold_settings(environ.get(name) or default) for name, default in _FILES.items()):
        return None
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or None  # empty: not set
    region = options.region or environ.get("AWS_DEFAULT_REGION") or None
    keys = (
        (options.access_key_id, options.secret_access_key, options.session_token)
        if options.access_key_id
        else tuple(environ.get(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"))
    )
    if options.anonymous and bool(keys[0]) == bool(keys[1]):
        return S3Access(region, options.endpoint_url or endpoint, None)
    if not (keys[0] and keys[1]):
        return None
    known = {"access_key_id": keys[0], "secret_access_key": keys[1], "token": keys[2] or None, "expires_at": None}
    return S3Access(region, options.endpoint_url or endpoint, lambda: dict(known))


def _may_hold_settings(path: str) -> bool:
    """Return whether a configuration file may hold settings; anything but a regular file may."""
    file = Path(path).expanduser()
    if path == os.devnull or not file.exists():
        return False
    return not file.is_file() or file.stat().st_size > 0


# AWS credentials, the S3 endpoint and the region of a bucket, by botocore.

SESSION_NAME = "singer-arrow"
"""Default name of a role's session."""
DEFAULT_REGION = "us-east-1"
_REFRESH = timedelta(minutes=10)  # botocore renews expiring credentials itself; asking it again is cheap
_BUNDLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


def ca_bundle() -> str | None:
    """Return the file of certificate authorities that the environment names, if any; it must exist."""
    for name in _BUNDLES:
        path = os.environ.get(name)
        if not path or Path(path).is_dir():  # only OpenSSL reads a directory
            continue
        if not Path(path).is_file():
            msg = f"The environment variable {name} names {path}, which does not exist; correct or unset it"
            raise ConfigError(msg)
        return path
    return None


class AwsSession:
    """A botocore session, as boto3 would create it; importing boto3 takes longer."""

    def __init__(self, profile: str | None, region: str | None) -> None:
        import botocore.session

        self.core: Any = botocore.session.get_session()
        self.core.register_component("data_loader", _loader(self.core))
        for name, value in (("profile", profile), ("region", region)):
            if value is not None:
                self.core.set_config_variable(name, value)

    @property
    def region_name(self) -> str | None:
        """Region of the settings, the environment or `~/.aws/config`."""
        region: str | None = self.core.get_config_variable("region")
        return region

    def client(self, service: str, **options: Any) -> Any:
        """Return botocore's client of a service."""
        return self.core.create_client(service, **options)


def _loader(core: Any) -> Any:
    """Return a loader of service models that does not open the folders of all 400 services to find one."""
    from botocore.loaders import Loader, create_loader

    class NamedServices(Loader):  # type: ignore[misc,unused-ignore]
        def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002
            places = (place for path in self.search_paths if (place := Path(path)).is_dir())
            return sorted({folder.name for place in places for folder in place.iterdir()})

    paths = create_loader(core.get_config_variable("data_path")).search_paths
    return NamedServices(paths, include_default_search_paths=False)


def session(options: AwsOptions) -> AwsSession:
    """Return a session for the options; with `role_arn`, with the role's credentials, renewed before they expire."""
    from botocore.credentials import CredentialResolver
    from botocore.exceptions import ProfileNotFound

    # botocore logs where it found credentials each time, and a traceback if it cannot renew them.
    logging.getLogger("botocore.credentials").setLevel(logging.ERROR)
    own = AwsSession(options.profile, options.region)
    if options.access_key_id:
        own.core.set_credentials(options.access_key_id, options.secret_access_key, options.session_token)
    try:
        own.core.get_scoped_config()  # fails if the profile is missing, which not every lookup below does
        _trust(own.core)
    except ProfileNotFound as error:
        raise ConfigError(f"Setting aws.profile: {error}; add it to ~/.aws/config or name another") from None
    if not options.role_arn:
        return own
    assumed = AwsSession(options.profile, own.region_name)
    assumed.core.register_component("credential_provider", CredentialResolver([_role(options, own)]))
    _trust(assumed.core)
    return assumed


def _trust(core: Any) -> None:
    """Set the certificate authorities of the environment, unless the session's configuration has some."""
    if not core.get_config_variable("ca_bundle") and (bundle := ca_bundle()):
        core.set_config_variable("ca_bundle", bundle)


def _role(options: AwsOptions, own: AwsSession) -> Any:
    """Return a botocore credential provider that assumes the role."""
    from botocore.credentials import AssumeRoleCredentialFetcher, CredentialProvider, DeferredRefreshableCredentials

    with translate_credential_errors():
        credentials = own.core.get_credentials()  # they renew themselves; None if there are none
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


def credentials(options: AwsOptions) -> Callable[[], dict[str, Any]]:
    """Return a credential provider for the options; loads botocore only if they and the environment do not suffice."""
    known = static_access(options)
    return known.credentials if known and known.credentials else credential_provider(session(options))


def credential_provider(boto: AwsSession) -> Callable[[], dict[str, Any]]:
    """Return a function that returns current credentials in obstore's form, or raises CredentialsError.

    Their `expires_at` is in ten minutes, or earlier: after half of their remaining time.
    """
    with translate_credential_errors():
        credentials = boto.core.get_credentials()
    if credentials is None:
        raise no_credentials()
    lock = threading.Lock()
    known: dict[str, Any] = {}

    def provide() -> dict[str, Any]:
        with lock:  # botocore would renew short-lived credentials on each call
            now = datetime.now(UTC)
            if not known or known["expires_at"] <= now:
                with translate_credential_errors():
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


def s3_endpoint(boto: AwsSession) -> str | None:
    """Return the S3 endpoint of the environment or `~/.aws/config`; None for Amazon's own."""
    from botocore.config import Config

    region = boto.region_name or DEFAULT_REGION
    named = boto.client("s3", region_name=region).meta.endpoint_url
    own = boto.client("s3", region_name=region, config=Config(ignore_configured_endpoint_urls=True)).meta.endpoint_url
    return None if named == own else str(named)


def bucket_region(boto: AwsSession, bucket: str, *, anonymous: bool) -> str:
    """Return the region of a bucket; if S3 does not report it, the session's or `us-east-1`.

    S3 reports it even if it refuses access.
    """
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
        return usual  # the next request reports the same error
    headers: dict[str, str] = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers.get("x-amz-bucket-region", usual)
