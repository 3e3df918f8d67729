"""Translation of Redshift's statements for PostgreSQL or for the proxy. Refuses what Redshift refuses."""

import re
from collections.abc import Callable
from dataclasses import replace

from local_cloud.redshift.errors import RedshiftError, syntax_error
from local_cloud.redshift.sql import accounts, ddl
from local_cloud.redshift.sql.expressions import rewritten
from local_cloud.redshift.sql.merge import merge
from local_cloud.redshift.sql.names import fold
from local_cloud.redshift.sql.statement import (
    CaseSensitive,
    Copy,
    Nothing,
    Plain,
    SetFaults,
    Settings,
    ShowStatements,
    Statement,
    Truncate,
)
from local_cloud.redshift.sql.tokens import Reader, Token, literal, quoted, significant, spelled, sql_of, tokens
from local_cloud.redshift.sql.unload import unload

__all__ = ["named", "rewrite"]

_LONG_WORD = 15  # characters; a shorter one cannot have more than 63 bytes
_CASE = "enable_case_sensitive_identifier"
# Settings that only Redshift has; PostgreSQL stores them under a prefix, so that they can be queried.
_SETTINGS = re.compile(
    r"(enable_\w+|query_group|wlm_query_slot_count|json_\w+|describe_field_name_in_uppercase|analyze_threshold_percent|"
    r"auto_analyze|cast_super_null_on_error|datashare_break_glass_session_var|default_geometry_encoding|"
    r"downcase_delimited_identifier|mv_enable_aqmv_for_session|navigate_super_null_on_error|parse_super_null_on_error|"
    r"spectrum_\w+|stored_proc_log_min_messages|use_fips_ssl|error_on_nondeterministic_update|max_cursor_result_set_size)"
)
# Rows of plain values, which need no translation: reading megabytes of them token by token would take seconds.
_INSERT = re.compile(r"\s*insert\s+into\s[^'()$;]*(?:\([^'()$;]*\)\s*)?values\s*(?=\()", re.IGNORECASE)
_ROWS = re.compile(
    r"(?:[\s(),]|'(?:[^'\\]|''|\\.)*+'(?!')|[+-]?\d[\d.]*+(?:e[+-]?\d+)?(?!\w)|\$\d++"
    r"|(?<!\w)(?:null|true|false|default)(?!\w))++;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_MANY = 10_000  # characters
# Statements that Redshift does not have, by their beginning.
_ABSENT = {
    ("create", "index"): "CREATE INDEX",
    ("create", "unique"): "CREATE INDEX",
    ("create", "extension"): "CREATE EXTENSION",
    ("create", "sequence"): "CREATE SEQUENCE",
    ("create", "trigger"): "CREATE TRIGGER",
    ("create", "type"): "CREATE TYPE",
    ("create", "domain"): "CREATE DOMAIN",
    ("create", "rule"): "CREATE RULE",
    ("create", "unlogged"): "CREATE UNLOGGED TABLE",
    ("create", "event"): "CREATE EVENT TRIGGER",
    ("create", "foreign"): "CREATE FOREIGN TABLE",
    ("savepoint",): "SAVEPOINT",
    ("release",): "RELEASE SAVEPOINT",
    ("rollback", "to"): "ROLLBACK TO SAVEPOINT",
    ("listen",): "LISTEN",
    ("notify",): "NOTIFY",
    ("do",): "DO",
    ("reindex",): "REINDEX",
    ("cluster",): "CLUSTER",
}


def rewrite(text: str, settings: Settings) -> list[Statement]:
    """Return the statements of a text, or refuse all before anything is executed."""
    if len(text) > _MANY and (head := _INSERT.match(text)) and _ROWS.fullmatch(text, head.end()):
        return [Plain(text, rewritten(named(tokens(head[0]), settings)) + text[head.end() :])]
    parts: list[list[Token]] = [[]]
    for token in tokens(text):
        if token.kind == "operator" and token.text == ";":
            parts.append([])
        else:
            parts[-1].append(token)
    return [_statement(part, settings) for part in parts if significant(part)]


def named(found: list[Token], settings: Settings) -> list[Token]:
    """Return the tokens with PostgreSQL's identifiers."""
    return [_named(token, settings) for token in found]


def _named(token: Token, settings: Settings) -> Token:
    if token.kind == "name":
        name = token.value if settings.case_sensitive else fold(token.value)
        return replace(token, text=quoted(settings.names.short(name)))
    if token.kind == "word" and (len(token.text) > _LONG_WORD or token.text[0] == "#"):
        name = fold(token.text)
        short = settings.names.short(name)
        if short != name or name[0] == "#":
            return replace(token, kind="name", text=quoted(short))
    return token


def _statement(part: list[Token], settings: Settings) -> Statement:
    text = sql_of(part).strip()
    words = tuple(token.low for token in significant(part)[:3])
    if words[:1] == ("copy",):
        return Copy(text)
    for length in (1, 2):
        if words[:length] in _ABSENT:
            raise RedshiftError(f'SQL command "{_ABSENT[words[:length]]}" not supported.', "0A000")
    found = named(part, settings)
    for length in (2, 1):
        if found_rule := _RULES.get(words[:length]):
            return found_rule(text, found)
    return Plain(text, rewritten(found).strip())


def _local_cloud(text: str, found: list[Token]) -> Statement:
    reader = Reader(significant(found))
    reader.expect("local", "cloud")
    if reader.accept("faults"):
        return SetFaults(text, re.sub(r"\\(.)", r"\1", reader.next().value, flags=re.DOTALL))
    reader.expect("statements")
    return ShowStatements(text)


def _create(text: str, found: list[Token]) -> Statement:
    head = [token.low for token in significant(found)[:4]]
    if "table" in head:
        return ddl.create_table(text, found)
    if head[1] == "materialized":
        kept = [token for token in found if token.low not in ("auto", "refresh", "yes", "no", "backup")]
        return Plain(text, rewritten(kept))
    return Plain(text, rewritten(found))


def _create_schema(text: str, found: list[Token]) -> Statement:
    reader = Reader(significant(found))
    parts = list[str]()
    while not reader.is_done:
        if reader.accept("quota"):
            reader.rest()
            break
        parts.append(reader.next().text)
    return Plain(text, " ".join(parts))


def _truncate(text: str, found: list[Token]) -> Statement:
    reader = Reader(significant(found))
    reader.expect("truncate")
    reader.accept("table")
    table = reader.name()
    reader.done()
    return Truncate(text, f"TRUNCATE TABLE {table}")


def _insert(text: str, found: list[Token]) -> Statement:
    before, depth = "", 0
    for token in significant(found):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind == "word":
            if token.low == "returning":
                raise syntax_error("RETURNING")
            if token.low == "conflict" and before == "on":
                raise syntax_error("ON")
        before = token.low
    return Plain(text, rewritten(found).strip())


def _lock(text: str, found: list[Token]) -> Statement:
    reader = Reader(significant(found))
    reader.expect("lock")
    reader.accept("table")
    tables = [reader.name()]
    while reader.accept(","):
        tables.append(reader.name())
    reader.done()
    return Plain(text, f"LOCK TABLE {', '.join(tables)}")


def _analyze(text: str, found: list[Token]) -> Statement:
    reader = Reader(significant(found))
    reader.next()
    if reader.low() == "compression":
        raise RedshiftError("the local Redshift cannot do this: ANALYZE COMPRESSION", "0A000")
    reader.accept("verbose")
    return Plain(text, f"ANALYZE {reader.name() if not reader.is_done and reader.low() != ';' else ''}")


def _begin(text: str, found: list[Token]) -> Statement:
    """Translate BEGIN. Isolation levels have no effect, as in Redshift: the database has one."""
    words = [token.low for token in significant(found)]
    if "read" in words and words[words.index("read") :][:2] == ["read", "only"]:
        return Plain(text, "BEGIN READ ONLY")
    return Plain(text, "BEGIN")


def _set(text: str, found: list[Token]) -> Statement:
    meant = significant(found)
    at = 2 if len(meant) > 2 and meant[1].low in ("session", "local") else 1
    if len(meant) <= at or not _SETTINGS.fullmatch(meant[at].low):
        return Plain(text, rewritten(found))
    if meant[at].low == _CASE:
        value = meant[-1].value.lower()
        return CaseSensitive(text, value in ("on", "true", "1"))
    given = meant[at + 2 :]
    value = literal(given[0].value if len(given) == 1 else spelled(given).strip("'"))
    return Plain(text, f"SET redshift.{meant[at].low} TO {value}")


def _show(text: str, found: list[Token]) -> Statement:
    meant = significant(found)
    if len(meant) > 1 and _SETTINGS.fullmatch(meant[1].low):
        return Plain(text, f"{meant[0].text} redshift.{meant[1].low}")
    return Plain(text, rewritten(found))


_RULES: dict[tuple[str, ...], Callable[[str, list[Token]], Statement]] = {
    ("local", "cloud"): _local_cloud,
    ("create",): _create,
    ("create", "schema"): _create_schema,
    ("create", "user"): accounts.user,
    ("alter", "user"): accounts.user,
    **{(verb, "group"): accounts.group for verb in ("create", "alter", "drop")},
    **{(verb, "role"): accounts.role for verb in ("create", "alter", "drop")},
    ("alter", "table"): ddl.alter_table,
    ("alter", "default"): accounts.grant,
    ("grant",): accounts.grant,
    ("revoke",): accounts.grant,
    ("merge",): merge,
    ("truncate",): _truncate,
    ("insert",): _insert,
    ("update",): _insert,
    ("delete",): _insert,
    ("lock",): _lock,
    ("vacuum",): lambda text, _: Nothing(text, "VACUUM"),
    ("analyze",): _analyze,
    ("analyse",): _analyze,
    ("begin",): _begin,
    ("start",): _begin,
    ("set",): _set,
    ("show",): _show,
    ("reset",): _show,
    ("unload",): unload,
}
