"""Statements that PostgreSQL does not have, done by the proxy with PostgreSQL's help."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from local_cloud.redshift import copying, faults, wire
from local_cloud.redshift.rewrite import Copy, Plain, SetFaults, ShowStatements, Statement

if TYPE_CHECKING:
    from local_cloud.redshift.session import Session


def description(statement: Statement) -> wire.Message:
    """What Describe tells of the rows."""
    if isinstance(statement, ShowStatements):
        return b"T", wire.text_columns("statement")[5:]
    return b"n", b""


def do(statement: Statement, session: "Session", *, strike: Callable[[], None] | None, silent: bool) -> bool:
    """Do a statement and tell the client, unless it is to stay silent; True if it went well.

    Args:
        strike: what is to happen in the middle of it.

    Raises:
        RedshiftError: it cannot be done.
    """
    told = list[bytes]()
    match statement:
        case Copy():
            table, rows = copying.run_copy(statement, session.backend, session.cluster, strike)
            words = f"Load into table '{table}' completed, {rows} record(s) loaded successfully."
            told = [wire.response(b"N", {"S": "INFO", "V": "INFO", "C": "00000", "M": words}), tag("COPY")]
        case SetFaults():
            session.cluster.faults.set(faults.parse(statement.rules))
            told = [tag("SET")]
        case ShowStatements():
            told = [wire.data_row([text.encode()]) for text in session.cluster.statements.all()]
            told.append(tag(f"SELECT {len(told)}"))
        case Plain():
            raise AssertionError("PostgreSQL does it")
    if not silent:
        session.client.send(b"".join(told))
    return True


def tag(words: str) -> bytes:
    """That a statement is done."""
    return wire.message(b"C", wire.text(words))
