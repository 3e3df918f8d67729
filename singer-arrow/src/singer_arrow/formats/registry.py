"""A dict of formats that imports the module of one when it is first asked for: a run uses few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

from singer_arrow.formats.base import Format

F = TypeVar("F", bound=Format)


class Formats(Mapping[str, F], Generic[F]):
    """Formats by name. Names, `in` and `len` import nothing.

    Args:
        places: Where the class of each is: `package.module.Class`.
        dress: What is made of an instance before it is given out.
    """

    def __init__(self, places: Mapping[str, str], dress: Callable[[F], F] = lambda kind: kind) -> None:
        self._places, self._dress = dict(places), dress
        self._loaded: dict[str, F] = {}

    def __getitem__(self, name: str) -> F:
        if name not in self._loaded:  # two threads may both import it; the formats hold no state
            module, _, kind = self._places[name].rpartition(".")
            self._loaded[name] = self._dress(getattr(import_module(module), kind)())
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def with_archives(kind: Format) -> Format:
    """A format that is read from zip and tar archives too."""
    from singer_arrow.formats.zip_archive import ArchiveFormat

    return ArchiveFormat(kind)
