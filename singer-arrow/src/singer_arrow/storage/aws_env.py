"""How AWS is reached where settings and environment variables alone tell it: botocore, which takes 0.2 s of a
processor, would find the same.

That is so where no profile, no role and no file of `~/.aws` has a say, and the keys are there and do not expire.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from singer_arrow.storage.aws import AwsOptions

_HAVE_A_SAY = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SECURITY_TOKEN",
    "AWS_CREDENTIAL_EXPIRATION",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}


@dataclass(frozen=True, slots=True)
class Plain:
    """What needs no botocore: where S3 is, if that is said, and the keys, in the form that obstore asks for."""

    region: str | None
    endpoint: str | None
    credentials: Callable[[], dict[str, Any]] | None


def plain(options: AwsOptions, environ: Mapping[str, str] = os.environ) -> Plain | None:
    """How AWS is reached; None where botocore must be asked. With `anonymous` there are no credentials."""
    if options.profile or options.role_arn or any(name in environ for name in _HAVE_A_SAY):
        return None
    if any(_holds_something(environ.get(name) or default) for name, default in _FILES.items()):
        return None
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or None  # empty: not set
    region = options.region or environ.get("AWS_DEFAULT_REGION") or None
    keys = (
        (options.access_key_id, options.secret_access_key, options.session_token)
        if options.access_key_id
        else tuple(environ.get(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"))
    )
    if options.anonymous and bool(keys[0]) == bool(keys[1]):
        return Plain(region, options.endpoint_url or endpoint, None)
    if not (keys[0] and keys[1]):
        return None
    known = {"access_key_id": keys[0], "secret_access_key": keys[1], "token": keys[2] or None, "expires_at": None}
    return Plain(region, options.endpoint_url or endpoint, lambda: dict(known))


def _holds_something(path: str) -> bool:
    """Whether botocore would find settings in a file; what is no plain file may hold anything."""
    file = Path(path).expanduser()
    if path == os.devnull or not file.exists():
        return False
    return not file.is_file() or file.stat().st_size > 0
