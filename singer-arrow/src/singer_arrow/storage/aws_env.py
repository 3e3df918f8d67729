"""Access to AWS from settings and environment variables alone, without loading botocore (0.2 s of CPU time).

The result equals what botocore would find. It exists only without a profile, a role, files in `~/.aws` and expiring
keys.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from singer_arrow.storage.aws_options import AwsOptions

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
