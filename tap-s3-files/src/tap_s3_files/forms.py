"""Which form the rows of a segment have, and how it changes when files no longer fit their schema.

A segment is finished in the form that it was planned in, so that its batches keep their ids whatever discovery says and
settings ask for by now. Where that does not do, the form changes from that row on; the change is noted beside the
segment before anything leaves in it, so that a run that repeats this one changes at the same row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa

from singer_arrow.errors import DataError, DriftError
from singer_arrow.json_schema import to_json_schema
from tap_s3_files.plan import Form, Segment, Todo
from tap_s3_files.store import Change

logger = logging.getLogger("tap-s3-files")


class Notes(Protocol):
    """Where changes are kept."""

    def read_changes(self, number: int) -> list[Change]:
        """Those of a segment, in order."""

    def write_change(self, number: int, place: int, change: Change) -> Change:
        """Keep one; the one that counts is returned."""


class Forms:
    """The forms of one stream's rows in one run.

    Args:
        form: As catalog and settings say when the run begins.
        notes: Where changes are kept; None: nowhere.
        keys: Columns that may not be null.
        types: Columns whose types the settings say: they do not change.
        own: Columns that are not the files'.
    """

    def __init__(
        self,
        form: Form,
        notes: Notes | None,
        *,
        keys: Sequence[str] = (),
        types: Mapping[str, pa.Field] | None = None,
        own: Iterable[str] = (),
    ) -> None:
        self.now = form
        self._notes, self._keys = notes, tuple(keys)
        self._types, self._own = types or {}, frozenset(own)
        self._changes: dict[int, list[Change]] = {}
        self._new: set[int] = set()

    def dress(self, segment: Segment) -> Segment:
        """A segment that is planned in this run, with the form of its rows."""
        self._new.add(segment.number)
        return replace(segment, form=self.now)

    def is_new(self, segment: Segment) -> bool:
        """Whether a segment is planned in this run."""
        return segment.number in self._new

    def at(self, segment: Segment, task: int, rows: int = 0) -> Form:
        """The form from a row of a task of a segment on.

        A segment without one, or whose columns came from elsewhere, gets that of this run; that is noted like a change.
        """
        form = segment.form if segment.form and segment.form.shape == self.now.shape else None
        for change in self._of(segment):
            if (change.task, change.rows) <= (task, rows):
                form = change.form
        return form or self._change(segment, 0, 0, self.now)

    def ends(self, todo: Todo) -> list[int]:
        """The rows of a task, after where it begins, from which on it has other forms."""
        changes = (c.rows for c in self._of(todo.segment) if c.task == todo.number)
        return sorted({rows for rows in changes if rows > todo.start.rows})

    def answer(self, error: DataError, todo: Todo) -> None:
        """Change the form from where a task stands on, so that what failed there may be tried again.

        If this run began with another form than that of the segment, that one is it: settings or the catalog were
        mended since, or newer files were looked at. Else it is the segment's, with what the file needs. Segments that
        are planned already keep theirs: another run may have sent of them.

        Args:
            error: What failed.
            todo: The task that failed, from the last place on that it can begin at.

        Raises:
            DataError: The error itself, if there is no answer to it.
        """
        segment, task, rows = todo.segment, todo.number, todo.start.rows
        held = self.at(segment, task, rows)
        form = self.now if held != self.now else self._wider(held, error)
        if form == held:  # what the file needs is there, and did not help
            raise error
        logger.warning("%s. The schema changes from here on", str(error).removesuffix(f". {error.hint}"))
        self.now = self._change(segment, task, rows, form)

    def _wider(self, held: Form, error: DataError) -> Form:
        if held.on_drift != "evolve" or not isinstance(error, DriftError):
            return held
        known = held.schema["properties"]
        if any(f.name in self._own or (f.name in self._types and f.name in known) for f in error.fields):
            return held
        fields = [self._types.get(f.name, f) for f in error.fields]
        return replace(held, schema=evolved(held.schema, fields, self._keys))

    def _change(self, segment: Segment, task: int, rows: int, form: Form) -> Form:
        change, known = Change(task, rows, form), self._noted(segment.number)
        if self._notes is not None:
            change = self._notes.write_change(segment.number, len(known), change)
        known.append(change)
        return change.form

    def _of(self, segment: Segment) -> list[Change]:
        changes = (c for c in self._noted(segment.number) if c.form.shape == self.now.shape)
        return sorted(changes, key=lambda c: (c.task, c.rows))  # of those at one place the last one counts

    def _noted(self, number: int) -> list[Change]:
        if number not in self._changes:
            self._changes[number] = self._notes.read_changes(number) if self._notes is not None else []
        return self._changes[number]


def evolved(schema: Mapping[str, Any], fields: Sequence[pa.Field], keys: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON Schema of a stream with some columns added, or with other types. Pure."""
    more = to_json_schema(pa.schema(list(fields)), keys=keys)["properties"]
    return {**schema, "properties": {**schema["properties"], **more}}


def left_out(full: Mapping[str, Any], selected: Mapping[str, Any], path: str = "") -> Iterator[str]:
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
