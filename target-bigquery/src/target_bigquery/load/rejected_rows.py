"""Finds the rows because of which BigQuery refuses a load job, by loading ranges of the group.

Items that were not read yet are read first: the checks of the conversion may find the rows. If not, ever smaller files
are loaded into a temporary table until each refused row is isolated.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from singer_arrow.batch import spool
from singer_arrow.load.bisect import Refusal, TooManyRefusedError, refused_of_each, refused_rows
from singer_arrow.load.without_rows import taken_rows
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
    return [_without(context, part, mine) if mine else part for part, mine in zip(parts, each, strict=True)]


def _found(
    context: BigQueryContext, parts: Sequence[PreparedItem], fields: Fields, error: RefusedDataError
) -> list[tuple[int, Refusal]]:
    """Return the rows that are refused, by their numbers among all."""
    name, schema = staging_name(context.destination.name, uuid.uuid4().hex), parts[0].item.conversion.upload_schema
    migrate.create_staging_table(context.client, name, fields)

    def probe(low: int, high: int) -> Refusal | None:
        upload = context.files.write(_rows(parts, low, high), schema, context.upload_format)
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


def _rows(parts: Sequence[PreparedItem], low: int, high: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows from `low` to `high` (exclusive) of all parts."""
    before = 0
    for batch in itertools.chain.from_iterable(spool.read(_spool(part)) for part in parts):
        start, end = max(low - before, 0), min(high - before, batch.num_rows)
        if start < end:
            yield batch.slice(start, end - start)
        before += batch.num_rows
        if before >= high:
            return


def _without(context: BigQueryContext, part: PreparedItem, refused: dict[int, Refusal]) -> PreparedItem:
    """Return an item without some of its rows, which become its rejects."""
    assert part.rejects is not None
    path = context.files.temporary(".arrow")
    with spool.write(path, part.item.conversion.upload_schema) as rest:
        for batch in taken_rows(spool.read(_spool(part)), refused, part.rejects):
            rest.write_batch(batch)
    _spool(part).unlink(missing_ok=True)
    return replace(part, rows=part.rows - len(refused), spool=path)


def _spool(part: PreparedItem) -> Path:
    assert part.spool is not None
    return part.spool
