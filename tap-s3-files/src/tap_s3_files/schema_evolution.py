"""The schema of a stream's rows, which changes during a run when files no longer fit it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from singer_arrow.errors import DataError, DriftError
from singer_arrow.schema.json_schema import to_json_schema

logger = logging.getLogger("tap-s3-files")


class SchemaEvolution:
    """The schema of one stream in one run.

    Args:
        schema: The JSON Schema that the run begins with.
        is_fixed: It must not change.
        keys: Columns that may not be null.
        types: Columns whose types the settings give: they do not change.
        own: Columns that are not the files'.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        is_fixed: bool = False,
        keys: Sequence[str] = (),
        types: Mapping[str, pa.Field] | None = None,
        own: Iterable[str] = (),
    ) -> None:
        self.schema, self._is_fixed = schema, is_fixed
        self._keys, self._types, self._own = tuple(keys), types or {}, frozenset(own)

    def evolve_for(self, error: DataError) -> None:
        """Change the schema, so that the file that did not fit may be tried again.

        Raises:
            DataError: The error itself, if no other schema helps.
        """
        if self._is_fixed or not isinstance(error, DriftError):
            raise error
        known = self.schema["properties"]
        if any(f.name in self._own or (f.name in self._types and f.name in known) for f in error.fields):
            raise error
        wider = evolved(self.schema, [self._types.get(f.name, f) for f in error.fields], self._keys)
        if wider == self.schema:  # what the file needs is there, and did not help
            raise error
        logger.warning("%s. The schema changes from here on", str(error).removesuffix(f". {error.hint}"))
        self.schema = wider


def evolved(schema: Mapping[str, Any], fields: Sequence[pa.Field], keys: Sequence[str] = ()) -> dict[str, Any]:
    """Return a stream's JSON Schema with some columns added, or with other types. Pure."""
    more = to_json_schema(pa.schema(list(fields)), keys=keys)["properties"]
    return {**schema, "properties": {**schema["properties"], **more}}


def excluded(full: Mapping[str, Any], selected: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of columns, and of members of objects, that a JSON Schema has and another lacks. Pure."""
    for name, part in full.get("properties", {}).items():
        place = f"{path}{name}"
        kept = selected.get("properties", {}).get(name)
        if kept is None:
            yield place
            continue
        yield from excluded(part, kept, f"{place}.")
    for inner in ("items", "additionalProperties"):
        if isinstance(full.get(inner), Mapping) and isinstance(selected.get(inner), Mapping):
            yield from excluded(full[inner], selected[inner], path)
