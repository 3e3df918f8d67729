"""What a target needs to load what a plan reads: `tap-s3-files --plan --target bigquery`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tap_s3_files.inspection import text_table
from tap_s3_files.inspection.plan_table import Row

MAX_BATCH_BYTES = 512 << 20
"""Default of the targets' setting `max_batch_mb`: a load takes no more."""
DAILY_LOADS = 1500
"""Load jobs that BigQuery allows per table and day."""


@dataclass(frozen=True, slots=True)
class _Target:
    load: str
    quota: int | None
    note: str


_TARGETS = {
    "bigquery": _Target(
        "load jobs",
        DAILY_LOADS,
        "Load jobs are free; append-only bills about 20 MB of queries of the ledger for each, upsert a MERGE.",
    ),
    "redshift": _Target("COPYs", None, "A COPY is one transaction and costs time of the cluster alone."),
}


def cost_lines(target: str, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines that show what a target needs for the default `max_batch_mb`."""
    known = _TARGETS[target]
    quota = (f"of {known.quota:,} a day",) if known.quota else ()
    cells = [("table", f"{known.load} (at least)", "bytes", *quota)]
    for row in rows:
        loads = -(-row.bytes // MAX_BATCH_BYTES)
        share = (f"{loads / known.quota:.1%}",) if known.quota else ()
        cells.append((row.stream, f"{loads:,}", f"{row.bytes:,}", *share))
    yield f"target-{target}:"
    yield from text_table.lines(cells, range(1, len(cells[0])))
    yield f"A load ends after max_batch_age_seconds (60) too, so a run of ten minutes has up to ten. {known.note}"
