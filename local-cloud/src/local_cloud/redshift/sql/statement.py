"""What a statement of Redshift becomes: one of PostgreSQL, or something that the proxy does (pure)."""

from dataclasses import dataclass, field

from local_cloud.redshift.sql.names import LongNames


@dataclass
class Settings:
    """What of a session changes how its statements are read."""

    names: LongNames
    case_sensitive: bool = False


@dataclass(frozen=True)
class Plain:
    """A statement that PostgreSQL does.

    Attributes:
        text: as the client sent it.
        sql: what PostgreSQL gets.
    """

    text: str
    sql: str


@dataclass(frozen=True)
class Layout:
    """How a table is distributed and sorted, and how its columns are encoded, by Redshift's names."""

    diststyle: str = ""
    distkey: str = ""
    sortkeys: tuple[str, ...] = ()
    encodings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE with a layout, which PostgreSQL knows nothing of.

    Attributes:
        table: its name in PostgreSQL's SQL.
        parent: the table that it is like, whose layout it takes.
    """

    text: str
    sql: str
    table: str
    layout: Layout
    parent: str = ""


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
    """A statement that changes nothing here, like VACUUM; `tag` is what it answers."""

    text: str
    tag: str


@dataclass(frozen=True)
class CaseSensitive:
    """SET enable_case_sensitive_identifier."""

    text: str
    is_on: bool


@dataclass(frozen=True)
class Copy:
    """COPY from S3; its text is read by `local_cloud.redshift.copy`."""

    text: str


@dataclass(frozen=True)
class Unload:
    """UNLOAD to S3.

    Attributes:
        query: as written, in Redshift's SQL.
        target: the s3:// prefix of the objects.
        options: by name, in lower case; a flag has an empty value.
    """

    text: str
    query: str
    target: str
    options: dict[str, str]


@dataclass(frozen=True)
class SetFaults:
    """LOCAL CLOUD FAULTS: what goes wrong from now on."""

    text: str
    rules: str


@dataclass(frozen=True)
class ShowStatements:
    """LOCAL CLOUD STATEMENTS: what clients sent."""

    text: str


Special = CreateTable | AlterType | Truncate | Nothing | CaseSensitive | Copy | Unload | SetFaults | ShowStatements
Statement = Plain | Special
