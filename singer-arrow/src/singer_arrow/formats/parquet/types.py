"""Arrow types of a Parquet file's columns, with enumerations as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as pt

from singer_arrow.casting.extension_types import with_geometries


def schema_of(file: pq.ParquetFile) -> pa.Schema:
    """Return the Arrow schema of a file, with enumerations as text and the geometries that GeoParquet 1 declares."""
    return with_geometries(_with_enums(file), file.metadata.metadata)


def _with_enums(file: pq.ParquetFile) -> pa.Schema:
    schema = file.schema_arrow
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    enums = [leaf.logical_type.type == "ENUM" or leaf.converted_type == "ENUM" for leaf in leaves]
    if not any(enums):
        return schema
    flags = iter(enums)
    return pa.schema([f.with_type(_with_text(f.type, flags)) for f in schema], schema.metadata)


def _with_text(t: pa.DataType, enums: Iterator[bool]) -> pa.DataType:
    """Return the type with text for each leaf whose flag is set; consumes one flag per leaf."""
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
