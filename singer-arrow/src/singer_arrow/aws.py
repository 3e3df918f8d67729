"""How AWS is reached: the settings of `aws`, the credentials they lead to, and the region of a bucket."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from singer_arrow.errors import ConfigError, CredentialsError

if TYPE_CHECKING:
    import boto3

_REFRESH = timedelta(minutes=10)  # botocore renews expiring credentials itself; asking it again is cheap


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
    anonymous: bool = False
    requester_pays: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> AwsOptions:
        """Read the setting `aws`.

        Raises:
            ConfigError: A name is unknown, or half of a key pair is missing.
        """
        config = {k: v for k, v in (config or {}).items() if v is not None}
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(config) - set(known)):
            msg = f"Setting 'aws' has no {unknown[0]!r}; it has {', '.join(known)}"
            raise ConfigError(msg)
        if ("access_key_id" in config) != ("secret_access_key" in config):
            msg = "Settings aws.access_key_id and aws.secret_access_key belong together; give both or neither"
            raise ConfigError(msg)
        return cls(**config)


def session(options: AwsOptions) -> boto3.Session:
    """A boto3 session as the options say.

    Raises:
        ConfigError: The profile does not exist.
    """
    import boto3
    from botocore.exceptions import ProfileNotFound

    logging.getLogger("botocore.credentials").setLevel(logging.WARNING)  # it tells each time where it found them
    try:
        return boto3.Session(
            aws_access_key_id=options.access_key_id,
            aws_secret_access_key=options.secret_access_key,
            aws_session_token=options.session_token,
            profile_name=options.profile,
            region_name=options.region,
        )
    except ProfileNotFound as error:
        msg = f"Setting aws.profile: {error}; add it to ~/.aws/config or name another"
        raise ConfigError(msg) from None


def credential_provider(options: AwsOptions, boto: boto3.Session) -> Callable[[], dict[str, Any]]:
    """A function that gives fresh credentials each time, in the form that obstore asks for.

    With `role_arn` the role is assumed with the session's credentials, and again before it expires.

    Raises:
        CredentialsError: There are none, also later, when the function is called.
    """
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
    from botocore.exceptions import BotoCoreError, ClientError

    credentials = boto.get_credentials()
    if credentials is None:
        msg = (
            "No AWS credentials were found in the settings, the environment, ~/.aws or the machine's role; "
            "set aws.profile or aws.access_key_id, or aws.anonymous for a public bucket"
        )
        raise CredentialsError(msg)
    if options.role_arn:
        extra = {"ExternalId": options.external_id} if options.external_id else {}
        fetcher = AssumeRoleCredentialFetcher(
            client_creator=boto.client,
            source_credentials=credentials,
            role_arn=options.role_arn,
            extra_args={"RoleSessionName": "singer-arrow", **extra},
        )
        credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def provide() -> dict[str, Any]:
        try:
            frozen = credentials.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            msg = f"AWS credentials could not be had: {error}"
            raise CredentialsError(msg) from None
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _REFRESH,
        }

    return provide


def bucket_region(boto: boto3.Session, bucket: str, *, anonymous: bool) -> str:
    """The region of a bucket, as S3 tells it also to those whom it refuses; `us-east-1` where it does not."""
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(signature_version=UNSIGNED) if anonymous else None
    try:
        answer = boto.client("s3", region_name="us-east-1", config=config).head_bucket(Bucket=bucket)
    except ClientError as error:
        answer = error.response
    except BotoCoreError:
        return "us-east-1"  # the request that follows meets the same trouble and reports it
    headers: dict[str, str] = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers.get("x-amz-bucket-region", "us-east-1")
