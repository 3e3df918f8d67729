"""The setting `aws` of a connector: `AwsOptions`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
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
        """Validate the setting `aws`.

        Raises:
            ConfigError: A name is unknown, half of a key pair is missing, or a key or a role is malformed.
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
