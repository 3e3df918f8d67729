"""The credentials of a COPY for S3. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from local_cloud.redshift.copy.errors import INTERNAL, SYNTAX, RedshiftError


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials for S3: keys, or roles, of which the cluster assumes the first and each role the next one."""

    roles: tuple[str, ...] = ()
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)


def credentials(given: Mapping[str, Any]) -> Credentials:
    """Return the credentials among the options of a COPY, which gives them in exactly one way."""
    ways = [name for name in ("iam_role", "credentials", "access_key_id") if name in given]
    if len(ways) != 1:
        prefix = "Invalid credentials: " if ways else "No credentials: "
        raise RedshiftError(f"{prefix}COPY takes one of IAM_ROLE, CREDENTIALS and ACCESS_KEY_ID", SYNTAX)
    if ways == ["iam_role"]:
        return Credentials(roles=_roles(given["iam_role"]))
    if ways == ["credentials"]:
        return _credential_text(given["credentials"])
    if "secret_access_key" not in given:
        raise RedshiftError("ACCESS_KEY_ID needs SECRET_ACCESS_KEY", SYNTAX)
    return Credentials((), given["access_key_id"], given["secret_access_key"], given.get("session_token", ""))


def _roles(text: str) -> tuple[str, ...]:
    if text == "default":
        return ("default",)
    roles = tuple(text.split(","))
    for role in roles:
        if not re.fullmatch(r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+", role):
            raise RedshiftError(f"Invalid IAM_ROLE: '{role}' is no ARN of a role", INTERNAL)
    return roles


def _credential_text(text: str) -> Credentials:
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    if set(parts) == {"aws_iam_role"}:
        return Credentials(roles=_roles(parts["aws_iam_role"]))
    if set(parts) - {"token"} != {"aws_access_key_id", "aws_secret_access_key"}:
        raise RedshiftError(
            "Invalid credentials. Must be of the format: credentials 'aws_iam_role=...' or "
            "'aws_access_key_id=...;aws_secret_access_key=...[;token=...]'"
        )
    return Credentials((), parts["aws_access_key_id"], parts["aws_secret_access_key"], parts.get("token", ""))
