"""Batches -> the types of a warehouse; rows that are refused, found and left out."""

from __future__ import annotations

import abc
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.batch.files import read_file
from singer_arrow.batch.message import Ranks
from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.spelling import (
    collect_truncated,
    set_column,
    to_microseconds,
    warn_truncated,
    without_exponents,
)
from singer_arrow.enforcement.bad_rows import row_to_json, rows_except
from singer_arrow.errors import DataError, LoadError
from singer_arrow.load.dead_letters import Rejects
from singer_arrow.load.method import Item
from singer_arrow.load.staging import Extents
from singer_arrow.schema.arrow_schema import JSON_METADATA
from singer_arrow.storage.store import Storage

# Which of many rows are refused, where only whole ranges of them can be tried: by halving them. Pure.

MOST_REFUSED = 20
"""Rows of one load that are looked for in a warehouse, where each takes some loads to be found."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why some rows were refused."""

    reason: str
    column: str | None = None  # if it is known
    row: int | None = None  # that the warehouse names, from 0, of all; it is tried alone first
    is_of_value: bool = True  # False: it may be for something that all rows share


Probe = Callable[[int, int], Refusal | None]
"""Tries the rows from a first one to a last one (exclusive); None: they are taken."""


class TooManyRefusedError(Exception):
    """More rows are refused than the `most` that are looked for; `found` are those that are known."""

    def __init__(self, found: list[tuple[int, Refusal]], most: int) -> None:
        super().__init__(len(found))
        self.found, self.most = found, most

    def of_load(self, error: Exception, warehouse: str) -> LoadError:
        """Return the error of the load whose rows were searched, with the error of the warehouse."""
        hint = f"{warehouse} refuses more than {self.most} rows of one load, and no more are looked for"
        return LoadError(f"{error}; {hint}. The first of them: {self.found[0][1].reason}")


def refused_rows(
    count: int, probe: Probe, *, most: int = MOST_REFUSED, first: Refusal | None = None
) -> list[tuple[int, Refusal]]:
    """Return the rows that are refused, each also alone, in order, with the reasons.

    With `b` refused rows of `n`, it tries about `2 * b * log2(n / b)` ranges, or `3 * b` where the refusals name rows.
    `first` is the error of all rows together; without it, they are tried. A single row is tried again. The result is
    empty if all are taken, or are taken in smaller ranges: then it is not a row that is refused. TooManyRefusedError:
    more than `most`.
    """
    found = dict[int, Refusal]()
    pieces: list[tuple[int, int, Refusal | None]] = [(0, count, first if count > 1 else None)]
    while pieces:
        low, high, refusal = pieces.pop()
        refusal = refusal if refusal or low >= high else probe(low, high)
        if refusal is None:
            continue
        named = refusal.row
        if high - low == 1:
            found[low] = refusal
        elif named is not None and low <= named < high and (alone := probe(named, named + 1)):
            found[named] = alone
            pieces += [(named + 1, high, None), (low, named, None)]
        else:
            middle = (low + high) // 2
            pieces += [(middle, high, None), (low, middle, None)]
        if len(found) > most:
            raise TooManyRefusedError(sorted(found.items()), most)
    return sorted(found.items())


def refused_of_each(found: Iterable[tuple[int, Refusal]], counts: Sequence[int]) -> list[dict[int, Refusal]]:
    """Return the refused rows of each of several parts, of `counts` rows, by their numbers within it."""
    found, before, each = list(found), 0, list[dict[int, Refusal]]()
    for count in counts:
        each.append({row - before: why for row, why in found if before <= row < before + count})
        before += count
    return each


# Convert batches of a batch file for upload: names and types of the table's columns, added columns.

ORDER = "_sdc_order"
"""The column that holds the place of a row among those of its stream, where that matters."""
RANK = "_sdc_rank"
"""The column that holds the rank of a row, in tables whose rows are merged; see `batch.message`."""
ORDER_BITS = 36
"""A row's place: the place of its item among those of the stream, then this many bits for its place in the item."""


@dataclass(frozen=True, slots=True)
class UploadColumn:
    """A column of a table that the stream fills; each warehouse adds what its types need."""

    name: str
    source: str  # the property that fills it
    kind: str  # the warehouse's type, without its size
    arrow: pa.DataType  # what it is uploaded as
    variant_of: str | None = field(default=None, kw_only=True)  # its property's own column, whose type does not fit
    json_kind: ClassVar[str | None] = None  # the warehouse's type of JSON

    @property
    def upload_field(self) -> pa.Field:
        """The column in an upload; JSON text is marked as such."""
        return pa.field(self.name, self.arrow, metadata=JSON_METADATA if self.kind == self.json_kind else None)


BatchPreparation = Callable[[pa.RecordBatch, str, int, bool], pa.RecordBatch]
"""Prepares a batch of a file, so many rows into it, for example replaces characters that the warehouse lacks.

A DataError names the column. True: it is only a trial, without log lines and counts.
"""
ColumnT = TypeVar("ColumnT", bound=UploadColumn)


class CutDigits:
    """Warns of the columns of a stream whose digits beyond microseconds are cut off, of each once."""

    def __init__(self, stream: str, logger: logging.Logger) -> None:
        self._stream, self._logger = stream, logger
        self._warned = set[str]()

    def warn(self, cuts: Mapping[str, str]) -> None:
        """Log the columns of `cuts`, with the first value of each, that were not logged before."""
        keepers = "to keep them, set the type of the column to string in the tap"
        warn_truncated(self._logger, f"Stream {self._stream!r}", cuts, self._warned, keepers)


@dataclass(frozen=True, slots=True)
class _At:
    """Position of a batch: its file, the number of its rows before it, and of the item's converted rows before it."""

    url: str
    before: int
    row: int


@dataclass(frozen=True, slots=True)
class Conversion(abc.ABC, Generic[ColumnT]):
    """Convert the batches of one item for upload; each warehouse implements how a column is read and checked."""

    columns: tuple[ColumnT, ...]
    given: pa.Schema  # of the SCHEMA message
    constants: Mapping[str, Any] = field(default_factory=dict)  # of columns that the files do not hold, by property
    keys: tuple[str, ...] = ()  # properties that must not be null
    place: int | None = None  # number of the item in its stream, if the rows get a column with their order
    required: frozenset[str] = frozenset()  # also not null, as their columns are NOT NULL
    extents: Extents | None = None  # collects the ranges of the values of the last conversion
    ranks: Ranks = ()  # if not all rows have the same; else that is one of the constants
    never_null: frozenset[str] = frozenset()  # by the SCHEMA, nor may they be missing
    cut: CutDigits | None = None  # collects the columns whose digits are cut off; None: no warning

    @property
    def rank_texts(self) -> set[str]:
        constant = self.constants.get(RANK)
        return {rank for runs in self.ranks for _, rank in runs} or ({constant} if constant else set())

    @abc.abstractmethod
    def read_field(self, column: ColumnT) -> pa.Field:
        """Return the field that a column is read as: named as the property, with a type that holds all its values."""

    def check(self, array: pa.Array, column: ColumnT, url: str) -> None:
        """Check that the warehouse takes the values of a column; the DataError names the file and the column."""

    def array(self, array: pa.Array, column: ColumnT) -> pa.Array:
        """Convert the values of a column for upload; nanoseconds are rounded down to microseconds.

        Decimals in a text column are written without an exponent. Dates in a timestamp column become midnights in UTC,
        and integers in a float column become floats; pa.ArrowInvalid if that does not hold one: up to 2^53 it does.
        """
        if array.type == column.arrow:
            at = self.given.get_field_index(column.source)
            is_decimal = at >= 0 and pt.is_decimal(self.given.field(at).type)
            return without_exponents(array) if is_decimal and pt.is_string(column.arrow) else array
        array = _fit_leaves(array, column.arrow)
        if pt.is_date(array.type) or pt.is_null(array.type):
            return array.cast(column.arrow)
        return array if array.type == column.arrow else array.view(column.arrow)

    @property
    def read_schema(self) -> pa.Schema:
        return pa.schema([self.read_field(c) for c in self.columns if c.source not in self.constants])

    @property
    def upload_schema(self) -> pa.Schema:
        schema = pa.schema([c.upload_field for c in self.columns])
        return schema if self.place is None else schema.append(pa.field(ORDER, pa.int64()))

    def all_batches(
        self,
        sources: Iterable[tuple[str, Iterable[pa.RecordBatch]]],
        *,
        prepare: BatchPreparation | None = None,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Convert the batches of all files of the item, in order, each after `prepare`.

        `rejects` collects rows that cannot be loaded (a key is null, `check` or `prepare` refuses a value); these are
        left out. Without it, or for more rows than it allows, DataError is raised.
        """
        schema, rows = self.upload_schema, 0
        if self.extents:
            self.extents.begin()
        for number, (url, batches) in enumerate(sources):
            before = left = 0
            for held in batches:
                at, batch = _At(url, before, rows), held
                if self.ranks:
                    skipped = rejects.skipped(url) if rejects is not None else ()
                    ranks = _rank_array(self.ranks[number], before, held.num_rows, skipped)
                    batch = held.append_column(pa.field(RANK, pa.string()), ranks)
                try:
                    made = self._convert(batch, at, prepare, schema)
                except DataError as error:
                    if rejects is None or rejects.most is None:
                        if error.row is None and error.line is None:  # the row is looked for
                            bad = self._bad(batch, at, prepare, schema, 0)
                            error = next((bad[row].placed(url, row=before + row + 1) for row in bad), error)
                        raise error from None
                    bad = self._bad(batch, at, prepare, schema, rejects.most)
                    given = batch.select(batch.schema.names[:-1]) if self.ranks else batch
                    for row, why in bad.items():
                        rejects.leave_out(url, before + row, why, row_to_json(given, row))
                    good = batch.take(rows_except(batch.num_rows, pa.array(list(bad), pa.int64())))
                    made = self._convert(good, at, prepare, schema)
                if self.extents:
                    self.extents.add(made)
                if made.num_rows or not batch.num_rows:
                    yield made
                before += batch.num_rows
                left += made.num_rows
                rows += made.num_rows
            if rejects is not None:
                rejects.count_kept(url, left)

    def _convert(
        self,
        batch: pa.RecordBatch,
        at: _At,
        prepare: BatchPreparation | None,
        schema: pa.Schema,
        *,
        is_trial: bool = False,
    ) -> pa.RecordBatch:
        if prepare is not None:
            batch = prepare(batch, at.url, at.before, is_trial)
        with collect_truncated(self.keys) as cuts:
            made = self._converted(batch, at, schema)
        if cuts and self.cut is not None and not is_trial:
            self.cut.warn(cuts)
        return made

    def _converted(self, batch: pa.RecordBatch, at: _At, schema: pa.Schema) -> pa.RecordBatch:
        arrays = list[pa.Array]()
        for column in self.columns:
            set_column(column.source)
            if column.source in self.constants and not (self.ranks and column.source == RANK):
                value = pa.scalar(self.constants[column.source], column.arrow)
                arrays.append(pa.repeat(value, batch.num_rows))
                continue
            array = batch.column(batch.schema.get_field_index(column.source))
            if array.null_count and (
                column.source in self.keys or column.source in self.required or column.source in self.never_null
            ):
                row = at.before + pc.index(array.is_null(), True).as_py() + 1
                if column.source in self.keys:
                    reason, hint = "a key property is null", "Set other key_properties, or load_method: append-only"
                elif column.source in self.never_null:
                    reason, hint = "it is null or missing, and the SCHEMA requires it", "Correct it in the tap"
                else:
                    reason = f"it is null, and column {column.name!r} of the table must not be"
                    hint = "Let the table's column be null, or correct it in the tap"
                raise DataError(reason, url=at.url, row=row, column=column.source, hint=hint)
            self.check(array, column, at.url)
            try:
                arrays.append(self.array(array, column))
            except pa.ArrowInvalid as error:
                reason = (
                    f"{' '.join(str(error).split())}, so column {column.name!r} of the table cannot hold it exactly"
                )
                hint = "Set its type to string in the tap's schema: such values go into a column of their own"
                raise DataError(reason, url=at.url, column=column.source, hint=hint) from None
            except ValueError as error:  # a key would lose digits
                reason = f"the key {error}, which no column of the warehouse holds, so it could become another row's"
                hint = "Set its type to string in the tap, choose other keys, or set load_method: append-only"
                raise DataError(reason, url=at.url, column=column.source, hint=hint) from None
        if self.place is not None:
            ones = pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
            arrays.append(pc.add(pc.cumulative_sum(ones), (self.place << ORDER_BITS) + at.row - 1))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _bad(
        self, batch: pa.RecordBatch, at: _At, prepare: BatchPreparation | None, schema: pa.Schema, most: int
    ) -> dict[int, DataError]:
        """Return the rows of a batch that cannot be loaded, in order; at most one more than `most`."""
        errors = dict[int, DataError]()

        def probe(low: int, high: int) -> Refusal | None:
            try:
                rows = batch.take(pa.array(range(low, high), pa.int64()))
                self._convert(rows, at, prepare, schema, is_trial=True)
            except DataError as error:
                errors[low] = error
                return Refusal(error.reason)
            return None

        try:
            found = refused_rows(batch.num_rows, probe, most=most)
        except TooManyRefusedError as error:
            found = error.found
        return {row: errors[row] for row, _ in found}


def converted_batches(
    item: Item[Any], storage: Storage, *, prepare: BatchPreparation | None = None, rejects: Rejects | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an item's files as uploads have them; `rejects` is reset, and collects those that are left out.

    Without it, the first row that cannot be loaded is an error.
    """
    conversion = item.conversion
    read_schema = conversion.read_schema
    if rejects is not None:
        rejects.reset()

    def rows(url: str) -> Iterator[pa.RecordBatch]:
        return read_file(
            storage,
            url,
            format=item.file_format,
            schema=read_schema,
            on_skip=rejects.skip_callback(url) if rejects is not None else None,
            is_counted=item.rows is not None,
            properties=item.properties,
            exact=conversion.keys,
        )

    sources = ((url, rows(url)) for url in item.urls)
    made: Iterator[pa.RecordBatch] = conversion.all_batches(sources, prepare=prepare, rejects=rejects)
    return made


def _rank_array(runs: Sequence[tuple[int | None, str]], before: int, count: int, skipped: Sequence[int]) -> pa.Array:
    """Return the ranks of `count` rows of a file, after `before` others; `runs` are those of all rows in the file.

    `skipped` are positions of rows that were not read, from 1, in order.
    """
    parts, end, first = list[pa.Array](), 0, before
    for rows, rank in runs:
        end = end + rows if rows is not None else before + count + len(skipped)
        last = min(end - bisect_right(skipped, end), before + count)
        if last > first:
            parts.append(pa.repeat(pa.scalar(rank, pa.string()), last - first))
            first = last
    return pa.concat_arrays([*parts, pa.nulls(before + count - first, pa.string())])


def _fit_leaves(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert integers to floats where the type has floats, and nanoseconds to microseconds, at any depth."""
    t = array.type
    if pt.is_integer(t) and pt.is_floating(target):
        return array.cast(target)
    if (pt.is_timestamp(t) or pt.is_time(t)) and t.unit == "ns":
        return to_microseconds(array)
    if pt.is_struct(t) and pt.is_struct(target) and t.num_fields == target.num_fields:
        made = [_fit_leaves(child, target.field(n).type) for n, child in enumerate(array.flatten())]
        if all(child.type == f.type for child, f in zip(made, t, strict=True)):
            return array
        fields = [f.with_type(child.type) for child, f in zip(made, t, strict=True)]
        return pa.StructArray.from_arrays(made, fields=fields, mask=array.is_null())
    if pt.is_list(t) and pt.is_list(target):
        values = _fit_leaves(array.flatten(), target.value_type)
        if values.type == t.value_type:
            return array
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        ends = pc.cumulative_sum(lengths)
        starts = pc.if_else(array.is_valid(), pc.subtract(ends, lengths), None)
        offsets = pa.concat_arrays([starts, pa.array([len(values)], starts.type)])
        return pa.ListArray.from_arrays(offsets, values, type=pa.list_(t.value_field.with_type(values.type)))
    return array


def fit_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches in exactly that schema, column by column."""
    for batch in batches:
        pairs = zip(batch.columns, schema, strict=True)
        arrays = [array if array.type == field.type else fit(array, field) for array, field in pairs]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


# Converted rows on local disk, from which any range can be read: Arrow's own file format, compressed by LZ4. Rows wait
# here until their group is complete and it is known into how many files they go.

_BATCH_BYTES = 16 << 20  # approximate size of a batch in a file; a reader holds one batch of a file at a time


@dataclass(frozen=True, slots=True)
class Spool:
    """A file of rows: the rows of each batch in it, their size in memory and that of the file."""

    path: Path
    schema: pa.Schema
    counts: tuple[int, ...]
    memory_bytes: int
    bytes: int

    @property
    def rows(self) -> int:
        return sum(self.counts)


def write_spool(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path) -> Spool:
    """Write batches of exactly `schema`, one in memory at a time."""
    counts, size = [], 0
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
        for batch in batches:
            step = max(1, batch.num_rows * _BATCH_BYTES // max(1, batch.nbytes))
            size += batch.nbytes
            for start in range(0, batch.num_rows, step):
                part = batch.slice(start, step)
                writer.write_batch(part)
                counts.append(part.num_rows)
    return Spool(path, schema, tuple(counts), size, path.stat().st_size)


def read_spools(spools: Sequence[Spool], start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows from `start` to `end` (exclusive) of the files, as if they were one."""
    first = 0
    for spool in spools:
        if first < end and start < first + spool.rows:
            with pa.memory_map(str(spool.path)) as source:
                reader, before = pa.ipc.open_file(source), first
                for number, count in enumerate(spool.counts):
                    low, high = max(start - before, 0), min(end - before, count)
                    if low < high:
                        yield reader.get_batch(number).slice(low, high - low)
                    before += count
        first += spool.rows


# Converted rows without those that a warehouse refuses.


PartT = TypeVar("PartT", bound=Any)
"""A part of a group, a dataclass with its `rows`, their `spool` and its `rejects`."""


def without_refused(
    parts: Sequence[PartT], found: Iterable[tuple[int, Refusal]], temporary: Callable[[str], Path]
) -> list[PartT]:
    """Return the parts of a group without the rows that are refused, by their numbers among all; new spools hold them.

    `temporary` returns a new path with a suffix.
    """
    made = list(parts)
    each = refused_of_each(found, [part.rows for part in parts])
    for number, (part, refused) in enumerate(zip(parts, each, strict=True)):
        if refused and part.spool and part.rejects is not None:
            rows = taken_rows(read_spools([part.spool], 0, part.spool.rows), refused, part.rejects)
            rest = write_spool(rows, part.spool.schema, temporary(".arrow"))
            part.spool.path.unlink(missing_ok=True)
            made[number] = replace(part, rows=rest.rows, bytes=rest.bytes, spool=rest)
    return made


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
