"""The parsed form of a COPY. Pure."""

from dataclasses import dataclass, field
from typing import Literal

from local_cloud.redshift.copy.credentials import Credentials

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
