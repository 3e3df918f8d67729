"""Extension types that Arrow's Parquet reader recognises only if they are registered: VARIANT and geometries.

They are used for reading only: Arrow's writers have classes of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.schema.arrow_schema import VARIANT, WKB


class _Named(pa.ExtensionType):  # type: ignore[misc]  # which has no types
    """An extension type identified by name and storage type."""

    name = ""

    def __init__(self, storage: pa.DataType, about: bytes = b"") -> None:
        self._about = about
        super().__init__(storage, self.name)

    def __hash__(self) -> int:
        return hash((self.name, str(self.storage_type)))

    def __arrow_ext_serialize__(self) -> bytes:
        return self._about

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> _Named:
        return cls(storage_type, serialized)


class VariantType(_Named):
    """VARIANT: a struct of `metadata`, `value` and, if it is shredded, `typed_value`."""

    name = VARIANT


class WkbType(_Named):
    """GEOMETRY and GEOGRAPHY: well-known binary. Its metadata is the coordinate system as JSON."""

    name = WKB


def register() -> None:
    """Register the types, unless another package has registered them."""
    for t in (VariantType(pa.struct([("metadata", pa.binary()), ("value", pa.binary())])), WkbType(pa.binary())):
        with suppress(pa.ArrowKeyError):
            pa.register_extension_type(t)


def is_variant(t: pa.DataType) -> bool:
    """Return whether a type is VARIANT."""
    return isinstance(t, pa.BaseExtensionType) and t.extension_name == VARIANT


def is_wkb(t: pa.DataType) -> bool:
    """Return whether a type is GEOMETRY or GEOGRAPHY."""
    return isinstance(t, pa.BaseExtensionType) and t.extension_name == WKB


def with_geometries(schema: pa.Schema, metadata: Mapping[bytes, bytes] | None) -> pa.Schema:
    """Return the schema with the type of GEOMETRY for columns of bytes that hold geometries as GeoParquet 1 has them.

    The member `geo` of a file's metadata names the columns. Metadata that is not as the specification has it is passed
    over.
    """
    if metadata is None or b"geo" not in metadata:
        return schema
    try:
        columns = json.loads(metadata[b"geo"])["columns"]
        names = {name for name, about in columns.items() if about["encoding"] == "WKB"}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return schema
    fields = [f.with_type(WkbType(f.type)) if f.name in names and is_bytes(f.type) else f for f in schema]
    return pa.schema(fields, schema.metadata)


def cast_to(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch of Arrow's reader to the types of the schema of its file, without a check of its values."""
    types = pa.schema([schema.field(name) for name in batch.schema.names])
    return batch if types.equals(batch.schema) else batch.cast(types, safe=False)


def is_bytes(t: pa.DataType) -> bool:
    """Return whether a type is binary of any variable length."""
    return bool(pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t))
