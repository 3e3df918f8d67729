"""Limits for the bytes that readers and writers hold in memory: `Budget`, `Allowance`."""

from __future__ import annotations

import threading


class Allowance:
    """Limit for bytes of one kind, shared by all readers of a process.

    A reader blocks in `acquire` only while it holds nothing, and reads ahead only if `try_acquire` succeeds, so
    holders can always continue. If they are blocked by something else, such as a consumer that takes results in order,
    nothing is released for `patience` seconds; then waiting readers proceed until half of the limit is free again. So
    there is no deadlock, and the bytes held stay below the limit plus one request per reader.
    """

    def __init__(self, limit: int, *, patience: float = 1.0) -> None:
        self.limit = limit
        self.peak = 0
        self._used = 0
        self._patience = patience
        self._returned = 0  # number of releases
        self._stuck = False
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        """Bytes currently held."""
        return self._used

    def acquire(self, n: int) -> None:
        """Acquire `n` bytes, waiting if necessary; the caller must hold none.

        More than the limit is granted once nothing else is held.
        """
        with self._changed:
            while not self._fits(n) and not self._stuck:
                seen = self._returned
                self._changed.wait(self._patience)
                self._stuck = seen == self._returned
            self._add(n)

    def try_acquire(self, n: int) -> bool:
        """Acquire `n` bytes without waiting; return whether it succeeded."""
        with self._changed:
            if not self._fits(n):
                return False
            self._add(n)
            return True

    def acquire_regardless(self, n: int) -> None:
        """Acquire `n` bytes regardless of the limit, for bytes that already exist."""
        with self._changed:
            self._add(n)

    def release(self, n: int) -> None:
        """Release `n` bytes."""
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
    """Memory limits, shared by all readers and writers of a process.

    Args:
        fetched: Limit for bytes between request and use, as stored.
        decoded: Limit for decompressed blocks and their rows. Default: the same as `fetched`.
        encoded: Limit for rows that are encoded in parallel. Default: half of `fetched`.
    """

    def __init__(self, fetched: int = 128 << 20, decoded: int | None = None, encoded: int | None = None) -> None:
        self.fetched = Allowance(fetched)
        self.decoded = Allowance(fetched if decoded is None else decoded)
        self.encoded = Allowance(fetched // 2 if encoded is None else encoded)
