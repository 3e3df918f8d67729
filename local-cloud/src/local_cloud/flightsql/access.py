"""Passwords, tokens and TLS of the processes of the local Flight SQL server."""

import base64
import datetime as dt
import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.flight as fl


@dataclass(frozen=True, slots=True)
class Access:
    """Who may connect, and how; the same in all processes.

    Attributes:
        username: The one user.
        password: The password.
        secret: From which tokens are made.
        tls: `off`, `server` or `mutual`.
        folder: Folder of the certificates: `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`.
    """

    username: str
    password: str
    secret: str
    tls: str
    folder: Path

    @property
    def scheme(self) -> str:
        """The scheme of addresses."""
        return "grpc" if self.tls == "off" else "grpc+tls"

    @property
    def token(self) -> str:
        """The token that a login returns."""
        return hmac.new(self.secret.encode(), self.username.encode(), hashlib.sha256).hexdigest()

    def server_options(self) -> dict[str, Any]:
        """Return the arguments of a FlightServerBase."""
        options: dict[str, Any] = {"auth_handler": _AnyHandshake(), "middleware": {"access": _Check(self)}}
        if self.tls == "off":
            return options
        pair = (self.folder / "server.pem").read_bytes(), (self.folder / "server.key").read_bytes()
        options["tls_certificates"] = [pair]
        if self.tls == "mutual":
            options |= {"verify_client": True, "root_certificates": (self.folder / "ca.pem").read_bytes()}
        return options


class _AnyHandshake(fl.ServerAuthHandler):  # type: ignore[misc]  # pyarrow ships no types
    """Lets each handshake pass: the middleware checks its headers."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Accept."""

    def is_valid(self, token: bytes) -> str:  # noqa: ARG002 - the signature of pyarrow
        return ""


class _Token(fl.ServerMiddleware):  # type: ignore[misc]  # pyarrow ships no types
    def __init__(self, token: str) -> None:
        self._token = token

    def sending_headers(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self._token}"}


class _Check(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow ships no types
    def __init__(self, access: Access) -> None:
        self._access = access

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> Any:  # noqa: ARG002 - the signature of pyarrow
        given = next((values[0] for name, values in headers.items() if name.lower() == "authorization"), "")
        kind, _, value = given.partition(" ")
        if kind == "Basic":
            user, _, password = base64.b64decode(f"{value}==").decode().partition(":")
            if (user, password) == (self._access.username, self._access.password):
                return _Token(self._access.token)
        if kind == "Bearer" and value == self._access.token:
            return _Token(value)
        raise fl.FlightUnauthenticatedError("Invalid username, password or token")


def write_certificates(folder: Path) -> None:
    """Write a new certificate authority, and a certificate of the server and one of a client that it signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = dt.datetime.now(dt.UTC)
    hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))])
    authority, signer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "local-cloud")]), None
    for name in ("ca", "server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        signer = signer or key
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"local-cloud {name}")])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(authority if name == "ca" else subject)
            .issuer_name(authority)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=365))
            .add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
            .add_extension(hosts, critical=False)
            .sign(signer, hashes.SHA256())
        )
        file = folder / f"{name}.key"
        file.touch(mode=0o600)
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
