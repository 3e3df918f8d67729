"""The Arrow types of a Parquet file's columns, where Arrow's reader knows less than the file says. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as pt


def schema_of(file: pq.ParquetFile) -> pa.Schema:
    """The file's schema as Arrow's reader has it, but for values of enumerations, which are text and not bytes."""
    schema = file.schema_arrow
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    enums = [leaf.logical_type.type == "ENUM" or leaf.converted_type == "ENUM" for leaf in leaves]
    if not any(enums):
        return schema
    told = iter(enums)
    return pa.schema([f.with_type(_with_text(f.type, told)) for f in schema], schema.metadata)


def cast_to(batch: pa.RecordBatch, told: pa.Schema) -> pa.RecordBatch:
    """A batch as Arrow's reader gives it, in the types that `schema_of` tells; text is not looked at."""
    types = pa.schema([told.field(name) for name in batch.schema.names])
    return batch if types.equals(batch.schema) else batch.cast(types, safe=False)


def _with_text(t: pa.DataType, enums: Iterator[bool]) -> pa.DataType:
    """The type with text for each leaf that is an enumeration; leaves are told in order."""
    if isinstance(t, pa.BaseExtensionType):
        _with_text(t.storage_type, enums)
        return t
    if pt.is_struct(t):
        return pa.struct([f.with_type(_with_text(f.type, enums)) for f in t])
    if pt.is_map(t):
        return pa.map_(_with_text(t.key_type, enums), t.item_field.with_type(_with_text(t.item_type, enums)))
    if pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t):
        item = t.value_field.with_type(_with_text(t.value_type, enums))
        if pt.is_fixed_size_list(t):
            return pa.list_(item, t.list_size)
        return pa.large_list(item) if pt.is_large_list(t) else pa.list_(item)
    return pa.string() if next(enums) and pt.is_binary(t) else t
