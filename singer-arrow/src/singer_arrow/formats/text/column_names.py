"""Names of the columns of a file whose header has gaps or repetitions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number appended to repetitions: `a`, `a_2`, `a_3`."""
    found = list[str]()
    for name in names:
        own, number = name, 1
        while own in found or (number > 1 and own in names):
            number += 1
            own = f"{name}_{number}"
        found.append(own)
    return found


def numbered(names: Iterable[str | None]) -> list[str]:
    """Return the names, with `column_1`, `column_2` and so on for empty ones."""
    return [name or f"column_{i}" for i, name in enumerate(names, 1)]
