"""A network behind a proxy, and certificates of a private authority."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import BaseServer
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from local_cloud.loopback import LoopbackServer


class Serving:
    """A server of this process that answers in its own thread for the duration of a `with` block."""

    _server: BaseServer

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Tunnel(Serving):
    """A proxy for CONNECT that connects every host to one port of this machine."""

    def __init__(self, port: int) -> None:
        self.asked: list[str] = []
        self._server = LoopbackServer(type("Handler", (_Connect,), {"tunnel": self, "port": port}))
        self.url = self._server.url


class _Connect(BaseHTTPRequestHandler):
    tunnel: Tunnel
    port: int

    def do_CONNECT(self) -> None:
        self.tunnel.asked.append(self.requestline)
        with socket.create_connection(("127.0.0.1", self.port)) as far:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            relay(self.connection, far)


def relay(near: socket.socket, far: socket.socket) -> None:
    """Copy bytes between two connections, in both directions, until both have ended."""
    back = threading.Thread(target=_copy, args=(far, near), daemon=True)
    back.start()
    _copy(near, far)
    back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):  # one side has lost the connection
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def certificates(folder: Path, host: str) -> tuple[Path, ssl.SSLContext]:
    """Create an authority, and a server TLS context with a certificate of it for a host."""
    authority, owner = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    top, name = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in ("authority", host))
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    signed = _certificate(top, top, authority, authority, x509.BasicConstraints(ca=True, path_length=None), usage)
    own = _certificate(top, name, authority, owner, x509.SubjectAlternativeName([x509.DNSName(host)]))
    trusted, served = folder / "authority.pem", folder / "server.pem"
    trusted.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key = owner.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    served.write_bytes(key + own.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(served)
    return trusted, context


def _certificate(
    issuer: x509.Name,
    subject: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    owner: ec.EllipticCurvePrivateKey,
    *extensions: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    key = owner.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=not isinstance(extension, x509.SubjectAlternativeName))
    return builder.sign(signer, hashes.SHA256())


class Recorder(Serving):
    """An HTTP proxy that forwards to one server and records method, URL and headers of requests."""

    def __init__(self, upstream: str) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        handler = type("Handler", (_Forward,), {"recorder": self, "upstream": upstream.removeprefix("http://")})
        self._server = LoopbackServer(handler)
        self.url = self._server.url


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    recorder: Recorder
    upstream: str

    def forward(self) -> None:
        headers = {name: value for name, value in self.headers.items() if not name.lower().startswith("proxy-")}
        self.recorder.requests.append((self.command, self.path, {n.lower(): v for n, v in headers.items()}))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        far = HTTPConnection(self.upstream)
        path = "/" + self.path.partition("://")[2].partition("/")[2]
        far.request(self.command, path, body, headers)
        answer = far.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        length = answer.headers["Content-Length"] if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(data)
        far.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815 - what the base class calls

    def log_message(self, *_: object) -> None:
        """Log nothing."""
