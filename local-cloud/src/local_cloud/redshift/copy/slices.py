"""Which slice reads which file (pure)."""

from collections.abc import Sequence


def assign(files: Sequence[object], slices: int) -> list[int]:
    """A slice for each file, in turn from 0, as a COPY of many files spreads them; one file keeps one slice busy."""
    return [index % max(1, slices) for index in range(len(files))]
