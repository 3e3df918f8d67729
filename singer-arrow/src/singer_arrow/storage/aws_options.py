"""The setting `aws` of a connector: `AwsOptions`; access to AWS from it and the environment alone: `static_access`.

That needs no botocore, whose import takes 0.2 s of CPU time, and equals what botocore would find. It exists only
without a profile, a role, files in `~/.aws` and expiring keys.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from singer_arrow.errors import ConfigError

_KEY_BYTES = 32
_ROLE = re.compile(r"arn:[\w-]+:iam::\d+:role/[\w+=,.@/-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """Values of the setting `aws` of a connector; missing ones come from boto3's default chain."""

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
        """Validate the setting `aws`."""
        config = {k: v for k, v in (config or {}).items() if v is not None}
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
            _check_key(config["sse_customer_key"])
        return cls(**config)


def _check_key(text: str) -> None:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise ConfigError(f"Setting aws.sse_customer_key must be the base64 text of {_KEY_BYTES} bytes; it is not")


_NEED_BOTOCORE = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SECURITY_TOKEN",
    "AWS_CREDENTIAL_EXPIRATION",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}


@dataclass(frozen=True, slots=True)
class StaticAccess:
    """Region and endpoint of S3, if set, and a provider of keys in obstore's form; None for anonymous access."""

    region: str | None
    endpoint: str | None
    credentials: Callable[[], dict[str, Any]] | None


def static_access(options: AwsOptions, environ: Mapping[str, str] = os.environ) -> StaticAccess | None:
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
        return StaticAccess(region, options.endpoint_url or endpoint, None)
    if not (keys[0] and keys[1]):
        return None
    known = {"access_key_id": keys[0], "secret_access_key": keys[1], "token": keys[2] or None, "expires_at": None}
    return StaticAccess(region, options.endpoint_url or endpoint, lambda: dict(known))


def _may_hold_settings(path: str) -> bool:
    """Return whether a configuration file may hold settings; anything but a regular file may."""
    file = Path(path).expanduser()
    if path == os.devnull or not file.exists():
        return False
    return not file.is_file() or file.stat().st_size > 0
