"""Passwords, tokens and TLS of the processes of the local Flight SQL server."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.flight as fl


@dataclass(frozen=True, slots=True)
class Access:
    """Who may connect, and how; the same in all processes."""

    username: str
    password: str
    secret: str  # from which tokens are made
    tls: str  # `off`, `server` or `mutual`
    folder: Path  # with `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`

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
