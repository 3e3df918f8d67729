"""How this process gets its memory from the system, so that what is freed is used again.

The C library keeps an arena for every few threads, and none of what is freed in one serves another. The bytes of
objects are fetched by dozens of threads: without this, up to 180 MB more stay behind (measured with texts of 60 MB).
Arrow's and polars' rows are in pools of their own, which give back what is large.
"""

from __future__ import annotations

import contextlib
import os
import sys

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_ARENAS = 2
_OWN = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")


def keep_small() -> None:
    """Let two arenas do; call it before threads are started.

    Does nothing where the C library is another than glibc, or where the environment says how many there are
    (`MALLOC_ARENA_MAX`, `GLIBC_TUNABLES`).
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _OWN):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").mallopt(_ARENA_MAX, _ARENAS)
