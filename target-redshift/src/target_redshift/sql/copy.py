"""The COPY statement, and the queries for its load errors. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from target_redshift.sql.names import literal, quoted
from target_redshift.tables.staging_columns import StagingColumn

NULL_TEXT = "@_sdc_null@"
"""Text of a null in CSV; an empty field is ''."""
_CODECS = {None: "", "gzip": " GZIP", "bzip2": " BZIP2", "zstd": " ZSTD"}
_ROLE = re.compile(r"\bIAM_ROLE '([^'\\]*)'")
_SECRET = re.compile(r"(CREDENTIALS\s+)'(?:[^'\\]|''|\\.)*'", re.IGNORECASE | re.DOTALL)


def create_staging(name: str, columns: Sequence[StagingColumn]) -> str:
    """Create a temporary table, which goes with the session."""
    defined = ", ".join(f"{quoted(c.name)} {c.type}" for c in columns if c.constant is None)
    return f"CREATE TEMP TABLE {name} ({defined})"


@dataclass(frozen=True, slots=True)
class Access:
    """By what right COPY reads files: a role (or a chain of them, with commas), or keys."""

    role: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    @property
    def clause(self) -> str:
        """The clause of COPY."""
        if (self.role or "").lower() == "default":
            return "IAM_ROLE default"
        if self.role:
            return f"IAM_ROLE {literal(self.role)}"
        token = f";token={self.session_token}" if self.session_token else ""
        keys = f"aws_access_key_id={self.access_key_id};aws_secret_access_key={self.secret_access_key}{token}"
        return f"CREDENTIALS {literal(keys)}"


def copy_parquet(table: str, manifest: str, access: Access, *, nested: bool = False) -> str:
    """COPY Parquet files into a table whose columns are theirs, in order; `nested` if there are structs or lists.

    The entries of the manifest have `meta.content_length`.
    """
    serialized = " SERIALIZETOJSON" if nested else ""
    source = f"FROM {literal(manifest)} {access.clause}"
    return f"COPY {table} {source} FORMAT AS PARQUET{serialized} MANIFEST STATUPDATE OFF"


def copy_json(
    table: str,
    manifest: str,
    access: Access,
    *,
    compression: str | None = "gzip",
    ignore_case: bool = False,
) -> str:
    """COPY JSON Lines into a table whose columns are named as their keys, with `ignore_case` but for case."""
    keys = literal("auto ignorecase" if ignore_case else "auto")
    return f"COPY {table} FROM {literal(manifest)} {access.clause} FORMAT AS JSON {keys}{_text(compression)}"


def copy_csv(table: str, manifest: str, access: Access, *, compression: str | None = "gzip") -> str:
    """COPY CSV without a header, in which `NULL_TEXT` is null; the arguments are those of `copy_json`."""
    null = f" NULL AS {literal(NULL_TEXT)}"
    return f"COPY {table} FROM {literal(manifest)} {access.clause} FORMAT AS CSV{null}{_text(compression)}"


def _text(compression: str | None) -> str:
    return f"{_CODECS[compression]} MANIFEST DATEFORMAT 'auto' TIMEFORMAT 'auto' COMPUPDATE OFF STATUPDATE OFF"


def role_of(text: str) -> str | None:
    """Return the role that a COPY reads with; None if it has keys, or is no COPY."""
    match = _ROLE.search(text) if text.startswith("COPY ") else None
    return match[1] if match else None


def masked(text: str) -> str:
    """Return the text of a statement without its secrets, for logs and messages."""
    return _SECRET.sub(r"\1'***'", text)


COPIED_ROWS = "SELECT pg_last_copy_count()"
TABLE_ID = "SELECT oid FROM pg_class WHERE relname = %s"
"""The number by which system tables know a temporary table; its name is the only one of its kind."""
LOAD_ERRORS = (
    "SELECT TRIM(file_name), line_number, TRIM(column_name), CAST(NULL AS VARCHAR(1)), TRIM(error_message) "
    "FROM sys_load_error_detail WHERE session_id = %s AND table_id = %s ORDER BY start_time DESC LIMIT 5"
)
"""File, line, column, no value and reason of the newest load errors of session %s and table %s."""
OLD_LOAD_ERRORS = (
    "SELECT TRIM(filename), line_number, TRIM(colname), TRIM(raw_field_value), TRIM(err_reason) FROM stl_load_errors "
    "WHERE session = %s AND tbl = %s ORDER BY starttime DESC LIMIT 5"
)
"""The same with values, from a table that not everybody may read and that serverless does not have."""
