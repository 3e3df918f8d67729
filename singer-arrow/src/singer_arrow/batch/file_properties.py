"""Which properties the files of a stream must have, by its SCHEMA, and which of theirs are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.to_json import is_list
from singer_arrow.errors import DataError
from singer_arrow.read_progress import ReadProgress
from singer_arrow.schema.arrow_schema import is_json

_HINT = "Correct the file, or the SCHEMA of the tap: names must be the same, also in case"
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class FileProperties:
    """What is required of the files of a stream; `report` takes a file and how many values are left out, by path."""

    required: Collection[str] = ()  # each file must have them
    known: Collection[str] = ()  # left out on purpose
    report: Callable[[str, Mapping[str, int]], None] = lambda _url, _counts: None

    def check(self, file: pa.Schema, rows: int, read: pa.Schema, url: str) -> None:
        """Check the schema of a columnar file before it is loaded, and report what is left out.

        Raises DataError if it has no property of `read`, the schema for it, or lacks one that is required.
        """
        if not rows:
            return
        if len(read) and set(file.names).isdisjoint(read.names):
            raise _nothing_shared(file.names, url)
        for name in read.names:
            if name in self.required and name not in file.names:
                reason = "the file lacks it, and the SCHEMA requires it"
                raise DataError(reason, url=url, column=name, hint=_HINT)
        if paths := [p for p in _unknown(file, {f.name: f for f in read}, "") if p not in self.known]:
            self.report(url, dict.fromkeys(paths, rows))

    def checked(
        self, batches: Iterator[pa.RecordBatch], progress: ReadProgress, read: pa.Schema, url: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, once it is known that it has properties of the SCHEMA; report what is left out."""
        waiting: list[pa.RecordBatch] | None = []
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            if waiting is None:
                yield batch
                continue
            waiting.append(batch)
            if progress.file_schema is not None:
                self.check(progress.file_schema, rows, read, url)
            if progress.file_schema is not None or any(c.null_count < len(c) for c in batch.columns):
                yield from waiting
                waiting = None
        if progress.left_out and waiting and len(read):
            raise _nothing_shared(progress.left_out, url)
        yield from waiting or ()
        if progress.file_schema is not None and rows:
            self.check(progress.file_schema, rows, read, url)
        elif progress.left_out:
            self.report(url, progress.left_out)


def _nothing_shared(names: Collection[str], url: str) -> DataError:
    listed = ", ".join(repr(name) for name in list(names)[:_MOST_NAMED])
    reason = f"it has none of the properties of its SCHEMA, but {listed}{', ...' if len(names) > _MOST_NAMED else ''}"
    return DataError(reason, url=url, hint=_HINT)


def _unknown(file: Collection[pa.Field], read: Mapping[str, pa.Field], path: str) -> Iterator[str]:
    """Yield the paths of fields of a file that are not read."""
    for field in file:
        if pt.is_null(field.type):
            continue
        if (own := read.get(field.name)) is None:
            yield f"{path}{field.name}"
        elif not is_json(own):
            yield from _unknown_members(field.type, own.type, f"{path}{field.name}.")


def _unknown_members(t: pa.DataType, own: pa.DataType, path: str) -> Iterator[str]:
    if pt.is_struct(t) and pt.is_struct(own):
        yield from _unknown(t, {f.name: f for f in own}, path)
    elif is_list(t) and is_list(own):
        yield from _unknown_members(t.value_type, own.value_type, path)
    elif pt.is_map(t) and pt.is_map(own):
        yield from _unknown_members(t.item_type, own.item_type, path)


class LeftOut:
    """Counts of values that are left out, by path, of each file and of the records."""

    def __init__(self) -> None:
        self._of: dict[str, Mapping[str, int]] = {}
        self._records = Counter[str]()

    def of_file(self, url: str, counts: Mapping[str, int]) -> None:
        """Set the counts of a file, which may be read more than once."""
        self._of[url] = counts

    def of_records(self, counts: Mapping[str, int]) -> None:
        """Add counts of records."""
        self._records.update(counts)

    def total(self) -> Counter[str]:
        """Return the sums."""
        total = Counter(self._records)
        for counts in list(self._of.values()):
            total.update(counts)
        return total
