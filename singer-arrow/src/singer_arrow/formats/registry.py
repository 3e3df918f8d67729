"""Mapping from format names to lazily imported formats: `Formats`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

from singer_arrow.formats.base import Format

F = TypeVar("F", bound=Format)


class Formats(Mapping[str, F], Generic[F]):
    """Formats by name; a format is imported on first access.

    Args:
        paths: Import path of each class: `package.module.Class`.
        wrap: Wraps each instance.
    """

    def __init__(self, paths: Mapping[str, str], wrap: Callable[[F], F] = lambda kind: kind) -> None:
        self._paths, self._wrap = dict(paths), wrap
        self._loaded: dict[str, F] = {}

    def __getitem__(self, name: str) -> F:
        if name not in self._loaded:  # two threads may both create it: formats are stateless
            module, _, kind = self._paths[name].rpartition(".")
            self._loaded[name] = self._wrap(getattr(import_module(module), kind)())
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def with_archives(kind: Format) -> Format:
    """Return a format that also reads zip and tar archives."""
    from singer_arrow.formats.zip_archive import ArchiveFormat

    return ArchiveFormat(kind)
