"""How many bytes may be in flight."""

from __future__ import annotations

import threading


class Allowance:
    """Bytes that all readers of a process may hold at once of one kind.

    A reader waits only while it holds nothing; what it reads ahead it takes only if there is room. So whoever holds
    bytes also goes on to use them. If all who hold bytes are kept from going on by somebody else (by a consumer that
    takes results in order, say), nothing is given back for `patience` seconds; from then on those who wait are let
    through, until half of the limit is free again. Therefore no order of readers and consumers can make a deadlock,
    and what is held stays below the limit plus one request of each reader.
    """

    def __init__(self, limit: int, *, patience: float = 1.0) -> None:
        self.limit = limit
        self.peak = 0
        self._used = 0
        self._patience = patience
        self._returned = 0  # how often bytes were given back
        self._stuck = False
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        """Bytes held now."""
        return self._used

    def take(self, n: int) -> None:
        """Take `n` bytes, waiting for room; the caller must hold none. Above the limit, it waits until all is free."""
        with self._changed:
            while not self._fits(n) and not self._stuck:
                seen = self._returned
                self._changed.wait(self._patience)
                self._stuck = seen == self._returned
            self._add(n)

    def try_take(self, n: int) -> bool:
        """Take `n` bytes if there is room for them now."""
        with self._changed:
            if not self._fits(n):
                return False
            self._add(n)
            return True

    def force(self, n: int) -> None:
        """Count `n` bytes that exist already and are bounded elsewhere."""
        with self._changed:
            self._add(n)

    def give(self, n: int) -> None:
        """Give `n` bytes back."""
        with self._changed:
            self._used -= n
            self._returned += 1
            self._stuck = self._stuck and self._used > self.limit // 2
            self._changed.notify_all()

    def _fits(self, n: int) -> bool:
        return self._used == 0 or self._used + n <= self.limit

    def _add(self, n: int) -> None:
        self._used += n
        self.peak = max(self.peak, self._used)


class Budget:
    """Memory for reading, shared by all readers of a process.

    Args:
        fetched: Bytes between request and use, as they come from the store.
        decoded: Bytes of blocks between decompression and the receiver of their rows; as `fetched` by default.
    """

    def __init__(self, fetched: int = 128 << 20, decoded: int | None = None) -> None:
        self.fetched = Allowance(fetched)
        self.decoded = Allowance(fetched if decoded is None else decoded)
