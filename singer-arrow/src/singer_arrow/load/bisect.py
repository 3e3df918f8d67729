"""Which of many rows are refused, where only whole ranges of them can be tried: by halving them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from singer_arrow.errors import LoadError

MOST_REFUSED = 20
"""Rows of one load that are looked for in a warehouse, where each takes some loads to be found."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why some rows were refused."""

    reason: str
    column: str | None = None  # if it is known
    row: int | None = None  # that the warehouse names, from 0, of all; it is tried alone first
    is_of_value: bool = True  # False: it may be for something that all rows share


Probe = Callable[[int, int], Refusal | None]
"""Tries the rows from a first one to a last one (exclusive); None: they are taken."""


class TooManyRefusedError(Exception):
    """More rows are refused than the `most` that are looked for; `found` are those that are known."""

    def __init__(self, found: list[tuple[int, Refusal]], most: int) -> None:
        super().__init__(len(found))
        self.found, self.most = found, most

    def of_load(self, error: Exception, warehouse: str) -> LoadError:
        """Return the error of the load whose rows were searched, with the error of the warehouse."""
        hint = f"{warehouse} refuses more than {self.most} rows of one load, and no more are looked for"
        return LoadError(f"{error}; {hint}. The first of them: {self.found[0][1].reason}")


def refused_rows(
    count: int, probe: Probe, *, most: int = MOST_REFUSED, first: Refusal | None = None
) -> list[tuple[int, Refusal]]:
    """Return the rows that are refused, each also alone, in order, with the reasons.

    With `b` refused rows of `n`, it tries about `2 * b * log2(n / b)` ranges, or `3 * b` where the refusals name rows.
    `first` is the error of all rows together; without it, they are tried. A single row is tried again. The result is
    empty if all are taken, or are taken in smaller ranges: then it is not a row that is refused. TooManyRefusedError:
    more than `most`.
    """
    found = dict[int, Refusal]()
    pieces: list[tuple[int, int, Refusal | None]] = [(0, count, first if count > 1 else None)]
    while pieces:
        low, high, refusal = pieces.pop()
        refusal = refusal if refusal or low >= high else probe(low, high)
        if refusal is None:
            continue
        if high - low == 1:
            _note(found, low, refusal, most)
            continue
        at = refusal.row
        if at is not None and low <= at < high and (alone := probe(at, at + 1)):
            _note(found, at, alone, most)
            pieces += [(at + 1, high, None), (low, at, None)]
        else:
            middle = (low + high) // 2
            pieces += [(middle, high, None), (low, middle, None)]
    return sorted(found.items())


def _note(found: dict[int, Refusal], row: int, refusal: Refusal, most: int) -> None:
    found[row] = refusal
    if len(found) > most:
        raise TooManyRefusedError(sorted(found.items()), most)


def refused_of_each(found: Iterable[tuple[int, Refusal]], counts: Sequence[int]) -> list[dict[int, Refusal]]:
    """Return the refused rows of each of several parts, of `counts` rows, by their numbers within it."""
    found, before, each = list(found), 0, list[dict[int, Refusal]]()
    for count in counts:
        each.append({row - before: why for row, why in found if before <= row < before + count})
        before += count
    return each
