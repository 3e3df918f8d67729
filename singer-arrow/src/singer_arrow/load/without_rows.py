"""Converted rows without those that a warehouse refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from singer_arrow.enforcement.row_json import row_to_json
from singer_arrow.enforcement.row_policy import rows_except
from singer_arrow.load.bisect import Refusal
from singer_arrow.load.conversion import ORDER, RANK
from singer_arrow.load.dead_letters import Rejects
from singer_arrow.load.row_spool import Spool, read, write


def without_refused(spool: Spool, refused: Mapping[int, Refusal], rejects: Rejects, path: Path) -> Spool:
    """Return a spool of an item's rows at `path`, without those that are refused; the former one is removed."""
    rest = write(taken_rows(read([spool], 0, spool.rows), refused, rejects), spool.schema, path)
    spool.path.unlink(missing_ok=True)
    return rest


def taken_rows(
    batches: Iterable[pa.RecordBatch], refused: Mapping[int, Refusal], rejects: Rejects
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an item without those that are refused, by their numbers; these go to its rejects at the end.

    `ORDER` and `RANK` are no part of the rejected rows.
    """
    before, texts = 0, dict[int, str]()
    for batch in batches:
        mine = [row - before for row in refused if before <= row < before + batch.num_rows]
        shown = batch.select([name for name in batch.schema.names if name not in (ORDER, RANK)])
        texts.update({before + row: row_to_json(shown, row) for row in mine})
        before += batch.num_rows
        taken = batch.take(rows_except(batch.num_rows, pa.array(mine, pa.int64())))
        if taken.num_rows:
            yield taken
    rejects.refuse((row, why.column, why.reason, texts[row]) for row, why in refused.items())
