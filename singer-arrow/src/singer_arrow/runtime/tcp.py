"""When a TCP connection ends whose other side is gone without a word: a machine that lost its power, a firewall.

Keepalive finds that out only while nothing is under way: as long as sent bytes are unacknowledged, Linux repeats them
instead, for a quarter of an hour and more. TCP_USER_TIMEOUT (RFC 5482) bounds both, so it is the one limit.
"""

from __future__ import annotations

import socket

DEAD_AFTER_SECONDS = 180
"""How long the other side may acknowledge neither data nor a keepalive probe."""


def user_timeout(seconds: int = DEAD_AFTER_SECONDS) -> tuple[tuple[int, int, int], ...]:
    """Return the arguments of `setsockopt` that bound it; none on systems without TCP_USER_TIMEOUT (not Linux)."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        return ()
    return ((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000),)
