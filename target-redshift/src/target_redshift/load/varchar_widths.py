"""Widens VARCHAR columns for staged texts; a text that is too long for any width is an error with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from singer_arrow.errors import DataError
from target_redshift import sql
from target_redshift.connection.connection import Session
from target_redshift.conversion import ConvertibleTextError, LongTextError
from target_redshift.load import diagnose
from target_redshift.load.context import RedshiftContext
from target_redshift.load.copy_batch import CopyBatch
from target_redshift.tables import migrate
from target_redshift.tables.types import MAX_VARCHAR


def fit_texts(
    context: RedshiftContext, session: Session, staged: Mapping[str, Sequence[str]], copy_batches: Sequence[CopyBatch]
) -> None:
    """Widen the table's columns for the texts that were staged; outside of any transaction.

    Args:
        context: The load context of the stream.
        session: The session that has the staging tables.
        staged: Quoted names of the staging tables, and the names of their columns.
        copy_batches: The files that were staged.

    Raises:
        DataError: A text is longer than its column may get; names file, row and column.
    """
    migrate.widen(context.client, context.destination, needed_bytes(context, session, staged, copy_batches))


def needed_bytes(
    context: RedshiftContext, session: Session, staged: Mapping[str, Sequence[str]], copy_batches: Sequence[CopyBatch]
) -> dict[str, int]:
    """Return the bytes of the longest staged text of each column that is not of the greatest width.

    Raises:
        ConvertibleTextError: A text is longer than its column may get, and goes elsewhere when its file is converted.
        DataError: As `fit_texts`.
    """
    destination = context.destination
    growing = [name for name in destination.texts if destination.lengths.get(name, 0) < MAX_VARCHAR]
    needed: dict[str, int] = {}
    for table, columns in staged.items():
        names = [name for name in growing if name in columns]
        if names:
            what = f"Measuring texts for table {context.client.path(destination.name)}"
            (found,) = session.execute(sql.longest_texts(table, names), what=what).rows
            for name, length in zip(names, found, strict=True):
                needed[name] = max(needed.get(name, 0), int(length or 0))
    for name, length in needed.items():
        most = max(context.client.settings.varchar_max, destination.lengths.get(name, 0))
        if length > most:
            raise _too_long(context, name, length, most, copy_batches)
    return needed


def _too_long(
    context: RedshiftContext, name: str, length: int, most: int, copy_batches: Sequence[CopyBatch]
) -> DataError:
    column = next(c for c in context.destination.columns if c.name == name)
    if column.is_rescued:
        return ConvertibleTextError(f"a text has {length:,} bytes", column=column.source)
    found = diagnose.long_text(copy_batches, [column], context.files.storage, most)
    reason = f"a text has {length:,} bytes, and Redshift's column takes {most:,}"
    hint = "Shorten it or leave the column out in the tap"
    return found or LongTextError(reason, column=column.source, hint=hint)
