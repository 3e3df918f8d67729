"""Random Arrow columns, vectorised and reproducible."""

import hashlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


class Randoms:
    """Random columns of `rows` values. Each is drawn from the seed and the column's name alone, not from the others."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self._seed = seed

    def uniform(self, name: str) -> pa.Array:
        """float64 in [0, 1)."""
        digest = hashlib.sha256(f"{self._seed} {name}".encode()).digest()
        return pc.random(self.rows, initializer=int.from_bytes(digest[:8], "little"))

    def integers(self, name: str, below: int) -> pa.Array:
        """int64 in [0, below)."""
        return pc.cast(pc.floor(pc.multiply(self.uniform(name), float(below))), pa.int64())

    def pick(self, name: str, values: pa.Array, weights: Sequence[int] | None = None) -> pa.Array:
        """Values picked with whole-number weights; all alike without them."""
        if weights:
            places = [place for place, weight in enumerate(weights) for _ in range(weight)]
            values = values.take(pa.array(places))
        return values.take(self.integers(name, len(values)))

    def bell(self, name: str) -> pa.Array:
        """float64, about normal with mean 0 and deviation 1: the sum of twelve uniform columns, less six."""
        total = self.uniform(f"{name} 0")
        for n in range(1, 12):
            total = pc.add(total, self.uniform(f"{name} {n}"))
        return pc.subtract(total, 6.0)

    def lognormal(self, name: str, *, median: float, spread: float) -> pa.Array:
        """float64 greater than 0 whose logarithm is about normal with deviation `spread`."""
        return pc.multiply(pc.exp(pc.multiply(self.bell(name), spread)), median)

    def blank(self, name: str, column: pa.Array, share: float) -> pa.Array:
        """The column with this share of nulls; columns blanked by the same name are null in the same rows."""
        return pc.if_else(pc.less(self.uniform(name), share), pa.scalar(None, column.type), column)

    def uuids(self, name: str) -> pa.Array:
        """Text in the shape of a version 4 UUID."""
        # 48 random bits at a time: a double holds no more than 52, and an int64 prints no leading zeros.
        parts = [self.integers(f"{name} {n}", 1 << 32) for n in range(4)]
        digits = pc.binary_join_element_wise(*(_hexadecimal(part) for part in parts), "")
        cuts = ((0, 8, ""), (8, 12, "-"), (13, 16, "-4"), (17, 20, "-a"), (20, 32, "-"))
        pieces = [
            pc.binary_join_element_wise(mark, pc.utf8_slice_codeunits(digits, start, stop), "")
            for start, stop, mark in cuts
        ]
        return pc.binary_join_element_wise(*pieces, "")


_BYTES = pa.array([f"{n:04x}" for n in range(1 << 16)])


def _hexadecimal(column: pa.Array) -> pa.Array:
    """Eight digits for each integer below 2^32."""
    high, low = pc.shift_right(column, 16), pc.bit_wise_and(column, 0xFFFF)
    return pc.binary_join_element_wise(_BYTES.take(high), _BYTES.take(low), "")
