"""Types of Parquet that Arrow's readers recognise only if extension types of their names are registered.

Columns of such types are read, never written: Arrow's writers have classes of their own for them.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from singer_arrow.schema.arrow_schema import VARIANT, WKB


class _Named(pa.ExtensionType):  # type: ignore[misc]  # which has no types
    """An extension type that its name and its storage identify."""

    name = ""

    def __init__(self, storage: pa.DataType, about: bytes = b"") -> None:
        self._about = about
        super().__init__(storage, self.name)

    def __hash__(self) -> int:
        """By name and storage."""
        return hash((self.name, str(self.storage_type)))

    def __arrow_ext_serialize__(self) -> bytes:
        """What the file says about the column."""
        return self._about

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> _Named:
        """The type of this storage."""
        return cls(storage_type, serialized)


class VariantType(_Named):
    """VARIANT: a struct of `metadata`, `value` and, if it is shredded, `typed_value`."""

    name = VARIANT


class WkbType(_Named):
    """GEOMETRY and GEOGRAPHY: well-known binary. What the file says about it is the coordinate system, as JSON."""

    name = WKB


def register() -> None:
    """Let Arrow's readers recognise the types, unless those of another package do."""
    for t in (VariantType(pa.struct([("metadata", pa.binary()), ("value", pa.binary())])), WkbType(pa.binary())):
        with suppress(pa.ArrowKeyError):
            pa.register_extension_type(t)


def is_variant(t: pa.DataType) -> bool:
    """Whether a type is VARIANT."""
    return isinstance(t, pa.BaseExtensionType) and t.extension_name == VARIANT


def is_wkb(t: pa.DataType) -> bool:
    """Whether a type is GEOMETRY or GEOGRAPHY."""
    return isinstance(t, pa.BaseExtensionType) and t.extension_name == WKB
