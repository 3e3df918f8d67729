"""Catalogs of taps, read without loss: their schemas keep every keyword, their numbers those of JSON."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from singer_sdk.singerlib import Catalog, MetadataMapping, Schema

from singer_arrow.errors import ConfigError
from singer_arrow.schema.plain_numbers import plain_numbers


class ExactSchema(Schema):
    """A JSON Schema that keeps every keyword; the SDK's own drops those that it does not know."""

    __slots__ = ("_exact",)

    def __init__(self, exact: Mapping[str, Any]) -> None:
        super().__init__()
        self._exact = exact

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of the schema as it was given."""
        return copy.deepcopy(dict(self._exact))


def exact_catalog(catalog: Mapping[str, Any]) -> Catalog:
    """Read a catalog without loss; its numbers become those of JSON: the SDK reads `0.01` as a Decimal."""
    catalog = plain_numbers(catalog)
    try:
        result = Catalog.from_dict(dict(catalog))
        for stream in catalog.get("streams", []):
            entry = result[stream["tap_stream_id"]]
            entry.schema = ExactSchema(stream.get("schema", {}))
            _deselect_hollow(entry.metadata, stream.get("schema", {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        msg = f"The catalog is not one of Singer's ({type(error).__name__}: {error}); write it with --discover"
        raise ConfigError(msg) from None
    return result


def _deselect_hollow(metadata: MetadataMapping, schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
    """Deselect objects of which no part is selected: a schema without properties would allow any object."""
    for name, part in schema.get("properties", {}).items():
        place = (*path, "properties", name)
        parts = part.get("properties")
        if not parts:
            continue
        _deselect_hollow(metadata, part, place)
        mask = metadata.resolve_selection()
        if not any(mask[(*place, "properties", p)] for p in parts):
            metadata[place].selected = False
