"""Widens VARCHAR columns for staged texts; a text that is too long for any width is an error with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    """Widen the table's columns for the texts that were staged in a session; outside of any transaction.

    `staged` has the quoted names of the staging tables, and their columns. If a text is longer than its column may get,
    the error names file, row and column.
    """
    migrate.widen(context.client, context.destination, needed_bytes(context, session, staged, copy_batches))


def needed_bytes(
    context: RedshiftContext, session: Session, staged: Mapping[str, Sequence[str]], copy_batches: Sequence[CopyBatch]
) -> dict[str, int]:
    """Return the bytes of the longest staged text of each column that is not of the greatest width.

    Errors are those of `fit_texts`. A text that goes elsewhere when its file is converted is a ConvertibleTextError.
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
        if length <= most:
            continue
        column = next(c for c in destination.columns if c.name == name)
        if column.is_rescued:
            raise ConvertibleTextError(f"a text has {length:,} bytes", column=column.source)
        placed = diagnose.long_text(copy_batches, [column], context.files.storage, most)
        reason = f"a text has {length:,} bytes, and Redshift's column takes {most:,}"
        hint = "Shorten it or leave the column out in the tap"
        raise placed or LongTextError(reason, column=column.source, hint=hint)
    return needed
