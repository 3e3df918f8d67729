"""Arrow batches <-> batch files; what their properties show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.to_json import is_list
from singer_arrow.errors import DataError, EmptyObjectError, NotFoundError
from singer_arrow.formats import FORMATS, WRITABLE
from singer_arrow.formats.base import HELD_BYTES, WriteOptions
from singer_arrow.read_options import ReadOptions, ReadProgress, Skipped
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import Allowance
from singer_arrow.runtime.process import temporary_folder
from singer_arrow.runtime.threads import ThreadPool
from singer_arrow.schema.arrow_schema import is_json
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

# Bytes of rows in memory, computed from their types and values alone.

_OFFSET = 4


def row_bytes(batch: pa.RecordBatch) -> int:
    """Return the approximate bytes of a batch, determined by types and values alone.

    `RecordBatch.nbytes` also counts optional bitmaps and bytes under nulls, which depend on how the rows were read.
    Here a value counts with the width of its type, and a text with its bytes, so the sizes of slices add up.
    """
    return sum(_bytes(column) for column in batch.columns)


def _bytes(values: pa.Array) -> int:
    import pyarrow.compute as pc

    t = values.type
    if (width := _width(t)) is not None:
        return len(values) * width
    if isinstance(values, pa.ExtensionArray):
        return _bytes(values.storage)
    if pt.is_dictionary(t):
        return _bytes(values.dictionary_decode())
    if pt.is_struct(t):
        return sum(_bytes(part) for part in values.flatten())
    if pt.is_map(t):
        # As a list of pairs; Arrow's cast crashes on slices of maps of objects.
        pairs = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
        t, outer = pa.list_(pairs.type), values.buffers()[:2]
        values = pa.ListArray.from_buffers(t, len(values), outer, offset=values.offset, children=[pairs])
    if pt.is_nested(t):
        offsets, inner = len(values) * _OFFSET, _width(t.value_type)
        if inner is not None:
            return offsets + inner * (pc.sum(pc.list_value_length(values)).as_py() or 0)
        return offsets + _bytes(pc.list_flatten(values))
    if pt.is_string_view(t) or pt.is_binary_view(t):
        values = values.cast(pa.large_binary())
    return len(values) * _OFFSET + (pc.sum(pc.binary_length(values)).as_py() or 0)


def _width(t: pa.DataType) -> int | None:
    """Return the bytes of a value if the type determines them; a null counts as much."""
    if pt.is_null(t):
        return 0
    if pt.is_struct(t):
        parts = [_width(field.type) for field in t]
        return None if None in parts else sum(part for part in parts if part is not None)
    if pt.is_fixed_size_list(t):
        inner = _width(t.value_type)
        return None if inner is None else inner * t.list_size
    if pt.is_dictionary(t) or pt.is_nested(t) or isinstance(t, pa.BaseExtensionType):
        return None
    try:
        return int(-(-t.bit_width // 8))
    except ValueError:
        return None


# Arrow batches -> batch files of a given size.

SUFFIXES = {"parquet": ".parquet", "jsonl": ".jsonl.gz", "arrow": ".arrow"}
ARROW_BYTES_PER_FILE_BYTE = 4
"""Assumed ratio of rows in memory to bytes of a file; fixed, so that the same rows are always split alike."""


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A durable batch file with the rows from `first_row` (from 0) to `first_row + rows`."""

    url: Url
    first_row: int
    rows: int
    bytes: int
    is_last: bool = True
    mark: Any = None  # that of its last batch


def write_batch_files(
    pieces: Iterable[Any],
    schema: pa.Schema,
    *,
    storage: Storage,
    url_of: Callable[[int, int], Url],
    format: str,  # noqa: A002 - the word of the BATCH message
    compression: str | None = None,
    target_bytes: int = 128 << 20,
    first_row: int = 0,
    take: Callable[[Any], tuple[pa.RecordBatch | None, Any]] = lambda batch: (batch, None),
    can_end: Callable[[Any], bool] = lambda _: True,
    held_bytes: int = HELD_BYTES,
    parallel: Allowance | None = None,
) -> Iterator[BatchFile]:
    """Write batch files, each of `ARROW_BYTES_PER_FILE_BYTE` x `target_bytes` in Arrow; yield each once it is durable.

    File boundaries depend on the rows of the batches alone, so every run splits the same batches alike. Files are
    encoded on local disk, a row group in memory at a time, and appear at their URL atomically. One file is uploaded
    while the next one is encoded, so at most two are on local disk. Without batches there is no file. If `pieces`
    raises, the files before are yielded first.

    Args:
        pieces: Batches of exactly `schema`, or what `take` makes a batch of.
        url_of: Returns the URL of a file from its first row and its number of rows.
        format: `parquet`, `jsonl` or `arrow`.
        compression: The codec within the format; None for the format's default.
        target_bytes: Approximate size of a file.
        first_row: Number of the first row.
        take: Called with each piece once it is read; returns its batch, if it has one, and a mark.
        can_end: Whether a file may end at a mark.
        held_bytes: Bytes of rows to hold in memory before encoding them.
        parallel: Limits the bytes of rows that are encoded in parallel, see `WriteOptions`.
    """
    filled = ((batch, mark) for batch, mark in map(take, pieces) if batch is not None and batch.num_rows)
    upcoming: tuple[pa.RecordBatch, Any] | None = None
    rows, last_mark = first_row, None
    options = WriteOptions(compression, held_bytes, parallel)

    def batches_of_a_file() -> Iterator[pa.RecordBatch]:
        """Yield the batches of the next file, and hold no reference to one that was yielded."""
        nonlocal upcoming, rows, last_mark
        size = 0
        while size < target_bytes * ARROW_BYTES_PER_FILE_BYTE or not can_end(last_mark):
            if upcoming is None and (upcoming := next(filled, None)) is None:
                return
            (batch, last_mark), upcoming = upcoming, None
            rows += batch.num_rows
            size += row_bytes(batch)
            yield batch
            del batch

    with temporary_folder("batch-files-") as folder, ThreadPool(1, "upload") as uploads:
        upcoming, number = next(filled, None), 0
        before: tuple[BatchFile, Future[int]] | None = None  # the file before, whose upload returns its bytes
        while upcoming is not None:
            path, first, problem = folder / f"part-{number}{SUFFIXES[format]}", rows, None
            number += 1
            try:
                count = WRITABLE[format].write(batches_of_a_file(), schema, path, options)
            except Exception as error:  # noqa: BLE001 - raised below, after the file before it
                problem = error
            if before is not None:
                yield replace(before[0], bytes=before[1].result(), is_last=False)
            if problem is not None:
                raise problem
            url = url_of(first, count)
            upload = uploads.submit(storage.put_file, url, path)
            before = BatchFile(url, first, count, bytes=0, mark=last_mark), upload
            try:
                upcoming = upcoming or next(filled, None)
            except Exception as error:  # noqa: BLE001 - raised below, after the file before it
                problem = error
            if problem is not None or upcoming is None or upload.done():
                yield replace(before[0], bytes=upload.result(), is_last=upcoming is None and problem is None)
                before = None
            if problem is not None:
                raise problem


# Spools of records: Arrow IPC files of rows that wait on local disk to be loaded; other than `Spool` of `load.convert`.
#
# Their rows were checked when written, and are memory-mapped.

RECORD_SPOOL = "spool"
"""Format name of spool files."""
RECORD_SPOOL_SUFFIX = ".spool"
_SLICE_BYTES = 16 << 20


def write_record_spool(path: Path, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
    """Return a writer of batches; the caller closes it."""
    return pa.ipc.new_file(str(path), schema)


def read_record_spool(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of about 16 MiB."""
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        held, size = list[pa.RecordBatch](), 0
        for number in range(reader.num_record_batches):
            held.append(reader.get_batch(number))
            size += held[-1].nbytes
            if size >= _SLICE_BYTES:
                yield pa.concat_batches(held) if len(held) > 1 else held[0]
                held, size = [], 0
        if held:
            yield pa.concat_batches(held) if len(held) > 1 else held[0]


# Which properties the files of a stream must have, by its SCHEMA, and which of theirs are left out.

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
                raise DataError("the file lacks it, and the SCHEMA requires it", url=url, column=name, hint=_HINT)
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
        elif pt.is_nested(field.type) and not is_json(own):
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


# Batch files -> Arrow batches, also files of other taps and of the SDK's encoders.


def read_file(
    storage: Storage,
    url: str,
    *,
    format: str,  # noqa: A002
    schema: pa.Schema,
    on_skip: Callable[[Skipped], None] | None = None,
    is_counted: bool = False,
    properties: FileProperties | None = None,
    exact: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file of a manifest, in order, in batches of exactly `schema`.

    Columns that the file lacks are null, columns that `schema` lacks are not read. Text columns accept other kinds as
    JSON text, because a JSON Schema of several types becomes text. Decimals with a fraction are rounded where the
    schema has floats, and nanoseconds cut to microseconds, as in text, except in `exact` columns, where such values do
    not fit. Compression is detected by the first bytes, because the SDK's JSONL encoder compresses even without
    `compression`. Rows of the format `spool` already have the schema.

    Rows that do not fit are skipped and passed to `on_skip`; without it such a row is a DataError. Unless rows are
    counted by the caller (`is_counted`), an Arrow stream without an end mark, which may have been cut off, is one too.
    """
    if format == RECORD_SPOOL:
        yield from read_record_spool(Url.parse(url).local_path())
        return
    reader = ObjectReader(storage, Url.parse(url))
    try:
        policy = "fail" if on_skip is None else "dead_letter"
        options = ReadOptions(
            loose_text=True,
            rounds_decimals=True,
            cuts_digits=True,
            exact_columns=frozenset(exact),
            needs_end_mark=not is_counted,
            on_bad_row=policy,
            on_drift="ignore" if properties is None else "count",
            known_columns=None if properties is None else frozenset(properties.known),
        )
        progress = ReadProgress(on_skip=on_skip)
        batches = FORMATS[format].read(reader, schema, options, progress)
        yield from batches if properties is None else properties.checked(batches, progress, schema, url)
    except EmptyObjectError:
        if format != "jsonl":
            msg = f"it is empty, not a file of the format {format!r}"
            raise DataError(msg, url=url, hint="Run the tap again") from None
    except NotFoundError as error:
        raise missing_file(error) from None


def missing_file(error: NotFoundError) -> NotFoundError:
    """Return the error for a missing file of a manifest."""
    msg = (
        f"{error}: a batch file of the manifest is missing; "
        "run the tap again, and keep its batch storage until the target is done"
    )
    return NotFoundError(msg)
