"""The settings of the tap, read and checked; declared in `config_schema`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singer_arrow.batch.settings import BatchSettings
from singer_arrow.errors import ConfigError
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.runtime.threads import default_workers
from singer_arrow.storage.aws_options import AwsOptions
from singer_arrow.storage.urls import Url

MIB = 1 << 20
_LEAST_HELD = 8 * MIB
_SCHEMES = ("grpc+tls://", "grpc://", "grpc+tcp://", "grpc+unix://")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """One entry of `streams`, or a table of the server; `types`: of columns, by the names of types."""

    name: str
    query: str
    replication_key: str | None = None
    key_properties: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the server is reached; `ca`, `cert` and `key` are the texts of PEM files."""

    uri: str
    username: str | None = None
    password: str | None = None
    token: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    skip_verify: bool = False
    session: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    message_bytes: int = 1024 * MIB
    query_seconds: float | None = None
    fetch_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. Without `streams`, each table of the server is a stream."""

    server: ServerSettings
    streams: tuple[StreamSettings, ...]
    batch: BatchSettings | None
    plan_root: Url | None
    aws: AwsOptions
    max_workers: int
    memory_bytes: int

    @property
    def held_bytes(self) -> int:
        """Bytes of rows that each worker gathers before it encodes them: of all, half of the memory."""
        return max(_LEAST_HELD, min(HELD_BYTES, self.memory_bytes // 2 // self.max_workers))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read a configuration that the JSON Schema has found valid."""
        streams = tuple(_stream(s, n) for n, s in enumerate(config.get("streams") or ()))
        names = [s.name for s in streams]
        if twice := next((n for n in names if names.count(n) > 1), None):
            msg = f"Setting 'streams' has two streams named {twice!r}; give each a name of its own"
            raise ConfigError(msg)
        batch = BatchSettings.from_config(config.get("batch_config"))
        root = config.get("plan_root")
        return cls(
            server=_server(config),
            streams=streams,
            batch=batch,
            plan_root=Url.parse(root) if root else batch.root if batch else None,
            aws=AwsOptions.from_config(config.get("aws")),
            max_workers=config.get("max_workers") or default_workers(),
            memory_bytes=(config.get("memory_limit_mb") or 512) * MIB,
        )


def _server(config: Mapping[str, Any]) -> ServerSettings:
    uri, tls = config["uri"], config.get("tls")
    if not uri.startswith(_SCHEMES):
        msg = f"Setting 'uri' is {uri!r}, it must be an address like grpc+tls://host:port"
        raise ConfigError(msg)
    is_encrypted = uri.startswith("grpc+tls://")
    if not is_encrypted and tls is not False:
        msg = (
            f"Setting 'uri' is {uri!r}, which is not encrypted; use grpc+tls://, or set tls to false to accept that "
            "passwords and rows can be read on their way"
        )
        raise ConfigError(msg)
    if is_encrypted and tls is False:
        msg = f"Setting 'tls' is false, and 'uri' is {uri!r}; use grpc://, or leave tls out"
        raise ConfigError(msg)
    options = tls if isinstance(tls, Mapping) else {}
    if bool(options.get("cert_file")) != bool(options.get("key_file")):
        msg = "Settings 'tls.cert_file' and 'tls.key_file' belong together; set both or neither"
        raise ConfigError(msg)
    username, password, token = (config.get(name) for name in ("username", "password", "token"))
    if token and (username or password):
        msg = "Settings 'token' and 'username' exclude each other; set one of them"
        raise ConfigError(msg)
    if (username is None) != (password is None):
        msg = "Settings 'username' and 'password' belong together; set both or neither"
        raise ConfigError(msg)
    return ServerSettings(
        uri=uri,
        username=username,
        password=password,
        token=token,
        ca=_pem(options, "ca_file"),
        cert=_pem(options, "cert_file"),
        key=_pem(options, "key_file"),
        skip_verify=bool(options.get("skip_verify")),
        session=tuple(config.get("session") or ()),
        headers=config.get("headers") or {},
        message_bytes=(config.get("max_message_mb") or 1024) * MIB,
        query_seconds=_seconds(config, "query_timeout_seconds"),
        fetch_seconds=_seconds(config, "fetch_timeout_seconds"),
    )


def _seconds(config: Mapping[str, Any], name: str) -> float | None:
    return float(config[name]) if config.get(name) is not None else None


def _pem(options: Mapping[str, Any], name: str) -> str | None:
    if not options.get(name):
        return None
    try:
        return Path(options[name]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no PEM file"
        msg = f"Setting 'tls.{name}': {options[name]} cannot be read: {reason}"
        raise ConfigError(msg) from None


def _stream(config: Mapping[str, Any], number: int) -> StreamSettings:
    where = f"streams[{number}]"
    query, table = config.get("query"), config.get("table")
    if not config["name"]:
        msg = f"Setting '{where}.name' must not be empty"
        raise ConfigError(msg)
    if bool(query) == bool(table):
        msg = f"Setting '{where}' needs either 'query' or 'table'"
        raise ConfigError(msg)
    return StreamSettings(
        name=config["name"],
        query=query.strip().rstrip(";").rstrip() if query else f"SELECT * FROM {table}",  # noqa: S608 - as the user wrote it
        replication_key=config.get("replication_key") or None,
        key_properties=tuple(config.get("key_properties") or ()),
        types=config.get("schema") or {},
    )
