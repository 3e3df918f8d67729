"""What happens to tables at the end of the input: those of finished streams are replaced, the others are kept.

Only with load methods that replace a table (`deferred` ones). With the others every row is in the table already, and an
unfinished stream only causes a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from singer_arrow.errors import UnfinishedStreamError
from singer_arrow.load.checkpoint import Checkpoints
from singer_arrow.load.load_method import AnyLoadMethod
from singer_arrow.load.scheduler import LoadScheduler
from singer_arrow.load.stream_ends import StreamEnds, StreamSpan, kept_tables


class Finishing:
    """The deferred load methods of a run, and the streams of the input that fill them.

    An announced stream with a deferred load method holds back each STATE from its first SCHEMA until its table is
    replaced.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._methods: list[tuple[str, AnyLoadMethod]] = []  # also of sinks that the SDK has dropped meanwhile
        self._ends = StreamEnds()
        self._tables: dict[str, set[str]] = {}
        self._tokens: dict[str, list[int]] = {}
        self._kept: set[str] = set()
        self._unfinished: list[str] = []

    def defer(self, table: str, method: AnyLoadMethod) -> None:
        """Add a load method to finish at the end of the input; a table has one for each of its SCHEMAs."""
        self._methods.append((table, method))

    def begin(self, stream: str, tables: Collection[str]) -> None:
        """Note a SCHEMA that announces an end mark, and the stream names of the sinks that its rows go to."""
        self._tables.setdefault(stream, set()).update(tables)
        if any(table in self._tables[stream] for table, _ in self._methods):
            self._tokens.setdefault(stream, []).append(self._checkpoints.open())
        self._ends.begin(stream, self._checkpoints.newest)

    def tables_of(self, stream: str) -> Collection[str]:
        """Return the sinks that the rows of an announced stream go to."""
        return self._tables.get(stream, ())

    def end(self, stream: str) -> None:
        """Note the end mark of a stream, whose rows all have their tokens."""
        self._ends.end(stream, self._checkpoints.newest)

    @property
    def unfinished(self) -> Collection[str]:
        """Return the sinks of announced streams whose end mark is missing, or whose tables were not replaced."""
        return self._kept.union(*(self._tables[stream] for stream in self._ends.unfinished()))

    def finish(self, scheduler: LoadScheduler) -> None:
        """Replace the tables of finished streams; everything that was read has been loaded into staging tables."""
        newest: dict[str, int] = {}
        for table, method in self._methods:
            newest[table] = max(newest.get(table, 0), scheduler.newest_token(method))
        spans = dict[str, StreamSpan]()
        for table, token in newest.items():
            streams = [stream for stream, tables in self._tables.items() if table in tables]
            if (span := self._ends.span(streams, token)) is not None:
                spans[table] = span
        self._kept = kept_tables(spans)
        self._unfinished = [table for table, span in spans.items() if span.end is None]
        for table, method in self._methods:
            if table not in self._kept:
                scheduler.finish(method)
        for stream, tokens in self._tokens.items():
            if not self._tables[stream] & self._kept:
                self._checkpoints.close(tokens)

    def check(self, logger: logging.Logger) -> None:
        """Report the streams that the tap has not finished; called once the STATE of the others is out.

        UnfinishedStreamError: the table of such a stream was to be replaced.
        """
        if self._kept:
            raise UnfinishedStreamError(self._unfinished, sorted(self._kept.difference(self._unfinished)))
        for stream in self._ends.unfinished():
            if self._tables[stream]:
                logger.warning(
                    "Stream %r: the input ended before the tap marked the end of the stream; what came is loaded, and "
                    "the next run continues from the last STATE. See the tap's log for the reason",
                    stream,
                )
