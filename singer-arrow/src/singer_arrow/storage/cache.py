"""What was read of objects and may be wanted again within a run: of one version each, the last used, up to a size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

LIMIT = 32 << 20
"""Bytes that are kept, about."""


class Kept:
    """Things that were made of objects' bytes, by what and of which version they are."""

    def __init__(self) -> None:
        self._size = 0
        self._found: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, ...]) -> Any:
        """What is kept, or None."""
        with self._lock:
            if key not in self._found:
                return None
            self._found.move_to_end(key)
            return self._found[key][0]

    def put(self, key: tuple[Any, ...], value: Any, size: int) -> None:
        """Keep something of about so many bytes; what was not used for longest makes room."""
        if size > LIMIT // 4:
            return
        with self._lock:
            self._size += size - self._found.pop(key, (None, 0))[1]
            self._found[key] = value, size
            while self._size > LIMIT:
                self._size -= self._found.popitem(last=False)[1][1]
