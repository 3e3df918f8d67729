"""A size-bounded LRU cache for data derived from object versions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

LIMIT = 32 << 20
"""Approximate maximum of cached bytes."""


class VersionCache:
    """Cache of values derived from objects; a key identifies the kind of value and the object version. Thread-safe."""

    def __init__(self) -> None:
        self._size = 0
        self._entries: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, ...]) -> Any:
        """Return the cached value, or None."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: tuple[Any, ...], value: Any, size: int) -> None:
        """Add a value of about `size` bytes, evicting the least recently used; values above a quarter are ignored."""
        if size > LIMIT // 4:
            return
        with self._lock:
            self._size += size - self._entries.pop(key, (None, 0))[1]
            self._entries[key] = value, size
            while self._size > LIMIT:
                self._size -= self._entries.popitem(last=False)[1][1]
