"""Comments of tables and columns: the first line is for this program, descriptions of SCHEMA follow."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from singer_arrow.errors import SingerArrowError
from singer_arrow.naming import stream_label
from singer_arrow.warehouse.descriptions import Descriptions
from singer_arrow.warehouse.variant_columns import mark
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


def of_column(variant_of: str | None, description: str | None) -> str | None:
    """Return a column's comment: the column that it is a variant of, and its description; None if it has neither."""
    lines = [*([mark(variant_of)] if variant_of else []), *([description] if description else [])]
    return "\n".join(lines) or None


def may_be_of(comment: str | None, stream: str) -> bool:
    """Return whether a table with that comment belongs to the stream or to no stream."""
    owner = (comment or "").partition("\n")[0].rstrip()
    return not owner.startswith(OWNER) or owner == OWNER + stream_label(stream)


def write_comments(
    client: Redshift, stream: str, table: Table, columns: Sequence[Column], descriptions: Descriptions
) -> None:
    """Set the comments of a table and of its columns that have none, from the descriptions of SCHEMA.

    Only a table's owner may do so; where it is another's, nothing happens.
    """
    try:
        for text in _lacking(client, stream, table, columns, descriptions):
            client.query(text, what=f"Describing table {client.path(table.name)}")
    except SingerArrowError as error:
        logger.info("%s", error)


def _lacking(
    client: Redshift, stream: str, table: Table, columns: Sequence[Column], descriptions: Descriptions
) -> Iterator[str]:
    quoted = client.quoted(table.name)
    if descriptions.table and (table.comment or "").rstrip() in ("", OWNER + stream_label(stream)):
        yield sql.comment(quoted, of_table(stream, descriptions.table))
    described = [(c.name, text) for c in columns if (text := descriptions.columns.get((c.source,)))]
    has = client.commented(table.name) if described else ()
    yield from (sql.comment_column(quoted, column, text) for column, text in described if column not in has)
