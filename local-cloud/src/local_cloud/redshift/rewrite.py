"""Statements in Redshift's SQL as statements for PostgreSQL (pure)."""

from dataclasses import dataclass, replace

from local_cloud.redshift.names import LongNames, fold
from local_cloud.redshift.tokens import Token, quoted, significant, sql_of, tokens


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
class Copy:
    """COPY from S3; its text is read by `local_cloud.redshift.copy`."""

    text: str
    settings: Settings

    def named(self, table: str) -> str:
        """A table's name of this statement as PostgreSQL gets it."""
        return sql_of(_named(token, self.settings) for token in tokens(table))


@dataclass(frozen=True)
class SetFaults:
    """LOCAL CLOUD FAULTS: what goes wrong from now on."""

    text: str
    rules: str


@dataclass(frozen=True)
class ShowStatements:
    """LOCAL CLOUD STATEMENTS: what clients sent."""

    text: str


Statement = Plain | Copy | SetFaults | ShowStatements


def rewrite(text: str, settings: Settings) -> list[Statement]:
    """The statements of a text.

    Raises:
        RedshiftError: Redshift would refuse one of them before doing anything.
    """
    parts: list[list[Token]] = [[]]
    for token in tokens(text):
        if token.kind == "operator" and token.text == ";":
            parts.append([])
        else:
            parts[-1].append(token)
    return [_statement(part, settings) for part in parts if significant(part)]


def _statement(found: list[Token], settings: Settings) -> Statement:
    text = sql_of(found).strip()
    meant = significant(found)
    first = [token.low for token in meant[:3]]
    if first[:2] == ["local", "cloud"]:
        return SetFaults(text, meant[3].value) if first[2] == "faults" else ShowStatements(text)
    named = [_named(token, settings) for token in found]
    if first[0] == "copy":
        return Copy(text, settings)
    return Plain(text, sql_of(named).strip())


def _named(token: Token, settings: Settings) -> Token:
    """A token whose identifiers are as PostgreSQL gets them."""
    if token.kind == "name":
        name = token.value if settings.case_sensitive else fold(token.value)
        return replace(token, text=quoted(settings.names.short(name)))
    if token.kind == "word" and (token.text.startswith("#") or len(token.text) > 15):
        name = fold(token.text)
        short = settings.names.short(name)
        if short != name or name.startswith("#"):
            return replace(token, kind="name", text=quoted(short))
    return token
