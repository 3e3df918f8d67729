"""Finds the rows because of which Redshift refuses a group, by trying ranges of the group.

A trial loads the rows in a transaction that is rolled back. If COPY names a line, that row is tried first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from singer_arrow.errors import DataError, LoadError
from singer_arrow.load import row_spool as spool
from singer_arrow.load.bisect import Refusal, TooManyRefusedError, refused_of_each, refused_rows
from singer_arrow.load.without_rows import without_refused
from target_redshift.connection.resources import CopyRefusedError, RefusedDataError
from target_redshift.load.context import RedshiftContext
from target_redshift.load.load_group import Group
from target_redshift.load.uploads import PreparedItem


def drop_rejected(
    context: RedshiftContext,
    group: Group,
    error: LoadError | DataError,
    *,
    try_group: Callable[[Group], None],
    forget: Callable[[Group], None],
) -> None:
    """Remove from a group of converted rows, which Redshift has refused with `error`, those that it refuses.

    `try_group` loads a group in a transaction that is rolled back, and raises as the load would; `forget` removes the
    staging tables and staged files of a group. The error is raised if no single row is the reason.
    """
    parts = [p for p in group.parts if p.spool and p.rows]
    spools = [p.spool for p in parts if p.spool]
    if not parts:
        raise error
    context.logger.info("Stream %r: %s; looking for the rows that are refused", context.stream, error)

    def probe(low: int, high: int) -> Refusal | None:
        path = context.files.temporary(".arrow")
        rows = spool.write(spool.read(spools, low, high), spools[0].schema, path)
        long = any(p.has_long_json for p in parts)
        trial = Group([PreparedItem(parts[0].item, rows.rows, rows.bytes, spool=rows, has_long_json=long)])
        try:
            return _refusal(context, trial, low, try_group)
        finally:
            try:
                forget(trial)
            finally:
                context.files.discard(*trial.parts)

    try:
        count = sum(p.rows for p in parts)
        found = refused_rows(count, probe, first=Refusal(str(error)))
    except TooManyRefusedError as many:
        raise many.of_load(error, "Redshift") from None
    if not found or (len(found) == count and not all(why.is_of_value for _, why in found)):
        raise error  # no row was taken, so it may be for what they share: a right, a region, a full disk
    forget(group)
    each = zip(parts, refused_of_each(found, [p.rows for p in parts]), strict=True)
    without = dict[int, PreparedItem]()
    for part, mine in each:
        if mine and part.spool and part.rejects is not None:
            rest = without_refused(part.spool, mine, part.rejects, context.files.temporary(".arrow"))
            without[id(part)] = replace(part, rows=rest.rows, bytes=rest.bytes, spool=rest)
    group.parts = [without.get(id(part), part) for part in group.parts]


def _refusal(context: RedshiftContext, trial: Group, first: int, try_group: Callable[[Group], None]) -> Refusal | None:
    """Return why Redshift refuses some rows, if it does; `first` is the number of their first row among all."""
    sources = {c.name: c.source for c in context.destination.columns}
    try:
        try_group(trial)
    except CopyRefusedError as error:
        bad, at = error.bad, first
        for file in (file for copy_batch in trial.copy_batches for file in copy_batch.files):
            if file.url == bad.file and bad.line:
                return Refusal(bad.reason, sources.get(bad.column), at + bad.line - 1)
            at += file.rows
        return Refusal(bad.reason, sources.get(bad.column))
    except (LoadError, DataError) as error:
        reason = error.reason if isinstance(error, DataError) else str(error)
        column = error.column if isinstance(error, DataError) else None
        return Refusal(reason, column, is_of_value=isinstance(error, DataError | RefusedDataError))
    return None
