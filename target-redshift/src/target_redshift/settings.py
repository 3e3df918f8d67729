"""The settings of target-redshift: declared, defaulted and checked here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from singer_arrow.errors import ConfigError
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse.settings import (
    AWS,
    LOADS,
    PLACES,
    PLAIN_LOADS,
    LoadSettings,
    choice,
    each_value,
    flag,
    given_settings,
    names_by_stream,
    number,
    of_stream,
    secret,
    storage_options,
    text,
    text_by_stream,
)
from target_redshift import columns as nuls
from target_redshift.columns import LONG_TEXT_CHOICES, LONG_TEXT_FAIL
from target_redshift.sql import PRIVILEGES
from target_redshift.types import MAX_VARCHAR

PORT = 5439
FORMATS = ("parquet", "jsonl", "csv")
_CREDENTIALS = ("profile", "access_key_id", "secret_access_key", "session_token", "role_arn", "external_id")
_ROLES = re.compile(r"default|arn:aws[a-z-]*:iam::\d{12}:role/[\w+=.@/-]+", re.ASCII | re.IGNORECASE)

SETTINGS: dict[str, Any] = {
    "host": text("Host of the cluster or workgroup. Optional with iam."),
    "port": {**number("Port of the cluster or workgroup.", PORT, minimum=1), "maximum": 65535},
    "dbname": {"type": "string", "minLength": 1, "description": "Database to load into.", "examples": ["dev"]},
    "user": text("Database user. Optional with iam."),
    "password": secret("Password of the database user."),
    "iam": {
        "type": ["object", "null"],
        "description": "Log in with temporary credentials from AWS instead of a user and password.",
        "properties": {
            "cluster_identifier": text("Name of a provisioned cluster; requires db_user."),
            "workgroup": text("Name of a serverless workgroup."),
            "region": text("Region of the cluster or workgroup."),
            "db_user": text("Database user, for a provisioned cluster."),
            **{name: AWS["properties"][name] for name in _CREDENTIALS},
        },
    },
    "ssl": flag("Encrypt the connection, and check the server's certificate.", default=True),
    "sslmode": {
        "type": ["string", "null"],
        "enum": ["verify-ca", "verify-full", None],
        "description": "How the server's certificate is checked: verify-ca requires that it is trusted, verify-full "
        "also that it is for host. Not set: verify-full, but a name that differs is only a warning.",
    },
    "query_group": text("Query group of all statements, by which workload management chooses their queue."),
    "default_target_schema": text("Schema to load into; created if it does not exist. Required."),
    "s3_stage": text(
        "s3://bucket/prefix for manifests, and for files that are not on S3 yet; in the cluster's region. Required."
    ),
    "aws": AWS,
    "copy_role_arn": text(
        "Role with which Redshift reads S3; or several, separated by commas, each assuming the next; or default. "
        "Without it, COPY gets temporary credentials from aws."
    ),
    "load_method": LOADS["load_method"],
    "load_format": choice(
        "Format of uploads for COPY; auto means Parquet. Files on S3 that COPY can load as they are need no upload.",
        "auto",
        "auto",
        *FORMATS,
    ),
    "slices": number(
        "Slices of the cluster: the number of uploaded files is a multiple of it. Queried from the cluster if not set.",
        minimum=1,
    ),
    "max_parallel_loads": {**LOADS["max_parallel_loads"], "description": "COPYs that run at the same time."},
    "max_batch_age_seconds": {
        **LOADS["max_batch_age_seconds"],
        "description": "BATCH messages of a stream are gathered into one COPY for at most this long.",
    },
    **PLAIN_LOADS,
    **PLACES,
    "dist_key": text_by_stream(
        "Column by which the rows of new tables are distributed over the slices; or an object from streams (or "
        "patterns: `events_*`) to columns."
    ),
    "sort_keys": names_by_stream(
        "Columns by which the rows of new tables are sorted; or an object from streams (or patterns) to such lists."
    ),
    "varchar_max": {
        **number(
            "Most bytes that a VARCHAR column may grow to; for longer texts see long_text.", MAX_VARCHAR, minimum=1
        ),
        "maximum": MAX_VARCHAR,
    },
    "long_text": choice(
        "What to do with texts that are too long for VARCHAR: fail ends the run with the place of the text; rescue "
        "puts them whole into the SUPER column `_sdc_long_text` of their row; super makes new text columns SUPER, "
        "and Parquet files with text are then converted. SUPER takes up to 4 MB, but more than 65,535 bytes of one "
        "text only if the cluster's enable_large_strings_opt_in is on. A key that is too long is always an error.",
        LONG_TEXT_FAIL,
        *LONG_TEXT_CHOICES,
    ),
    "nul_text": choice(
        "What to do with NUL characters in text, which Redshift does not accept: replace puts the symbol \u2400 in "
        "their place, remove removes them, both with a warning; fail ends the run.",
        nuls.REPLACE,
        *nuls.NUL_CHOICES,
    ),
    "grants": {
        "type": ["object", "null"],
        "description": "Who gets privileges on new tables: an object from privileges (select, insert, ...) to lists "
        "of users, `group:name`, `role:name` or `public`.",
        "additionalProperties": {"type": "array", "items": {"type": "string", "minLength": 1}},
    },
}
REQUIRED = ("dbname",)
"""What the JSON Schema requires; `Settings.from_config` requires more, with better messages."""


@dataclass(frozen=True, slots=True)
class Iam:
    """The setting `iam`: which cluster or workgroup, and whose credentials are exchanged for those of the database."""

    cluster_identifier: str | None = None
    workgroup: str | None = None
    region: str | None = None
    db_user: str | None = None
    aws: AwsOptions = field(default_factory=AwsOptions)


@dataclass(frozen=True, slots=True)
class Settings(LoadSettings):
    """The settings of one run."""

    dbname: str
    schema: str
    stage: Url
    host: str | None = None
    port: int = PORT
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    iam: Iam | None = None
    ssl: bool = True
    sslmode: str | None = None
    query_group: str | None = None
    copy_role_arn: str | None = None
    load_format: str = "auto"
    slices: int | None = None
    dist_key: Any = None
    sort_keys: Any = None
    varchar_max: int = MAX_VARCHAR
    long_text: str = LONG_TEXT_FAIL
    nul_text: str = nuls.REPLACE
    grants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read a configuration that the JSON Schema of `SETTINGS` accepts."""
        given = given_settings(config)
        iam = _iam(given.get("iam"))
        aws = AwsOptions.from_config(given["aws"]) if given.get("aws") else storage_options(given.get("batch_config"))
        settings = cls(
            dbname=given["dbname"],
            schema=_schema(given),
            stage=_stage(given.get("s3_stage")),
            iam=iam,
            aws=aws,
            grants={k.lower(): tuple(v) for k, v in given.get("grants", {}).items()},
            **cls.load_arguments(given),
            **{k: given[k] for k in _PLAIN if k in given},
        )
        _check_login(settings)
        _check(settings)
        return settings

    @property
    def upload_format(self) -> str:
        """What is uploaded for COPY."""
        return "parquet" if self.load_format == "auto" else self.load_format

    def distribution(self, stream: str) -> str | None:
        """Column by which the rows of the stream's table are spread."""
        return of_stream(self.dist_key, stream) or None

    def sorting(self, stream: str) -> list[str]:
        """Columns by which the rows of the stream's table are sorted."""
        return list(of_stream(self.sort_keys, stream) or [])

    @property
    def grantees(self) -> Iterator[tuple[str, str]]:
        """Privilege and grantee, one by one."""
        return ((privilege, grantee) for privilege, whom in self.grants.items() for grantee in whom)


_PLAIN = (
    *("host", "port", "user", "password", "ssl", "sslmode", "query_group", "copy_role_arn", "load_format", "slices"),
    *("dist_key", "sort_keys", "varchar_max", "long_text", "nul_text"),
)


def _iam(given: Any) -> Iam | None:
    given = given_settings(given or {})
    if not given:
        return None
    place = {k: given.pop(k, None) for k in ("cluster_identifier", "workgroup", "db_user")}
    return Iam(**place, region=given.get("region"), aws=AwsOptions.from_config(given))


def _schema(given: Mapping[str, Any]) -> str:
    name = str(given.get("default_target_schema") or "")
    if not name:
        msg = "Setting 'default_target_schema' is missing; it names the schema to load into"
        raise ConfigError(msg)
    _check_schema("'default_target_schema' is", name)
    return name.lower()


def _check_schema(what: str, name: str) -> None:
    if "\0" in name or len(name.encode("utf-8", "replace")) > 127 or not name.isprintable():
        msg = f"Setting {what} not the name of a schema: at most 127 bytes, all of them printable"
        raise ConfigError(msg)


def _stage(given: Any) -> Url:
    if not given:
        msg = "Setting 's3_stage' is missing; it names a place on S3 for COPY, such as s3://bucket/prefix"
        raise ConfigError(msg)
    url = Url.parse(str(given))
    if url.scheme != "s3" or not url.bucket or not str(given).isprintable():
        msg = f"Setting 's3_stage' is {str(given)!r}; it must read s3://bucket/prefix, because COPY reads from S3"
        raise ConfigError(msg)
    return url


def _check_login(settings: Settings) -> None:
    iam = settings.iam
    if iam is None:
        for name, meaning in _LOGIN.items():
            if not getattr(settings, name):
                msg = f"Setting {name!r} is missing; it {meaning}. Or set iam to log in with AWS credentials"
                raise ConfigError(msg)
        return
    if settings.password:
        msg = "Settings 'password' and 'iam' are two ways to log in; keep one"
        raise ConfigError(msg)
    if bool(iam.cluster_identifier) == bool(iam.workgroup):
        msg = "Setting 'iam' must have one of cluster_identifier and workgroup"
        raise ConfigError(msg)
    if iam.cluster_identifier and not (iam.db_user or settings.user):
        msg = "Setting 'iam.db_user' is missing; a provisioned cluster needs to know which user logs in"
        raise ConfigError(msg)
    if not settings.ssl:
        msg = "Setting 'ssl' is false, and iam needs it; remove one of them"
        raise ConfigError(msg)


_LOGIN = {"host": "names the cluster", "user": "names who logs in", "password": "is the user's"}


def _check(settings: Settings) -> None:
    for name in sorted(settings.other_schemas):
        _check_schema("'tables' has what is", name)
    if settings.sslmode and not settings.ssl:
        msg = "Setting 'sslmode' needs an encrypted connection, and 'ssl' is false; remove one of them"
        raise ConfigError(msg)
    for role in (settings.copy_role_arn or "").split(",") if settings.copy_role_arn else []:
        if not _ROLES.fullmatch(role):
            msg = f"Setting 'copy_role_arn' has {role!r}; a role reads arn:aws:iam::123456789012:role/name"
            raise ConfigError(msg)
    if settings.aws.anonymous and not settings.copy_role_arn:
        msg = "Setting 'aws.anonymous' leaves COPY without credentials; set copy_role_arn, or credentials in aws"
        raise ConfigError(msg)
    for columns in each_value(settings.sort_keys):
        if len(columns) > 400:
            msg = f"Setting 'sort_keys' names {len(columns)} columns; Redshift takes 400 at most"
            raise ConfigError(msg)
    for privilege, _ in settings.grantees:
        if privilege not in PRIVILEGES:
            msg = f"Setting 'grants' has {privilege!r}; a privilege is one of {', '.join(PRIVILEGES)}"
            raise ConfigError(msg)
