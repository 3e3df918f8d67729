"""Which schema the rows of a segment have, and how it changes when files no longer fit it.

A segment is finished with the schema that it was planned with, so that its batches keep their ids whatever discovery
says by now. Where a file does not fit it, the schema changes from that row on; the change is noted beside the segment
before anything leaves under it, so that a run that repeats this one changes at the same row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa

from singer_arrow.errors import DataError, DriftError
from singer_arrow.schema import to_json_schema
from tap_s3_files.plan import Segment, Todo
from tap_s3_files.store import Change

logger = logging.getLogger("tap-s3-files")
Schema = Mapping[str, Any]


class Notes(Protocol):
    """Where changes are kept."""

    def read_changes(self, number: int) -> list[Change]:
        """Those of a segment, in order."""

    def write_change(self, number: int, place: int, change: Change) -> Change:
        """Keep one; the one that counts is returned."""


class Schemas:
    """The schemas of one stream in one run.

    Args:
        schema: What is selected, as the run began.
        shape: Stands for the settings that decide where columns come from.
        notes: Where changes are kept; None: nowhere.
        keys: Columns that may not be null.
        fixed: Columns whose types the settings say; they do not change.
        evolves: Whether files may change the schema.
    """

    def __init__(
        self,
        schema: Schema,
        shape: str,
        notes: Notes | None,
        *,
        keys: Sequence[str] = (),
        fixed: Iterable[str] = (),
        evolves: bool = True,
    ) -> None:
        self.now = schema
        self._shape, self._notes, self._keys = shape, notes, tuple(keys)
        self._fixed, self._evolves = frozenset(fixed), evolves
        self._changes: dict[int, list[Change]] = {}
        self._new: set[int] = set()

    def dress(self, segment: Segment) -> Segment:
        """A segment that is planned in this run, with the schema of its rows."""
        self._new.add(segment.number)
        self._changes[segment.number] = []
        return replace(segment, schema=self.now, shape=self._shape)

    def is_new(self, segment: Segment) -> bool:
        """Whether a segment is planned in this run."""
        return segment.number in self._new

    def at(self, segment: Segment, task: int, rows: int = 0) -> Schema:
        """The schema from a row of a task of a segment on."""
        if not self._follows(segment):
            return self.now
        schema: Schema = segment.schema or {}
        for change in self._of(segment.number):
            if (change.task, change.rows) <= (task, rows):
                schema = change.schema
        return schema

    def answer(self, error: DataError, todo: Todo, later: Iterable[Segment]) -> None:
        """Change the schema from where a task stands on, so that what failed there may be tried again.

        If this run began with another schema than that of the segment, that one is it: settings or the catalog were
        mended since, or newer files were looked at. Else it is the segment's, with what the file needs.

        Args:
            error: What failed.
            todo: The task that failed, from the last place on that it can begin at.
            later: Segments after it that may be begun already; those planned in this run change too.

        Raises:
            DataError: The error itself, if there is no answer to it.
        """
        segment, task, rows = todo.segment, todo.number, todo.start.rows
        held = self.at(segment, task, rows)
        if held != self.now:
            schema = self.now
        elif self._evolves and isinstance(error, DriftError) and self._fixed.isdisjoint(f.name for f in error.fields):
            schema = evolved(held, error.fields, self._keys)
        else:
            raise error
        if schema == held:  # what the file needs is there, and did not help
            raise error
        logger.warning("%s. The schema changes from here on", str(error).removesuffix(f". {error.hint}"))
        self.now = self._change(segment, Change(task, rows, schema)) if self._follows(segment) else schema
        for other in later:
            if other.number != segment.number and other.number in self._new and self.at(other, 0) != self.now:
                self._change(other, Change(0, 0, self.now))

    def _follows(self, segment: Segment) -> bool:
        return segment.schema is not None and segment.shape == self._shape

    def _change(self, segment: Segment, change: Change) -> Schema:
        known = self._of(segment.number)
        if self._notes is not None:
            change = self._notes.write_change(segment.number, len(known), change)
        known.append(change)
        return change.schema

    def _of(self, number: int) -> list[Change]:
        if number not in self._changes:
            self._changes[number] = self._notes.read_changes(number) if self._notes is not None else []
        return self._changes[number]


def evolved(schema: Schema, fields: Sequence[pa.Field], keys: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON Schema of a stream with some columns added, or with other types. Pure."""
    more = to_json_schema(pa.schema(list(fields)), keys=keys)["properties"]
    return {**schema, "properties": {**schema["properties"], **more}}


def left_out(full: Schema, selected: Schema, path: str = "") -> Iterator[str]:
    """The columns of a JSON Schema that another one lacks, and the members of objects that do, by their paths. Pure."""
    for name, part in full.get("properties", {}).items():
        place = f"{path}{name}"
        kept = selected.get("properties", {}).get(name)
        if kept is None:
            yield place
            continue
        yield from left_out(part, kept, f"{place}.")
    for inner in ("items", "additionalProperties"):
        if isinstance(full.get(inner), Mapping) and isinstance(selected.get(inner), Mapping):
            yield from left_out(full[inner], selected[inner], path)
