"""The settings of target-redshift alone, and their checks; those of all targets are in `warehouse/settings.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from singer_arrow.errors import ConfigError
from singer_arrow.settings import described, inline, read_settings, setting
from singer_arrow.storage.aws import AwsOptions, aws_setting
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse.settings import LoadSettings, each_value, given_settings, of_stream
from target_redshift.columns import LONG_TEXT_CHOICES, LONG_TEXT_FAIL, NUL_CHOICES, NUL_REPLACE
from target_redshift.sql import PRIVILEGES
from target_redshift.types import MAX_VARCHAR

PORT = 5439
_CREDENTIALS = ("profile", "access_key_id", "secret_access_key", "session_token", "role_arn", "external_id")
_ROLES = re.compile(r"default|arn:aws[a-z-]*:iam::\d{12}:role/[\w+=.@/-]+", re.ASCII | re.IGNORECASE)

_LOGIN = {"host": "names the cluster", "user": "names who logs in", "password": "is the user's"}


def _check_schema(what: str, name: str) -> None:
    if "\0" in name or len(name.encode("utf-8", "replace")) > 127 or not name.isprintable():
        raise ConfigError(f"Setting {what} not the name of a schema: at most 127 bytes, all of them printable")


_COPY_OPTION = re.compile(
    r"(?:COMPUPDATE(?:\s+(?:ON|OFF|TRUE|FALSE|PRESET))?|STATUPDATE(?:\s+(?:ON|OFF|TRUE|FALSE))?|COMPROWS\s+\d+|"
    r"REGION\s+(?:AS\s+)?'[\w-]+')(?:\s+|$)",
    re.ASCII | re.IGNORECASE,
)
_NO_COPY_OPTIONS = {
    "rows would be left out that count as loaded; set on_bad_row": "MAXERROR IGNOREALLERRORS NOLOAD",
    "texts would be cut; set long_text": "TRUNCATECOLUMNS",
    "texts would change, also of keys; set csv.encoding in the tap": "ACCEPTINVCHARS ENCODING",
    "what a value becomes would depend on the format of its file; change it in the tap": "ACCEPTANYDATE BLANKSASNULL "
    "DATEFORMAT EMPTYASNULL NULL ROUNDEC TIMEFORMAT TRIMBLANKS",
    "set copy_role_arn, or credentials in aws": "ACCESS_KEY_ID CREDENTIALS IAM_ROLE SECRET_ACCESS_KEY SESSION_TOKEN",
    "it is set by the files that are loaded": "AVRO BZIP2 CSV DELIMITER ENCRYPTED ESCAPE EXPLICIT_IDS FILLRECORD "
    "FIXEDWIDTH FORMAT GZIP IGNOREBLANKLINES IGNOREHEADER JSON LZOP MANIFEST MASTER_SYMMETRIC_KEY ORC PARQUET QUOTE "
    "READRATIO REMOVEQUOTES SERIALIZETOJSON SHAPEFILE SSH ZSTD",
}
"""Options of COPY that would break a promise, by the reason."""


def _copy_options(given: Sequence[str]) -> tuple[str, ...]:
    """Read options of COPY, in one text or several."""
    text, found = " ".join(given).strip(), list[str]()
    while text:
        if (option := _COPY_OPTION.match(text)) is None:
            name = re.split(r"\W", text, maxsplit=1)[0].upper()
            whys = (why for why, names in _NO_COPY_OPTIONS.items() if name in names.split())
            other = "it takes COMPUPDATE, COMPROWS, STATUPDATE and REGION, as COPY spells them"
            raise ConfigError(f"Setting 'copy_options' has {text[:60]!r}; {next(whys, other)}")
        name, *values = option[0].split()
        found.append(" ".join([name.upper(), *values]))
        text = text[option.end() :]
    return tuple(found)


def _stage(given: str) -> Url:
    url = Url.parse(given)
    if url.scheme != "s3" or not url.bucket or not given.isprintable():
        msg = f"Setting 's3_stage' is {given!r}; it must read s3://bucket/prefix, because COPY reads from S3"
        raise ConfigError(msg)
    return url


@dataclass(frozen=True, slots=True)
class Iam:
    """The setting `iam`: which cluster or workgroup, and whose credentials are exchanged for those of the database."""

    cluster_identifier: str | None = setting("Name of a provisioned cluster; requires db_user.")
    workgroup: str | None = setting("Name of a serverless workgroup.")
    region: str | None = setting("Region of the cluster or workgroup.")
    db_user: str | None = setting("Database user, for a provisioned cluster.")
    aws: AwsOptions = inline(AwsOptions(), *_CREDENTIALS)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Iam | None:
        """Read a value that the JSON Schema accepts; None if nothing is set."""
        given = given_settings(config)
        iam = read_settings(cls, given)
        options = {name: given.get(name) for name in ("region", *_CREDENTIALS)}
        return replace(iam, aws=AwsOptions.from_config(options)) if given else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(LoadSettings):
    """The settings of one run; `checked` requires more than the JSON Schema, with better messages."""

    host: str | None = setting("Host of the cluster or workgroup. Optional with iam.")
    port: int = setting("Port of the cluster or workgroup.", default=PORT, minimum=1, maximum=65535)
    dbname: str = setting("Database to load into.", required=True, minLength=1, examples=["dev"])
    user: str | None = setting("Database user. Optional with iam.")
    password: str | None = setting("Password of the database user.", secret=True)
    iam: Iam | None = setting(
        "Log in with temporary credentials from AWS instead of a user and password.", parse=Iam.from_config
    )
    ssl: bool = setting("Encrypt the connection, and check the server's certificate.", default=True)
    sslmode: Literal["verify-ca", "verify-full"] | None = setting(
        "How the server's certificate is checked: verify-ca requires that it is trusted, verify-full also that it is "
        "for host. Not set: verify-full, but a name that differs is only a warning."
    )
    query_group: str | None = setting(
        "Query group of all statements, by which workload management chooses their queue."
    )
    schema: str = setting(
        "Schema to load into; created if it does not exist. Required.",
        default="",
        name="default_target_schema",
        parse=str.lower,
    )
    stage: Url = setting(
        "s3://bucket/prefix for manifests, and for files that are not on S3 yet; in the cluster's region. Required.",
        name="s3_stage",
        kind=str,
        parse=_stage,
    )
    aws: AwsOptions = aws_setting()
    copy_role_arn: str | None = setting(
        "Role with which Redshift reads S3; or several, separated by commas, each assuming the next; or default. "
        "Without it, COPY gets temporary credentials from aws, which Redshift's documentation of 2026 lists no more."
    )
    copy_options: tuple[str, ...] = setting(
        "Options of COPY, as COPY spells them: `COMPUPDATE`, `COMPROWS` and `REGION`, which COPY of Parquet does not "
        "take and is not given, and `STATUPDATE`. They apply to the temporary tables that files are copied into. By "
        "default `COMPUPDATE OFF` and `STATUPDATE OFF`.",
        default=(),
        parse=_copy_options,
        scope="run and stream",
    )
    load_format: Literal["auto", "parquet", "jsonl", "csv"] = setting(
        "Format of uploads for COPY; auto means Parquet. Files on S3 that COPY can load as they are need no upload.",
        default="auto",
    )
    slices: int | None = setting(
        "Slices of the cluster: the number of uploaded files is a multiple of it. Queried from the cluster if not set.",
        minimum=1,
    )
    max_parallel_loads: int = described(LoadSettings, "max_parallel_loads", "COPYs that run at the same time.")
    max_batch_age_seconds: float = described(
        LoadSettings,
        "max_batch_age_seconds",
        "BATCH messages of a stream are gathered into one COPY for at most this long.",
    )
    dist_key: str | Mapping[str, str] | None = setting(
        "Column by which the rows of new tables are distributed over the slices; or an object from streams (or "
        "patterns: `events_*`) to columns.",
        scope="run and stream",
    )
    sort_keys: tuple[str, ...] | Mapping[str, tuple[str, ...]] | None = setting(
        "Columns by which the rows of new tables are sorted; or an object from streams (or patterns) to such lists.",
        scope="run and stream",
    )
    varchar_max: int = setting(
        "Most bytes that a VARCHAR column may grow to; for longer texts see long_text.",
        default=MAX_VARCHAR,
        minimum=1,
        maximum=MAX_VARCHAR,
    )
    long_text: str = setting(
        "What to do with texts that are too long for VARCHAR: fail ends the run with the place of the text; rescue "
        "puts them whole into the SUPER column `_sdc_long_text` of their row; super makes new text columns SUPER, and "
        "Parquet files with text are then converted. SUPER takes up to 4 MB, but more than 65,535 bytes of one text "
        "only if the cluster's enable_large_strings_opt_in is on. A key that is too long is always an error.",
        default=LONG_TEXT_FAIL,
        enum=[*LONG_TEXT_CHOICES],
        scope="run and stream",
    )
    nul_text: str = setting(
        "What to do with NUL characters in text, which Redshift does not accept: replace puts the symbol \u2400 in "
        "their place, remove removes them, both with a warning; fail ends the run.",
        default=NUL_REPLACE,
        enum=[*NUL_CHOICES],
    )
    grants: Mapping[str, tuple[str, ...]] = setting(
        "Who gets privileges on new tables: an object from privileges (select, insert, ...) to lists of users, "
        "`group:name`, `role:name` or `public`.",
        default={},
        parse=lambda given: {privilege.lower(): tuple(whom) for privilege, whom in given.items()},
        additionalProperties={"type": "array", "items": {"type": "string", "minLength": 1}},
        scope="run and stream",
    )

    def checked(self) -> Settings:
        """Return the settings, or raise ConfigError if one is missing or contradicts another."""
        if not self.schema:
            raise ConfigError("Setting 'default_target_schema' is missing; it names the schema to load into")
        _check_schema("'default_target_schema' is", self.schema)
        if self.stage is None:
            msg = "Setting 's3_stage' is missing; it names a place on S3 for COPY, such as s3://bucket/prefix"
            raise ConfigError(msg)
        iam = self.iam
        if iam is None:
            for name, meaning in _LOGIN.items():
                if not getattr(self, name):
                    msg = f"Setting {name!r} is missing; it {meaning}. Or set iam to log in with AWS credentials"
                    raise ConfigError(msg)
        elif self.password:
            raise ConfigError("Settings 'password' and 'iam' are two ways to log in; keep one")
        elif bool(iam.cluster_identifier) == bool(iam.workgroup):
            raise ConfigError("Setting 'iam' must have one of cluster_identifier and workgroup")
        elif iam.cluster_identifier and not (iam.db_user or self.user):
            raise ConfigError(
                "Setting 'iam.db_user' is missing; a provisioned cluster needs to know which user logs in"
            )
        elif not self.ssl:
            raise ConfigError("Setting 'ssl' is false, and iam needs it; remove one of them")
        for name in sorted(self.other_schemas):
            _check_schema("'tables' has what is", name)
        if self.sslmode and not self.ssl:
            raise ConfigError("Setting 'sslmode' needs an encrypted connection, and 'ssl' is false; remove one of them")
        for role in (self.copy_role_arn or "").split(",") if self.copy_role_arn else []:
            if not _ROLES.fullmatch(role):
                msg = f"Setting 'copy_role_arn' has {role!r}; a role reads arn:aws:iam::123456789012:role/name"
                raise ConfigError(msg)
        if self.aws.anonymous and not self.copy_role_arn:
            msg = "Setting 'aws.anonymous' leaves COPY without credentials; set copy_role_arn, or credentials in aws"
            raise ConfigError(msg)
        for columns in each_value(self.sort_keys):
            if len(columns) > 400:
                raise ConfigError(f"Setting 'sort_keys' names {len(columns)} columns; Redshift takes 400 at most")
        for privilege, _ in self.grantees:
            if privilege not in PRIVILEGES:
                raise ConfigError(f"Setting 'grants' has {privilege!r}; a privilege is one of {', '.join(PRIVILEGES)}")
        return self

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
