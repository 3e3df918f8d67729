"""The rows for which Redshift refuses a group, where nothing else tells them: ranges of the group are tried.

A trial is all that would be done with the rows, in a transaction that is rolled back. Where COPY names a line, that row
is tried first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.batch.conversion import ORDER
from singer_arrow.batch.refused import MOST_REFUSED, Refusal, TooManyRefusedError, refused_rows
from singer_arrow.errors import DataError, LoadError
from singer_arrow.formats.row_text import row_text
from target_redshift.answers import CopyRefusedError, RefusedDataError
from target_redshift.load import spool
from target_redshift.load.files import Part
from target_redshift.load.group import Group
from target_redshift.load.spool import Spool

if TYPE_CHECKING:
    from target_redshift.load.lane import Lane


def take_out(lane: Lane, group: Group, error: LoadError | DataError) -> None:
    """Take the rows out of a group, all of converted rows, for which Redshift refuses it.

    Raises:
        LoadError: It is not for a row, or for more of them than are looked for.
        DataError: More rows are bad than may be.
    """
    way, parts = lane.way, [p for p in group.parts if p.spool and p.rows]
    spools = [p.spool for p in parts if p.spool]
    if not parts:
        raise error
    way.logger.info("Stream %r: %s; looking for the rows that are refused", way.stream, error)

    def probe(low: int, high: int) -> Refusal | None:
        path = way.files.temporary(".arrow")
        rows = spool.write(spool.read(spools, low, high), spools[0].schema, path)
        long = any(p.has_long_json for p in parts)
        trial = Group([Part(parts[0].item, rows.rows, rows.bytes, spool=rows, has_long_json=long)])
        try:
            return _tried(lane, trial, low)
        finally:
            lane.undo(trial)

    try:
        count = sum(p.rows for p in parts)
        found = refused_rows(count, probe, most=MOST_REFUSED, first=Refusal(str(error)))
    except TooManyRefusedError as many:
        hint = f"Redshift refuses more than {MOST_REFUSED} rows of one load, and no more are looked for"
        msg = f"{error}; {hint}. The first of them: {many.found[0][1].reason}"
        raise LoadError(msg) from None
    if not found or (len(found) == count and not all(why.is_of_value for _, why in found)):
        raise error  # no row was taken, so it may be for what they share: a right, a region, a full disk
    lane.forget(group)
    before, without = 0, dict[int, Part]()
    for part in parts:
        mine = {row - before: why for row, why in found if before <= row < before + part.rows}
        before += part.rows
        if mine:
            without[id(part)] = _without(lane, part, mine)
    group.parts = [without.get(id(part), part) for part in group.parts]


class _UndoneError(Exception):
    """Ends a transaction of which nothing is to stay."""


def _tried(lane: Lane, trial: Group, first: int) -> Refusal | None:
    """What is said of some rows, of which the first one's number among all is given."""
    sources = {c.name: c.source for c in lane.way.destination.columns}
    try:
        lane.upload(trial)
        tables = lane.make_fit(trial)
        with suppress(_UndoneError), tables.session.transaction(lane.what):
            lane.bring(tables)
            raise _UndoneError
    except CopyRefusedError as error:
        bad, at = error.bad, first
        for file in (file for lot in trial.lots for file in lot.files):
            if file.url == bad.file and bad.line:
                return Refusal(bad.reason, sources.get(bad.column), at + bad.line - 1)
            at += file.rows
        return Refusal(bad.reason, sources.get(bad.column))
    except (LoadError, DataError) as error:
        reason = error.reason if isinstance(error, DataError) else str(error)
        column = error.column if isinstance(error, DataError) else None
        return Refusal(reason, column, is_of_value=isinstance(error, DataError | RefusedDataError))
    return None


def _without(lane: Lane, part: Part, refused: dict[int, Refusal]) -> Part:
    """A part without some of its rows, which are told to its rejects."""
    assert part.spool is not None
    assert part.rejects is not None
    texts = dict[int, str]()
    batches = _others(part.spool, sorted(refused), texts)
    rows = spool.write(batches, part.spool.schema, lane.way.files.temporary(".arrow"))
    part.rejects.refuse((row, why.column, why.reason, texts[row]) for row, why in refused.items())
    part.spool.path.unlink(missing_ok=True)
    return replace(part, rows=rows.rows, bytes=rows.bytes, spool=rows)


def _others(rows: Spool, out: Sequence[int], texts: dict[int, str]) -> Iterator[pa.RecordBatch]:
    """The rows but some, of which the JSON text is noted."""
    before = 0
    for batch in spool.read([rows], 0, rows.rows):
        mine = [row - before for row in out if before <= row < before + batch.num_rows]
        shown = batch.drop_columns([ORDER]) if ORDER in batch.schema.names else batch
        texts.update({before + row: row_text(shown, row) for row in mine})
        every = pa.array(range(batch.num_rows), pa.int64())
        kept = batch.take(every.filter(pc.invert(pc.is_in(every, value_set=pa.array(mine, pa.int64())))))
        before += batch.num_rows
        if kept.num_rows:
            yield kept
