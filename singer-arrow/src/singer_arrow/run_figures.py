"""The figures of a run, by stream, as connectors give them for progress, metrics, reports and lineage. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

PROGRESS_LINE = {"is_progress": True}
"""The `extra` of log lines about progress, which are left out where a terminal shows the progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """The figures of one stream."""

    stream: str
    is_complete: bool = False  # all of it was read and sent, or loaded
    has_begun: bool = True  # its turn came
    error: str | None = None  # that ended this stream, while the run continued with others
    counts: Mapping[str, int] = field(default_factory=dict)  # docs/report.schema.json lists the names
    seconds: float = 0.0  # from the first to the last count
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds; they may overlap, of several threads too
    table: str | None = None
    dataset: tuple[str, str] | None = None  # namespace and name of the table, as in OpenLineage
    inputs: tuple[str, ...] = ()  # URLs or queries
    outputs: tuple[str, ...] = ()  # folders of batch files, written to or read from
    watermark: datetime | None = None  # of the newest source object or replication key that is sent or loaded
    complete_until: datetime | None = None  # all that there was then is sent or loaded: the stream is complete
    share: float | None = None  # of what is planned, from 0 to 1; None: not known
    total: Mapping[str, int] = field(default_factory=dict)  # planned: `objects`, `bytes`
    left: Mapping[str, int] = field(default_factory=dict)  # not done yet: `objects`, `bytes`, `batches`, `loads`

    def lag_seconds(self, now: datetime) -> float | None:
        """Return how long ago all was sent or loaded that there was; of a stream that has not ended, the newest."""
        moment = self.complete_until or self.watermark
        return max(0.0, (now - moment).total_seconds()) if moment is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """The figures of a run."""

    streams: tuple[StreamFigures, ...] = ()
    bytes_billed: int | None = None  # for queries, where the warehouse bills them so
    is_read: bool = True  # all input of a target is read, so that what is left has an end


def watermark_of(state: Mapping[str, Any] | None, stream: str) -> datetime | None:
    """Return the watermark of a stream in a STATE: of this project's taps, or a replication key that is a time."""
    entry = ((state or {}).get("bookmarks") or {}).get(stream)
    if not isinstance(entry, Mapping):
        return None
    mark = entry.get("watermark")  # of earlier versions
    mark = mark if isinstance(mark, Mapping) else entry
    value = mark.get("last_modified") or entry.get("replication_key_value")
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
