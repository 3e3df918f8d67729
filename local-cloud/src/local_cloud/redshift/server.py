"""The child process of Redshift: `python -m local_cloud.redshift.server RUN_DIR [DATA_DIR]`."""

import datetime as dt
import os
import socket
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

from local_cloud.lifeline import Ready, end_with_parent, remove_tree


def _tls_context(folder: Path) -> ssl.SSLContext:
    """Return a server's TLS context with a new self-signed certificate, which is stored in `folder`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "redshift.pem"
    file.touch(mode=0o600)
    file.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


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
    from local_cloud.redshift.clients import serve
    from local_cloud.redshift.cluster import DATABASE, USER, Cluster
    from local_cloud.redshift.postgres import Postgres

    postgres = Postgres(run_dir, *kept)
    stops.append(postgres.stop)
    postgres.start()
    password = os.environ["LOCAL_CLOUD_REDSHIFT_PASSWORD"]
    cluster = Cluster(postgres, password=password, slices=int(os.environ.get("LOCAL_CLOUD_REDSHIFT_SLICES", "2")))
    tls = _tls_context(run_dir) if os.environ.get("LOCAL_CLOUD_REDSHIFT_TLS") == "1" else None
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    host, port = listener.getsockname()
    ready.report({"host": host, "port": port, "user": USER, "dbname": DATABASE})
    serve(listener, cluster, tls)


if __name__ == "__main__":
    main()
