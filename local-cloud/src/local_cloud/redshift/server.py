"""The child process of Redshift: `python -m local_cloud.redshift.server RUN_DIR [DATA_DIR]`."""

import os
import socket
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

from local_cloud.lifeline import Ready, end_with_parent, remove_tree


def main() -> None:
    """Serve on a free port of 127.0.0.1 until the parent ends."""
    ready = Ready()
    run_dir, *kept = map(Path, sys.argv[1:])
    stops: list[Callable[[], None]] = []

    def last_act() -> None:
        for stop in stops:
            stop()
        remove_tree(run_dir)

    end_with_parent(last_act)
    # After the lifeline, because these imports take a while.
    from local_cloud.certificates import write_certificates
    from local_cloud.redshift.clients import serve
    from local_cloud.redshift.cluster import DATABASE, USER, Cluster
    from local_cloud.redshift.postgres import Postgres

    postgres = Postgres(run_dir, *kept)
    stops.append(postgres.stop)
    postgres.start()
    password = os.environ["LOCAL_CLOUD_REDSHIFT_PASSWORD"]
    cluster = Cluster(postgres, password=password, slices=int(os.environ.get("LOCAL_CLOUD_REDSHIFT_SLICES", "2")))
    tls = None
    if os.environ.get("LOCAL_CLOUD_REDSHIFT_TLS") == "1":
        write_certificates(run_dir, ("localhost",))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(run_dir / "server.pem", run_dir / "server.key")
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    host, port = listener.getsockname()
    ready.report({"host": host, "port": port, "user": USER, "dbname": DATABASE})
    serve(listener, cluster, tls)


if __name__ == "__main__":
    main()
