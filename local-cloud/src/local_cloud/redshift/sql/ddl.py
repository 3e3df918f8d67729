"""CREATE TABLE and ALTER TABLE of Redshift, as PostgreSQL's. Pure."""

from local_cloud.redshift.errors import RedshiftError, syntax_error
from local_cloud.redshift.sql.columns import Column, read_column
from local_cloud.redshift.sql.expressions import rewritten
from local_cloud.redshift.sql.statement import AlterType, CreateTable, Layout, Nothing, Plain, Statement
from local_cloud.redshift.sql.tokens import Reader, Token, significant, split_commas, sql_of
from local_cloud.redshift.sql.types import read_type

_CONSTRAINTS = ("constraint", "unique", "primary", "foreign", "check")
_TEMPORARY = ("temp", "temporary")


def create_table(text: str, found: list[Token]) -> Statement:
    """Translate CREATE TABLE, also AS a query; `found` are the tokens of `text`, with PostgreSQL's names."""
    reader = Reader(significant(found))
    reader.expect("create")
    reader.accept("local") or reader.accept("global")
    temporary = any(reader.accept(word) for word in _TEMPORARY)
    reader.expect("table")
    if_absent = reader.accept("if", "not", "exists")
    table = reader.name()
    temporary = temporary or table.startswith('"#')
    head = f"CREATE {'TEMP ' * temporary}TABLE {'IF NOT EXISTS ' * if_absent}{table}"
    columns, parent, body = list[Column](), "", ""
    if reader.low() == "(":
        inner = reader.parenthesised()
        if any(token.low == "as" for token in reader.remaining):  # so the parentheses contained names of columns
            body = f"({sql_of(inner)})"
        else:
            columns, parent, body = _elements(inner)
    layout = _layout(reader, columns)
    if reader.accept("as"):
        if if_absent or columns or parent:
            raise syntax_error("AS")
        return _made(text, f"{head} {body} AS {_query(found)}", table, layout, parent)
    reader.done()
    if not body:
        raise syntax_error("")
    return _made(text, f"{head} {body}", table, layout, parent)


def _made(text: str, sql: str, table: str, layout: Layout, parent: str) -> Statement:
    return CreateTable(text, sql, table, layout, parent) if parent or layout != Layout() else Plain(text, sql)


def _query(found: list[Token]) -> str:
    """Return the text after the first AS outside of parentheses, with its spaces."""
    depth = 0
    for index, token in enumerate(found):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.low == "as" and token.kind == "word":
            return rewritten(found[index + 1 :]).strip()
    raise syntax_error("")


def _elements(inner: list[Token]) -> tuple[list[Column], str, str]:
    """Return the columns, the table of a LIKE clause, and all elements in PostgreSQL's SQL."""
    columns, likes, parent, keys = list[Column](), list[str](), "", set[str]()
    for element in split_commas(inner):
        reader = Reader(element)
        if reader.low() in _CONSTRAINTS:
            keys |= _constraint(reader)
        elif reader.accept("like"):
            parent = reader.name()
            defaults = reader.accept("including", "defaults")
            reader.accept("excluding", "defaults")
            reader.done()
            likes.append(f"LIKE {parent}{' INCLUDING DEFAULTS' * defaults} INCLUDING CONSTRAINTS")
        else:
            columns.append(read_column(element))
    # A primary key is not enforced, but its columns are NOT NULL.
    defined = [column.sql + " NOT NULL" * (column.name in keys) for column in columns]
    return columns, parent, f"({', '.join([*likes, *defined])})"


def _constraint(reader: Reader) -> set[str]:
    """Check the form of a table's constraint and return the columns of a primary key."""
    if reader.accept("constraint"):
        reader.name()
    if reader.low() == "check":
        raise RedshiftError("CHECK constraints are not supported", "0A000")
    if reader.accept("unique"):
        reader.parenthesised()
        found = set[str]()
    elif reader.accept("primary", "key"):
        found = {token.text for token in reader.parenthesised() if token.text != ","}
    else:
        reader.expect("foreign", "key")
        reader.parenthesised()
        reader.expect("references")
        reader.name()
        if reader.low() == "(":
            reader.parenthesised()
        found = set()
    reader.done()
    return found


def _layout(reader: Reader, columns: list[Column]) -> Layout:
    """Return the layout: the attributes after the columns, with those of the columns."""
    style, distkey, sortkeys = "", "", list[str]()
    for column in columns:
        distkey = _plain(column.name) if column.is_distkey else distkey
        sortkeys += [_plain(column.name)] if column.is_sortkey else []
    while not reader.is_done and reader.low() != "as":
        if reader.accept("diststyle"):
            style = reader.next().low
            if style not in ("auto", "even", "key", "all"):
                raise syntax_error(style)
        elif reader.accept("distkey"):
            distkey = _names(reader)[0]
        elif reader.accept("backup"):
            reader.next()
        elif reader.accept("encode"):
            reader.expect("auto")
        elif reader.accept("sortkey", "auto"):
            sortkeys = []
        elif reader.low() in ("compound", "interleaved", "sortkey"):
            reader.accept("compound") or reader.accept("interleaved")
            reader.expect("sortkey")
            sortkeys = _names(reader)
        else:
            raise reader.unexpected()
    known = {_plain(column.name) for column in columns}
    for key in [distkey] * bool(distkey) + sortkeys:
        if columns and key not in known:
            raise RedshiftError(f'column "{key}" named in DISTKEY or SORTKEY does not exist', "42703")
    if style == "key" and not distkey:
        raise RedshiftError("No DISTKEY specified for DISTSTYLE KEY", "42601")
    if distkey and style not in ("", "key"):
        raise RedshiftError(f"Cannot specify DISTKEY for column with DISTSTYLE {style.upper()}", "42601")
    encodings = {_plain(column.name): column.encoding for column in columns if column.encoding}
    shown = f"KEY({distkey})" if distkey else {"": "", "auto": ""}.get(style, style.upper())
    return Layout(shown, distkey, tuple(sortkeys), encodings)


def _names(reader: Reader) -> list[str]:
    return [_plain(token.text) for token in reader.parenthesised() if token.text != ","]


def _plain(name: str) -> str:
    """Return a name in SQL without its quotes."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def alter_table(text: str, found: list[Token]) -> Statement:
    """Translate ALTER TABLE."""
    meant = significant(found)
    reader = Reader(meant)
    reader.expect("alter", "table")
    if reader.accept("if", "exists"):
        raise syntax_error("EXISTS")
    table = reader.name()
    if reader.accept("add"):
        return _add(text, table, reader)
    if reader.accept("drop"):
        return _drop(text, table, reader)
    if reader.accept("alter"):
        return _alter(text, table, reader)
    if reader.accept("append"):
        raise RedshiftError("the local Redshift cannot do this: ALTER TABLE APPEND", "0A000")
    if reader.low() in ("rename", "owner"):
        return Plain(text, rewritten(found))
    raise reader.unexpected()


def _one(reader: Reader, what: str) -> list[Token]:
    parts = split_commas(reader.rest())
    if len(parts) > 1:
        raise RedshiftError(f'syntax error at or near "," (one {what} in each ALTER TABLE)', "42601")
    return parts[0]


def _add(text: str, table: str, reader: Reader) -> Statement:
    if reader.low() in _CONSTRAINTS:
        _constraint(reader)
        return Nothing(text, "ALTER TABLE")
    reader.accept("column")
    if reader.low() == "if":
        raise syntax_error("NOT")
    column = read_column(_one(reader, "ADD COLUMN"))
    if column.is_identity:
        raise RedshiftError("cannot add an IDENTITY column with ALTER TABLE", "0A000")
    if column.is_not_null and not column.has_default:
        words = "ALTER TABLE ADD COLUMN defined as NOT NULL must have a non-null default expression"
        raise RedshiftError(words, "0A000")
    return Plain(text, f"ALTER TABLE {table} ADD COLUMN {column.sql}")


def _drop(text: str, table: str, reader: Reader) -> Statement:
    if reader.accept("constraint"):
        return Nothing(text, "ALTER TABLE")
    reader.accept("column")
    if reader.low() == "if":
        raise syntax_error("EXISTS")
    column = Reader(_one(reader, "DROP COLUMN"))
    name, how = column.name(), next((word for word in ("cascade", "restrict") if column.accept(word)), "")
    column.done()
    return Plain(text, f"ALTER TABLE {table} DROP COLUMN {name} {how}")


def _alter(text: str, table: str, reader: Reader) -> Statement:
    if reader.low() in ("diststyle", "distkey", "sortkey", "compound", "interleaved", "encode"):
        return Nothing(text, "ALTER TABLE")
    reader.expect("column")
    name = reader.name()
    if reader.accept("encode"):
        return Nothing(text, "ALTER TABLE")
    if not reader.accept("type"):
        raise reader.unexpected()
    kind = read_type(reader, for_column=True)
    reader.done()
    if not kind.sql.startswith("varchar") or kind.bytes is None:
        raise RedshiftError(f'cannot alter column {name} to type "{kind.sql}": only VARCHAR can be altered', "0A000")
    return AlterType(text, table, name, kind.bytes)
