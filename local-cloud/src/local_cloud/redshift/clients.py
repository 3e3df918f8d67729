"""The clients of the cluster: a thread for each, which sleeps while the connection is idle."""

import socket
import ssl
import struct
import threading
import traceback
from typing import NoReturn

from local_cloud.redshift.cluster import Cluster
from local_cloud.redshift.handshake import open_session
from local_cloud.redshift.session import Killed, Session
from local_cloud.redshift.wire import Closed, Stream

_RESET = struct.pack("ii", 1, 0)


def serve(listener: socket.socket, cluster: Cluster, tls: ssl.SSLContext | None) -> NoReturn:
    """Accept clients without end."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection, cluster, tls), daemon=True).start()


def _serve(connection: socket.socket, cluster: Cluster, tls: ssl.SSLContext | None) -> None:
    """Serve one client, from its first byte to its last."""
    client, backend, well = Stream(connection), None, False
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client, backend = open_session(client, cluster, tls)
        Session(client, backend, cluster).serve()
        well = True
    except Killed:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    except Closed:
        pass  # the client or PostgreSQL has closed the connection, and has reported why
    except Exception:  # noqa: BLE001 - a fault of the proxy ends this session only, and is in the log
        traceback.print_exc()
    finally:
        client.socket.close()
        if backend is not None:
            backend.close(at_once=not well)
