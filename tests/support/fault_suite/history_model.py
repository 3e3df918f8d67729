"""What tables must hold after runs of pipelines: objects, their versions, and the rows of these. Pure.

It knows nothing of how a tap or a target works. A run that ended well has brought all versions that were there; of one
whose input was cut off, each may have come.
"""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Row = tuple[int, str]
Rows = Counter[Row]
ROWS, LARGE_ROWS = 3, 200
COMMON = 7
"""A key that each object of a stream has."""


@dataclass(frozen=True)
class Version:
    """One upload of an object, unless it changed nothing.

    Attributes:
        number: That of no other version; a later one has a greater number.
        name: The object; a number.
        content: A number as text, which each row has.
        at: When it was uploaded, as a number; no two are the same.
        is_large: Whether it may come in several parts.
    """

    number: int
    name: str
    content: str
    at: int
    is_large: bool = False

    @property
    def keys(self) -> tuple[int, ...]:
        first = int(self.name) * 1000
        return (COMMON, *range(first, first + (LARGE_ROWS if self.is_large else ROWS)))

    @property
    def rows(self) -> Rows:
        return Rows((key, self.content) for key in self.keys)


class Expected(abc.ABC):
    """What a table must hold, and what it may hold, by its load method."""

    @abc.abstractmethod
    def ended(self, there: Sequence[Version]) -> None:
        """Note a run that ended well, and the versions that were there."""

    @abc.abstractmethod
    def cut_off(self, there: Sequence[Version]) -> None:
        """Note a run whose target read only some of its input, and the versions that were there."""

    @abc.abstractmethod
    def emptied(self) -> None:
        """Note that all rows were removed."""

    @abc.abstractmethod
    def difference(self, found: Rows, *, settles: bool) -> tuple[Rows, Rows]:
        """Return the rows that are missing, and those that are too many.

        `settles`: what may be there is known from now on: no later run brings a version that is not there any more.
        """


class Appended(Expected):
    """Each version once that was there when a run ended well."""

    def __init__(self) -> None:
        self._sure = Rows()
        self._taken = set[int]()
        self._maybe = dict[int, Version]()

    def ended(self, there: Sequence[Version]) -> None:
        for version in (v for v in there if v.number not in self._taken):
            self._sure += version.rows
            self._taken.add(version.number)
            self._maybe.pop(version.number, None)

    def cut_off(self, there: Sequence[Version]) -> None:
        self._maybe |= {v.number: v for v in there if v.number not in self._taken}

    def emptied(self) -> None:
        self.__init__()  # type: ignore[misc]

    def difference(self, found: Rows, *, settles: bool) -> tuple[Rows, Rows]:
        extra = found - self._sure
        for version in list(self._maybe.values()):
            part = version.rows & extra
            if part == version.rows or version.is_large:
                extra -= part
                if settles and part:
                    self._sure += part
                    self._taken.add(version.number)
        if settles:
            self._maybe.clear()
        return self._sure - found, extra


class Upserted(Expected):
    """Of each key the row of the newest version."""

    def __init__(self) -> None:
        self._sure = dict[int, Version]()
        self._maybe = dict[int, Version]()

    def ended(self, there: Sequence[Version]) -> None:
        self._sure |= {v.number: v for v in there}
        self._maybe = {number: v for number, v in self._maybe.items() if number not in self._sure}

    def cut_off(self, there: Sequence[Version]) -> None:
        self._maybe |= {v.number: v for v in there if v.number not in self._sure}

    def emptied(self) -> None:
        self.__init__()  # type: ignore[misc]

    def difference(self, found: Rows, *, settles: bool) -> tuple[Rows, Rows]:
        newest = {key: v for v in sorted(self._sure.values(), key=lambda v: v.at) for key in v.keys}
        may_be = {
            (key, v.content)
            for v in self._maybe.values()
            for key in v.keys
            if key not in newest or v.at > newest[key].at
        }
        due = Rows((key, v.content) for key, v in newest.items())
        lost, extra = due - found, found - due
        for key, content in [row for row, count in extra.items() if count == 1 and row in may_be]:
            del extra[key, content]
            lost = Rows(row for row in lost.elements() if row[0] != key)
        if settles:
            self._sure |= {number: v for number, v in self._maybe.items() if v.rows & found}
            self._maybe.clear()
        return lost, extra


class Overwritten(Expected):
    """All versions that were there when the last run ended well, or those of a run after it, as a whole."""

    def __init__(self) -> None:
        self._now = Rows()
        self._others = list[Rows]()

    def ended(self, there: Sequence[Version]) -> None:
        self._now, self._others = sum_of(there), []

    def cut_off(self, there: Sequence[Version]) -> None:
        self._others.append(sum_of(there))

    def emptied(self) -> None:
        self.__init__()  # type: ignore[misc]

    def difference(self, found: Rows, *, settles: bool) -> tuple[Rows, Rows]:
        due = found if found in self._others else self._now
        if settles:
            self._now, self._others = due, []
        return due - found, found - due


EXPECTED: dict[str, type[Expected]] = {"append-only": Appended, "upsert": Upserted, "overwrite": Overwritten}
"""By the load method."""


def sum_of(versions: Iterable[Version]) -> Rows:
    """Return the rows of some versions."""
    return sum((v.rows for v in versions), Rows())
