"""The child process that is Redshift: `python -m local_cloud.redshift.server RUN_DIR [DATA_DIR]`.

Its environment says where S3 is (AWS_ENDPOINT_URL), how many slices it has (LOCAL_CLOUD_REDSHIFT_SLICES), the first
user's password (LOCAL_CLOUD_REDSHIFT_PASSWORD) and whether it asks for TLS (LOCAL_CLOUD_REDSHIFT_TLS=1).
"""

import os
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from local_cloud.lifeline import Ready, end_with_parent, remove_tree

if TYPE_CHECKING:
    import ssl

    from local_cloud.redshift.cluster import Cluster

_RESET = struct.pack("ii", 1, 0)


def main() -> None:
    """Serve on a free port of 127.0.0.1 until the parent is gone."""
    ready = Ready()
    run_dir, *kept = map(Path, sys.argv[1:])
    stops: list[Callable[[], None]] = []

    def last_act() -> None:
        for stop in stops:
            stop()
        remove_tree(run_dir)

    end_with_parent(last_act)
    # After the lifeline: these imports take a while.
    from local_cloud.redshift.cluster import DATABASE, USER, Cluster
    from local_cloud.redshift.postgres import Postgres
    from local_cloud.redshift.tls import server_context

    postgres = Postgres(run_dir, *kept)
    stops.append(postgres.stop)
    password = os.environ["LOCAL_CLOUD_REDSHIFT_PASSWORD"]
    cluster = Cluster(postgres, password=password, slices=int(os.environ.get("LOCAL_CLOUD_REDSHIFT_SLICES", "2")))
    tls = server_context(run_dir) if os.environ.get("LOCAL_CLOUD_REDSHIFT_TLS") == "1" else None
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    host, port = listener.getsockname()
    ready.say({"host": host, "port": port, "user": USER, "dbname": DATABASE})
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection, cluster, tls), daemon=True).start()


def _serve(connection: socket.socket, cluster: "Cluster", tls: "ssl.SSLContext | None") -> None:
    """One client, from its first byte to its last."""
    from local_cloud.redshift.handshake import open_session
    from local_cloud.redshift.session import Killed, Session
    from local_cloud.redshift.wire import Closed, Stream

    client, backend, well = Stream(connection), None, False
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client, backend = open_session(client, cluster, tls)
        Session(client, backend, cluster).serve()
        well = True
    except Killed:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    except Closed:
        pass  # the client, or PostgreSQL, which has said why
    except Exception:  # noqa: BLE001 - a fault of the proxy ends this session only, and is in the log
        traceback.print_exc()
    finally:
        client.socket.close()
        if backend is not None:
            backend.close(at_once=not well)


if __name__ == "__main__":
    main()
