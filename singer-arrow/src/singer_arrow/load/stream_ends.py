"""Where streams begin and end in the input, and which tables may be replaced at its end. Pure.

The end of the input is no proof that a stream is complete: Meltano, like any shell, closes a loader's input whatever
the exit code of the extractor. Taps of this project therefore mark the end of each stream:

- every SCHEMA message has the top-level key `"end_of_stream": true`: this tap marks the end of this stream;
- once all of a stream was sent, one more STATE message with the current value has the top-level key
  `"end_of_stream": "<name>"`, with the stream's name as in its SCHEMA, also if the stream had nothing new. Where STATE
  is large, one message marks the ends of several streams, by a list of names, and may come behind rows of another one.

SCHEMA messages also have `"sent_whole"`: whether the run sends all of the stream. With `false` it sends what is new
since its STATE, and no table may be replaced by that alone.

A run that sends a part of a stream, while other runs send the rest, adds `"shard": "0/4"` to its SCHEMA messages: no
table may be replaced then, and no row by its key, as the end of a stream is that of the part.

The load method that the tap's settings give a stream is its `"load_method"`; the target's own setting comes first.

Other targets ignore these keys. For a stream without the announcement, the end of the input counts as its end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from singer_arrow.errors import ConfigError, IdentityError

KEY = "end_of_stream"
"""The top-level key of SCHEMA and STATE messages."""
SHARD = "shard"
"""The top-level key of SCHEMA messages of runs that send a part of a stream."""
METHOD = "load_method"
"""The top-level key of SCHEMA messages: the load method of the stream, where the target's settings have none."""
ONLY = "SINGER_ARROW_ONLY"
"""The variable of runs of some streams of a pipeline, where a target's settings may name streams that do not come."""
WHOLE = "sent_whole"
"""The top-level key of SCHEMA messages: whether the run sends all of the stream."""
REPLICATION, FULL_TABLE = "replication_method", "FULL_TABLE"
"""The top-level key of SCHEMA messages of a full table, and its value: the table is empty if no row comes."""


def is_announced(schema_message: Mapping[str, Any]) -> bool:
    """Return whether a SCHEMA message announces that the end of its stream will be marked."""
    return schema_message.get(KEY) is True


def sent_load_method(schema_message: Mapping[str, Any]) -> str | None:
    """Return the load method that the tap sends with a SCHEMA message, or raise ConfigError if there is no such."""
    if (sent := schema_message.get(METHOD)) not in (None, "append-only", "upsert", "overwrite"):
        raise ConfigError(
            f"Stream {schema_message['stream']!r} comes with {METHOD} {repr(sent)[:60]}, which must be append-only, "
            "upsert or overwrite; correct it in the tap, or set the target's load_method"
        )
    return sent


def check_load_method(schema_message: Mapping[str, Any], load_method: str | None) -> None:
    """Check that a SCHEMA message may be loaded by a load method.

    ConfigError: it is of a run that sends a part of the stream, which can only be appended. IdentityError: it is of a
    run that sends what is new, which must not replace a table.
    """
    if load_method == "overwrite" and schema_message.get(WHOLE) is False:
        raise IdentityError(
            f"Stream {schema_message['stream']!r} comes with what is new since its STATE alone, and setting "
            "'load_method' is overwrite: the table would lose all else, so it is left as it is. Set the stream's "
            "replication_method to FULL_TABLE in the tap, or run it without STATE, or set load_method to append-only "
            "or upsert"
        )
    if (shard := schema_message.get(SHARD)) is not None and load_method != "append-only":
        raise ConfigError(
            f"Stream {schema_message['stream']!r} comes as shard {shard}, a part of its rows, and setting "
            f"'load_method' is {load_method}; set it to append-only, or run the tap without 'shard'"
        )


def ended_streams(state_message: Mapping[str, Any]) -> list[str]:
    """Return the streams whose ends a STATE message marks."""
    names = state_message.get(KEY)
    return [name for name in (names if isinstance(names, list) else [names]) if isinstance(name, str)]


@dataclass(slots=True)
class StreamSpan:
    """The part of the input that a stream takes, as tokens of `Checkpoints`."""

    first: int  # of its first announcing SCHEMA; its rows have greater ones
    end: int | None = None  # the last one before its end mark; None while that is missing


class StreamEnds:
    """The spans of all announced streams of a run."""

    def __init__(self) -> None:
        self._spans: dict[str, StreamSpan] = {}
        self.states: list[int] = []  # for each STATE the last token before it, ascending

    def begin(self, stream: str, token: int) -> None:
        """Note an announcing SCHEMA; after an end mark, it begins the stream again, and another mark must follow."""
        self._spans.setdefault(stream, StreamSpan(token)).end = None

    def state(self, token: int, ended: Iterable[str] = ()) -> None:
        """Note a STATE after the last token before it, and the announced streams whose ends it marks."""
        if not self.states or self.states[-1] != token:
            self.states.append(token)
        for span in (self._spans[stream] for stream in ended if stream in self._spans):
            span.end = token

    def unfinished(self) -> list[str]:
        """Return the announced streams without an end mark, in the order of the input."""
        return [stream for stream, span in self._spans.items() if span.end is None]

    def span(self, streams: Collection[str], last: int) -> StreamSpan | None:
        """Return the span of a table that these streams go to; None if no stream of them is announced.

        `last` is the last token of the table's rows: rows after the end mark need another mark.
        """
        spans = [self._spans[stream] for stream in streams if stream in self._spans]
        if not spans:
            return None
        ends = [span.end for span in spans if span.end is not None]
        is_complete = len(ends) == len(spans) and last <= max(ends)
        return StreamSpan(min(span.first for span in spans), max(ends) if is_complete else None)


def kept_tables(spans: Mapping[str, StreamSpan], states: Sequence[int]) -> set[str]:
    """Return the tables that must not be replaced: those of unfinished streams, and those that share their STATE.

    The rows of an unfinished stream never become durable, so the last of the STATEs that leaves precedes the first of
    them. A finished stream whose span that STATE would cut must wait too: the next run sends only the rest of it, which
    would then replace all of it. Streams that are finished before that STATE, or begin after it, are replaced.
    """
    kept = {name for name, span in spans.items() if span.end is None}
    while kept:
        first = min(spans[name].first for name in kept)
        leaves = states[at - 1] if (at := bisect_left(states, first)) else -1
        cut = {n for n, s in spans.items() if n not in kept and s.end is not None and s.first <= leaves < s.end}
        if not cut:
            break
        kept |= cut
    return kept
