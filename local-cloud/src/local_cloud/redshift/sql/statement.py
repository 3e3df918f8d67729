"""The translated statements: one for PostgreSQL, or one that the proxy executes. Pure."""

from dataclasses import dataclass, field

from local_cloud.redshift.sql.names import LongNames


@dataclass
class Settings:
    """The settings of a session that change how its statements are read."""

    names: LongNames
    case_sensitive: bool = False


@dataclass(frozen=True)
class Plain:
    """A statement for PostgreSQL: the text as the client sent it, and the SQL for PostgreSQL."""

    text: str
    sql: str


@dataclass(frozen=True)
class Layout:
    """The distribution and sort keys of a table and the encodings of its columns, by Redshift's names."""

    diststyle: str = ""
    distkey: str = ""
    sortkeys: tuple[str, ...] = ()
    encodings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE with a layout, which PostgreSQL does not have; the table in PostgreSQL's SQL."""

    text: str
    sql: str
    table: str
    layout: Layout
    parent: str = ""  # the table of a LIKE clause, whose layout is copied


@dataclass(frozen=True)
class AlterType:
    """ALTER TABLE ... ALTER COLUMN ... TYPE VARCHAR(bytes); table and column in PostgreSQL's SQL."""

    text: str
    table: str
    column: str
    bytes: int


@dataclass(frozen=True)
class Truncate:
    """TRUNCATE, which commits."""

    text: str
    sql: str


@dataclass(frozen=True)
class Nothing:
    """A statement without effect here, like VACUUM; `tag` is its answer."""

    text: str
    tag: str


@dataclass(frozen=True)
class CaseSensitive:
    """SET enable_case_sensitive_identifier."""

    text: str
    is_on: bool


@dataclass(frozen=True)
class Copy:
    """COPY from S3, whose text `local_cloud.redshift.copy` parses."""

    text: str


@dataclass(frozen=True)
class Unload:
    """UNLOAD to S3."""

    text: str
    query: str  # as written, in Redshift's SQL
    target: str  # the s3:// prefix of the objects
    options: dict[str, str]  # by name, in lower case; a flag has an empty value


@dataclass(frozen=True)
class SetFaults:
    """LOCAL CLOUD FAULTS: replaces the faults."""

    text: str
    rules: str


@dataclass(frozen=True)
class ShowStatements:
    """LOCAL CLOUD STATEMENTS: lists the clients' statements."""

    text: str


Special = CreateTable | AlterType | Truncate | Nothing | CaseSensitive | Copy | Unload | SetFaults | ShowStatements
Statement = Plain | Special
