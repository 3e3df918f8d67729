"""The parsed form of a COPY, and its credentials for S3. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from local_cloud.redshift.errors import INTERNAL, SYNTAX, RedshiftError


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


Format = Literal["delimited", "csv", "json", "parquet"]


@dataclass(frozen=True, slots=True)
class CopyCommand:
    """A COPY from S3."""

    table: str  # as written, quotes included
    columns: tuple[str, ...] | None  # in lower case; None if the statement names none
    source: str  # the s3:// URL of a prefix or a manifest
    format: Format = "delimited"
    credentials: Credentials = field(default_factory=Credentials)
    compression: Literal["gzip", "bzip2", "zstd"] | None = None
    region: str | None = None
    json: str = "auto"  # 'auto', 'auto ignorecase', 'noshred' or the s3:// URL of a jsonpaths file
    delimiter: str = "|"
    quote: str = '"'
    null_as: str | None = None  # the text that represents NULL
    date_format: str | None = None
    time_format: str | None = None
    ignore_header: int = 0
    max_errors: int = 1  # number of bad records at which the load fails (1: the first)
    invalid: str | None = None  # replacement of an invalid character (ACCEPTINVCHARS)
    options: frozenset[str] = frozenset()  # in lower case, one word each

    def has(self, option: str) -> bool:
        """Whether an option was given, e.g. `has("manifest")`."""
        return option in self.options

    @property
    def null_text(self) -> str | None:
        """The text that represents NULL, or None in JSON without NULL AS, because JSON has its own null."""
        return self.null_as if self.null_as is not None or self.format == "json" else "\\N"
