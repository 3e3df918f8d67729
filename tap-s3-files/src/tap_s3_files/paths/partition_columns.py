"""Partition columns: values of all rows of an object from its key, as in `events/year=2024/region=eu/part-0.csv`.

Folders name their columns as Hive, Spark and Athena write them; the other columns are the named groups of paths. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from singer_arrow.errors import DataError, DriftError
from singer_arrow.storage.urls import Url
from tap_s3_files.paths.named_wildcards import group_names, pattern

_FOLDER = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_NULL = ("__HIVE_DEFAULT_PARTITION__", "")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partition columns of a stream.

    Args:
        paths: Those of the stream that have named groups.
        hive: Whether folders such as `year=2024` are columns; a group of the same name comes before them.
    """

    paths: tuple[Url, ...] = ()
    hive: bool = False

    def texts(self, url: Url) -> dict[str, str | None]:
        """The partition columns of an object as text: folders in their order, then groups.

        Raises:
            DataError: It is of none of the paths, so its groups have no values.
        """
        return (_folders(url) if self.hive else {}) | (self._groups(url) if self.paths else {})

    def infer(self, urls: Iterable[Url]) -> list[pa.Field]:
        """The partition columns of objects, each with the type that all its values have.

        Integers and dates are detected; the rest is text, also numbers with leading zeros, which would lose them.
        """
        found: dict[str, set[pa.DataType]] = {}
        if self.hive or self.paths:
            for url in urls:
                for name, text in self.texts(url).items():
                    found.setdefault(name, set()).update([_type_of(text)] if text is not None else [])
        return [pa.field(name, kinds.pop() if len(kinds) == 1 else pa.string()) for name, kinds in found.items()]

    def values(self, url: Url, schema: pa.Schema) -> dict[str, Any]:
        """The values of those partition columns of an object that a schema has, as its types.

        Raises:
            DriftError: A value is none of its type.
            DataError: The object is of none of the paths.
        """
        texts = self.texts(url)
        return {field.name: _value(url, field, texts[field.name]) for field in schema if field.name in texts}

    def _groups(self, url: Url) -> dict[str, str | None]:
        for path in self.paths:
            same = (path.scheme, path.bucket) == (url.scheme, url.bucket)
            if same and (found := pattern(path).fullmatch(url.key)):
                return {name: None if (text := found[name]) in _NULL else text for name in group_names(path)}
        reason = f"it is of none of the stream's paths, so it has no value for {', '.join(group_names(self.paths[0]))}"
        hint = "A run with other paths has planned it: add the path that names it"
        raise DataError(reason, url=url, hint=hint)


def _folders(url: Url) -> dict[str, str | None]:
    folders = (_FOLDER.fullmatch(folder) for folder in url.key.split("/")[:-1])
    pairs = ((unquote(m[1]), unquote(m[2])) for m in folders if m)
    return {name: None if value in _NULL else value for name, value in pairs}


def _type_of(text: str) -> pa.DataType:
    if _INTEGER.fullmatch(text):
        return pa.int64()
    try:
        return pa.date32() if date.fromisoformat(text).isoformat() == text else pa.string()
    except ValueError:
        return pa.string()


def _value(url: Url, field: pa.Field, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return pa.scalar(text).cast(field.type).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        reason = f"its key has {text!r}, which is no {field.type}"
        raise DriftError(reason, [pa.field(field.name, pa.string())], url=url, column=field.name) from None


NO_PARTITIONS = Partitions()
"""Partitions of streams without partition columns."""
