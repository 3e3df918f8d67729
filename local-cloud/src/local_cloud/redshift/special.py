"""Execute the statements of Redshift that PostgreSQL does not have, with PostgreSQL's help."""

import json
from collections.abc import Callable

from local_cloud.redshift import copying, faults, wire
from local_cloud.redshift.backend import Backend
from local_cloud.redshift.cluster import Cluster
from local_cloud.redshift.errors import RedshiftError
from local_cloud.redshift.sql.columns import limit
from local_cloud.redshift.sql.statement import (
    AlterType,
    CaseSensitive,
    Copy,
    CreateTable,
    Nothing,
    SetFaults,
    Settings,
    ShowStatements,
    Special,
    Truncate,
    Unload,
)
from local_cloud.redshift.sql.tokens import literal

_COLUMN = """
SELECT t.typname, a.atttypmod - 4, a.atthasdef, k.conname, l.encodings ->> local_cloud.full_name(a.attname::text)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN local_cloud.layouts l ON l.table_id = a.attrelid
LEFT JOIN pg_constraint k ON k.conrelid = a.attrelid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum]
WHERE a.attrelid = to_regclass({table}) AND a.attname = (parse_ident({column}))[1] AND NOT a.attisdropped
"""
_FIXED = ("bytedict", "runlength", "text255", "text32k")  # of columns whose type Redshift cannot alter


def description(statement: Special) -> wire.Message:
    """Return the answer to Describe: the columns of the statement's rows, or that it has none."""
    if isinstance(statement, ShowStatements):
        return b"T", wire.text_columns("statement")[5:]
    return b"n", b""


def execute(
    statement: Special,
    backend: Backend,
    cluster: Cluster,
    settings: Settings,
    *,
    strike: Callable[[], None] | None,  # called in the middle of the statement, for a fault
    described: bool,  # whether the client has the columns of the result already
) -> list[bytes] | None:
    """Execute a statement; return the messages for the client, or None if PostgreSQL has sent an error."""
    match statement:
        case Copy():
            table, count = copying.run_copy(statement, backend, cluster, settings, strike)
            words = f"Load into table '{table}' completed, {count} record(s) loaded successfully."
            return [_info(words), tag("COPY")]
        case Unload():
            count = copying.run_unload(statement, backend, cluster, settings)
            words = f"UNLOAD completed, {count} record(s) unloaded successfully."
            return [_info(words), tag("UNLOAD")]
        case CreateTable():
            return _create_table(statement, backend)
        case AlterType():
            return _alter_type(statement, backend)
        case Truncate():
            return _truncate(statement, backend)
        case CaseSensitive():
            settings.case_sensitive = statement.is_on
            return [tag("SET")]
        case Nothing():
            return [tag(statement.tag)]
        case SetFaults():
            applied = cluster.faults.set(faults.parse(statement.rules))
            return [tag(" ".join(map(str, ("SET", *applied))))]
        case ShowStatements():
            rows = [wire.data_row([text.encode()]) for text in cluster.statements.all()]
            head = [] if described else [wire.text_columns("statement")]
            return [*head, *rows, tag(f"SELECT {len(rows)}")]


def tag(words: str) -> bytes:
    """Return the message that a statement is complete."""
    return wire.message(b"C", wire.text(words))


def _info(words: str) -> bytes:
    return wire.response(b"N", {"S": "INFO", "V": "INFO", "C": "00000", "M": words})


def _create_table(statement: CreateTable, backend: Backend) -> list[bytes] | None:
    layout = statement.layout
    parent = literal(statement.parent) if statement.parent else "NULL"
    values = (
        literal(statement.table),
        literal(layout.diststyle),
        literal(layout.distkey),
        literal(json.dumps(layout.sortkeys)),
        literal(json.dumps(layout.encodings)),
    )
    # In one message, which is one transaction: no session may see the table without its layout.
    set_layout = f"SELECT local_cloud.set_layout({', '.join(values)}, {parent})"
    return [tag("CREATE TABLE")] if backend.run(f"{statement.sql};\n{set_layout}") else None


def _alter_type(statement: AlterType, backend: Backend) -> list[bytes] | None:
    if backend.status != b"I":
        raise RedshiftError("ALTER TABLE ALTER COLUMN cannot run inside a transaction block", "25001")
    backend.query("BEGIN")
    try:
        # Before the column is looked up: another session may be altering it.
        well = backend.run(f"LOCK TABLE {statement.table}") and backend.run(_widening_sql(statement, backend))
    except RedshiftError:
        backend.query("ROLLBACK")
        raise
    backend.query("COMMIT" if well else "ROLLBACK")
    return [tag("ALTER TABLE")] if well else None


def _widening_sql(statement: AlterType, backend: Backend) -> str:
    """Return the statement of PostgreSQL that widens a column."""
    column = statement.column
    found = backend.query(_COLUMN.format(table=literal(statement.table), column=literal(column)))
    if not found:
        raise RedshiftError(f"column {column} of relation {statement.table} does not exist", "42703")
    kind, size, has_default, constraint, encoding = found[0]
    if kind != "varchar":
        raise RedshiftError(f"cannot alter column {column}: only the size of VARCHAR can be altered", "0A000")
    if has_default == "t":
        raise RedshiftError(f"cannot alter type of column {column}: it has a default value", "0A000")
    if encoding in _FIXED:
        raise RedshiftError(f"cannot alter type of column {column}: its encoding is {encoding.upper()}", "0A000")
    if int(size or 0) == statement.bytes:
        raise RedshiftError("target column size should be different", "0A000")
    if int(size or 0) > statement.bytes:
        words = f"target column size should be greater or equal to current maximum column size {size}"
        raise RedshiftError(words, "0A000")
    changes = [f"DROP CONSTRAINT {constraint}"] if constraint else []
    changes += [
        f"ALTER COLUMN {column} TYPE varchar({statement.bytes})",
        f"ADD {limit(column, statement.bytes)} NOT VALID",
    ]
    return f"ALTER TABLE {statement.table} {', '.join(changes)}"


def _truncate(statement: Truncate, backend: Backend) -> list[bytes] | None:
    in_transaction = backend.status == b"T"
    if not backend.run(statement.sql):
        return None
    if in_transaction and not backend.run("COMMIT"):
        return None
    return [tag("TRUNCATE TABLE")]
