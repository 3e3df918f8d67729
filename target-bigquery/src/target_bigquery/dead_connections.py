"""Socket options that end connections whose peer is gone; see `singer_arrow.runtime.process`."""

from __future__ import annotations

from typing import Any

from requests import Session
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection

from singer_arrow.runtime import process

PING_SECONDS = 60
"""How long a connection of the Storage Write API is silent before it is asked for a sign of life, as in Google's own
Java client. Together with the time for the answer that is the time after which HTTP connections end."""
GRPC_OPTIONS = (
    ("grpc.keepalive_time_ms", PING_SECONDS * 1000),
    # gRPC sets TCP_USER_TIMEOUT to this too (gRFC A18).
    ("grpc.keepalive_timeout_ms", (process.DEAD_AFTER_SECONDS - PING_SECONDS) * 1000),
)


_SOCKET_OPTIONS = [*HTTPConnection.default_socket_options, *process.user_timeout()]


class _Adapter(HTTPAdapter):
    """Opens connections with `_SOCKET_OPTIONS`, directly and through a proxy."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, socket_options=_SOCKET_OPTIONS, **kwargs)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        return super().proxy_manager_for(*args, socket_options=_SOCKET_OPTIONS, **kwargs)


def end_dead_connections(session: Session) -> None:
    """Set the timeouts of a session's connections. A session with its own adapter, for mutual TLS, is unchanged."""
    for prefix, adapter in list(session.adapters.items()):
        if type(adapter) is HTTPAdapter:
            session.mount(prefix, _Adapter())
