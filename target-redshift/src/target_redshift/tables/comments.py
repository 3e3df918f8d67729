"""Comments of tables and columns: on their first line what this program must know again, below what SCHEMA says."""

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
"""How a table's comment begins that says which stream the table belongs to."""
NO_DESCRIPTIONS = Descriptions()


def of_table(stream: str, description: str | None) -> str:
    """A table's comment: whose it is, and on further lines what it is."""
    return "\n".join([OWNER + stream_label(stream), *([description] if description else [])])


def of_column(variant_of: str | None, description: str | None) -> str | None:
    """A column's comment: of which it is a variant, and what it is; None if there is nothing to say."""
    said = [*([mark(variant_of)] if variant_of else []), *([description] if description else [])]
    return "\n".join(said) or None


def may_be_of(comment: str | None, stream: str) -> bool:
    """Whether a table with that comment is the stream's, or nobody's."""
    owner = (comment or "").partition("\n")[0].rstrip()
    return not owner.startswith(OWNER) or owner == OWNER + stream_label(stream)


def describe(
    client: Redshift, stream: str, table: Table, columns: Sequence[Column], descriptions: Descriptions
) -> None:
    """Give comments to a table and to columns of it that have none, where SCHEMA says something of them.

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
    said = [(c.name, text) for c in columns if (text := descriptions.columns.get((c.source,)))]
    has = client.commented(table.name) if said else ()
    yield from (sql.comment_column(quoted, column, text) for column, text in said if column not in has)
