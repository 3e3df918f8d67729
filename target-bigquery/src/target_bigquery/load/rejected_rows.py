"""Finds the rows because of which BigQuery refuses a load job, by loading ranges of the group.

Items that were not read yet are read first: the checks of the conversion may find the rows. If not, ever smaller files
are loaded into a temporary table until each refused row is isolated.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from singer_arrow.load import row_spool
from singer_arrow.load.bisect import Refusal, TooManyRefusedError, refused_of_each, refused_rows
from singer_arrow.load.without_rows import without_refused
from singer_arrow.naming import staging_name
from target_bigquery.connection.jobs import Fields
from target_bigquery.connection.resources import RefusedDataError
from target_bigquery.load import load_job
from target_bigquery.load.context import BigQueryContext
from target_bigquery.load.uploads import PreparedItem
from target_bigquery.tables import migrate


def drop_rejected(
    context: BigQueryContext, parts: Sequence[PreparedItem], fields: Fields, error: RefusedDataError
) -> list[PreparedItem]:
    """Return the parts, read if they were not yet, without the rows that BigQuery refuses.

    The error is raised if it is not for a row, or for more of them than are looked for. `fields` are the columns of the
    table that refused them.
    """
    context.logger.info("Stream %r: %s; looking for the rows that are refused", context.stream, error)
    if not all(p.spool for p in parts):
        known = sum(len(p.rejects) for p in parts if p.rejects is not None)
        parts = [p if p.spool else context.files.spooled(p) for p in parts]
        if sum(len(p.rejects) for p in parts if p.rejects is not None) > known:
            return list(parts)
    try:
        found = _found(context, parts, fields, error)
    except TooManyRefusedError as many:
        raise many.of_load(error, "BigQuery") from None
    if not found:
        raise RefusedDataError(str(error))
    each = refused_of_each(found, [p.rows for p in parts])
    made = list(parts)
    for number, (part, mine) in enumerate(zip(parts, each, strict=True)):
        if mine and part.spool and part.rejects is not None:
            rest = without_refused(part.spool, mine, part.rejects, context.files.temporary(".arrow"))
            made[number] = replace(part, rows=rest.rows, spool=rest)
    return made


def _found(
    context: BigQueryContext, parts: Sequence[PreparedItem], fields: Fields, error: RefusedDataError
) -> list[tuple[int, Refusal]]:
    """Return the rows that are refused, by their numbers among all."""
    name, spools = staging_name(context.destination.name, uuid.uuid4().hex), [p.spool for p in parts if p.spool]
    migrate.create_staging_table(context.client, name, fields)

    def probe(low: int, high: int) -> Refusal | None:
        rows = row_spool.read(spools, low, high)
        upload = context.files.write(rows, spools[0].schema, context.upload_format)
        try:
            load_job.run_until_done(context.client, upload, name, fields)
        except RefusedDataError as refused:
            return Refusal(str(refused))
        finally:
            context.files.discard(upload)
        return None

    try:
        count = sum(p.rows for p in parts)
        found = refused_rows(count, probe, first=Refusal(str(error)))
        return [] if found and len(found) == count and probe(0, 0) else found  # what no row is in is refused too
    finally:
        context.client.delete_table(name)
