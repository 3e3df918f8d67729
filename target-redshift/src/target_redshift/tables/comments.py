"""Comments of tables and columns: the first line is for this program, descriptions of SCHEMA follow."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from singer_arrow.errors import AccessDeniedError
from singer_arrow.naming import stream_label
from singer_arrow.warehouse import column_owners
from singer_arrow.warehouse.descriptions import Descriptions
from target_redshift import sql
from target_redshift.connection.client import Redshift
from target_redshift.connection.resources import Table
from target_redshift.tables.types import Column

logger = logging.getLogger("target-redshift")
OWNER = "singer_stream: "
"""Begin of the comment of a table, before the name of its stream."""
NO_DESCRIPTIONS = Descriptions()


def of_table(stream: str, description: str | None) -> str:
    """Return a table's comment: its owner, and on further lines its description."""
    return "\n".join([OWNER + stream_label(stream), *([description] if description else [])])


def of_columns(
    columns: Iterable[Column], descriptions: Descriptions, *, is_new_table: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield columns that get a comment: the one that it is a variant of, or its property, and its description.

    The first column of a new table always gets one, by which the table records the owners of columns.
    """
    for number, column in enumerate(columns):
        first = column_owners.owner_line(column, always=is_new_table and not number)
        if text := _joined(first, descriptions.columns.get((column.source,))):
            yield column.name, text


def may_be_of(comment: str | None, stream: str) -> bool:
    """Return whether a table with that comment belongs to the stream or to no stream."""
    owner = (comment or "").partition("\n")[0].rstrip()
    return not owner.startswith(OWNER) or owner == OWNER + stream_label(stream)


def write_comments(
    client: Redshift, stream: str, table: Table, columns: Sequence[Column], descriptions: Descriptions
) -> None:
    """Set the comments that a table and its columns lack: descriptions of SCHEMA, and the owners of all columns.

    Only a table's owner may do so; where it is another's, nothing happens.
    """
    texts = list(_lacking(client, stream, table, columns, descriptions))
    what = f"Describing table {client.path(table.name)}"

    def write() -> None:
        with client.session() as session, session.transaction(what):
            for text in texts:
                session.execute(text, what=what)

    try:
        if texts:
            client.retried(write)
    except AccessDeniedError as error:
        logger.info("%s", error)


def _lacking(
    client: Redshift, stream: str, table: Table, columns: Sequence[Column], descriptions: Descriptions
) -> Iterator[str]:
    quoted = client.quoted(table.name)
    if descriptions.table and (table.comment or "").rstrip() in ("", OWNER + stream_label(stream)):
        yield sql.comment(quoted, of_table(stream, descriptions.table))
    filled = {c.name: c for c in columns}
    adopts = not any(column_owners.has_line(c.comment) for c in table.columns) and (
        (table.comment or "").startswith(OWNER) or any(c.name != c.source and not c.variant_of for c in columns)
    )
    lines: dict[str, str | None] = {c.name: column_owners.UNKNOWN for c in table.columns}
    lines |= {name: column_owners.owner_line(column) for name, column in filled.items()}
    if adopts and table.columns and not any(lines.values()):
        lines[table.columns[0].name] = column_owners.owner_line(filled[table.columns[0].name], always=True)
    for column in table.columns:
        text, own = column.comment, filled.get(column.name)
        if own and not column_owners.is_described(text):
            text = _joined(text, descriptions.columns.get((own.source,)))
        if adopts and not column.variant_of:
            text = _joined(lines[column.name], text)
        if text and text != column.comment:
            yield sql.comment_column(quoted, column.name, text)


def _joined(*lines: str | None) -> str:
    return "\n".join(filter(None, lines))
