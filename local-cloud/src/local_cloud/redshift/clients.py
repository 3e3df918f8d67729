"""The clients of the cluster: a thread for each, which sleeps while the connection is idle; TLS and password."""

import hashlib
import os
import secrets
import socket
import ssl
import struct
import threading
import traceback
from typing import NoReturn

from local_cloud.redshift import wire
from local_cloud.redshift.backend import Backend
from local_cloud.redshift.cluster import Cluster
from local_cloud.redshift.session import Killed, Session
from local_cloud.redshift.wire import Closed, Stream

_SSL_REQUEST, _CANCEL, _GSS_REQUEST = 80877103, 80877102, 80877104
# Startup parameters of Redshift's clients that PostgreSQL accepts.
_PASSED_ON = {"user", "database", "client_encoding", "application_name", "options", "datestyle", "timezone"}


def open_session(client: Stream, cluster: Cluster, tls: ssl.SSLContext | None) -> tuple[Stream, Backend]:
    """Authenticate a client and connect it to PostgreSQL, or raise `Closed` if it left, was refused or only cancels."""
    client, message = _first_message(client, cluster, tls)
    _check_password(client, cluster, message.get("user", ""))
    stream = Stream(cluster.postgres.connect())
    passed = {name: value for name, value in message.items() if name.lower() in _PASSED_ON}
    unicode = "client_encoding" not in message
    backend = Backend(stream, client, cluster.names, cluster.terminate, unicode=unicode)
    backend.send(wire.startup({"database": message.get("user", "")} | passed))
    try:
        if not backend.relay(ready=False):
            raise Closed
        # Makes all values text, also for clients that support Redshift's binary protocol.
        ready = wire.message(b"S", wire.text("server_protocol_version") + wire.text("0"))
        client.send(ready + wire.message(b"Z", b"I"))
    except BaseException:
        stream.socket.close()
        raise
    return client, backend


def _first_message(client: Stream, cluster: Cluster, tls: ssl.SSLContext | None) -> tuple[Stream, dict[str, str]]:
    while True:
        body = client.exactly(wire.int32(client.exactly(4), 0) - 4)
        code = wire.int32(body, 0)
        if code == _SSL_REQUEST and tls:
            client.send(b"S")
            try:
                client = Stream(tls.wrap_socket(client.socket, server_side=True))
            except OSError:
                raise Closed from None
        elif code in (_SSL_REQUEST, _GSS_REQUEST):
            client.send(b"N")
        elif code == _CANCEL:
            with cluster.postgres.connect() as connection:
                connection.sendall(wire.pack32(len(body) + 4) + body)
                connection.recv(1)
            raise Closed
        else:
            return client, wire.parameters(body[4:])


def _check_password(client: Stream, cluster: Cluster, user: str) -> None:
    salt = secrets.token_bytes(4)
    client.send(wire.message(b"R", wire.pack32(5) + salt))
    kind, body = client.read()
    known = cluster.password_of(user)
    expected = "md5" + hashlib.md5((known or os.urandom(8).hex()).removeprefix("md5").encode() + salt).hexdigest()  # noqa: S324
    if kind != b"p" or not secrets.compare_digest(wire.split_text(body)[0], expected):
        words = f'password authentication failed for user "{user}"'
        client.send(wire.error("28000", words, severity="FATAL"))
        raise Closed


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
