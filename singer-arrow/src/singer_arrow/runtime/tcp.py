"""Timeout of TCP connections whose peer disappeared, for example after a power failure or behind a firewall.

Keepalive works only on idle connections: while sent bytes are unacknowledged, Linux retransmits them for 15 minutes and
more. TCP_USER_TIMEOUT (RFC 5482) limits both.
"""

from __future__ import annotations

import socket

DEAD_AFTER_SECONDS = 180
"""Seconds without an acknowledgement of data or of a keepalive probe."""


def user_timeout(seconds: int = DEAD_AFTER_SECONDS) -> tuple[tuple[int, int, int], ...]:
    """Return the arguments of `setsockopt`; none on systems without TCP_USER_TIMEOUT (only Linux has it)."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        return ()
    return ((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000),)
