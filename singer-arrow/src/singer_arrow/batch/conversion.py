"""Batches as they are read -> batches as a warehouse gets them: names, microseconds, added columns. Pure."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import DataError

ORDER = "_sdc_order"
"""The column that holds the place of a row among those of its stream, where that matters."""
ORDER_BITS = 36
"""A row's place: the place of its item among those of the stream, then this many bits for its place in the item."""


class UploadColumn(Protocol):
    """A column of a table, as far as batches are concerned."""

    @property
    def name(self) -> str:
        """Its name in the warehouse."""

    @property
    def source(self) -> str:
        """The property it is filled from."""

    @property
    def arrow(self) -> pa.DataType:
        """What it is uploaded as."""


ColumnT = TypeVar("ColumnT", bound=UploadColumn)


@dataclass(frozen=True, slots=True)
class Conversion(abc.ABC, Generic[ColumnT]):
    """How the batches of one item are made ready; each warehouse says how a column is read and checked.

    Args:
        columns: All columns of the upload.
        given: The schema that SCHEMA means.
        constants: Values of the columns that the files do not hold, by property.
        keys: Properties that must not be null.
        place: The item's place among those of its stream, if its rows need theirs.
    """

    columns: tuple[ColumnT, ...]
    given: pa.Schema
    constants: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    place: int | None = None

    @abc.abstractmethod
    def read_field(self, column: ColumnT) -> pa.Field:
        """What a column is read with: under the property's own name, and by a type that loses nothing."""

    def upload_field(self, column: ColumnT) -> pa.Field:
        """What a column is in an upload."""
        return pa.field(column.name, column.arrow)

    def check(self, array: pa.Array, column: ColumnT, url: str) -> None:
        """Refuse values that the warehouse would refuse or bend.

        Raises:
            DataError: There is one; names the file and the column.
        """

    def array(self, array: pa.Array, column: ColumnT) -> pa.Array:
        """Values as they were read -> values as they are uploaded; what is finer than a microsecond is cut off.

        Days become their midnights in UTC where the column has moments.
        """
        if array.type == column.arrow:
            return array
        if pt.is_date(array.type) or pt.is_null(array.type):
            return array.cast(column.arrow)
        if has_finer(array.type):
            array = array.cast(_coarse(array.type), safe=False)
        return array if array.type == column.arrow else array.view(column.arrow)

    @property
    def read_schema(self) -> pa.Schema:
        """What files are read with."""
        return pa.schema([self.read_field(c) for c in self.columns if c.source not in self.constants])

    @property
    def upload_schema(self) -> pa.Schema:
        """What uploads have."""
        schema = pa.schema([self.upload_field(c) for c in self.columns])
        return schema if self.place is None else schema.append(pa.field(ORDER, pa.int64()))

    def batches(self, source: Iterable[pa.RecordBatch], url: str) -> Iterator[pa.RecordBatch]:
        """Convert the batches of one file.

        Raises:
            DataError: A key is null, or `check` refuses a value.
        """
        return self.all_batches([(url, source)])

    def all_batches(self, sources: Iterable[tuple[str, Iterable[pa.RecordBatch]]]) -> Iterator[pa.RecordBatch]:
        """Convert the batches of all files of the item, in order.

        Raises:
            DataError: A key is null, or `check` refuses a value.
        """
        schema, rows = self.upload_schema, 0
        for url, batches in sources:
            for batch in batches:
                yield pa.RecordBatch.from_arrays(list(self._arrays(batch, url, rows)), schema=schema)
                rows += batch.num_rows

    def _arrays(self, batch: pa.RecordBatch, url: str, row: int) -> Iterator[pa.Array]:
        for column in self.columns:
            if column.source in self.constants:
                value = pa.scalar(self.constants[column.source], column.arrow)
                yield pa.repeat(value, batch.num_rows)
                continue
            array = batch.column(batch.schema.get_field_index(column.source))
            if column.source in self.keys and array.null_count:
                raise _null_key(column.source, url)
            self.check(array, column, url)
            try:
                yield self.array(array, column)
            except pa.ArrowInvalid as error:
                raise DataError(" ".join(str(error).split()), url=url, column=column.source) from None
        if self.place is not None:
            import pyarrow.compute as pc

            before = (self.place << ORDER_BITS) + row - 1
            yield pc.add(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)), before)


def has_finer(t: pa.DataType) -> bool:
    """Whether there are nanoseconds in the type."""
    if pt.is_struct(t):
        return any(has_finer(f.type) for f in t)
    if pt.is_list(t):
        return has_finer(t.value_type)
    return getattr(t, "unit", None) == "ns"


def _coarse(t: pa.DataType) -> pa.DataType:
    if pt.is_struct(t):
        return pa.struct([f.with_type(_coarse(f.type)) for f in t])
    if pt.is_list(t):
        return pa.list_(t.value_field.with_type(_coarse(t.value_type)))
    if pt.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    return pa.time64("us") if pt.is_time(t) else t


def _null_key(source: str, url: str) -> DataError:
    return DataError(
        "a key property is null",
        url=url,
        column=source,
        hint="Set other key_properties, or load_method: append-only",
    )
