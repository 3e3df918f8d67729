"""The settings: declared, read and checked; the bookmark in STATE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from singer_sdk import typing as th

from singer_arrow.batch.message import BatchSettings
from singer_arrow.errors import ConfigError
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.runtime.threads import default_workers
from singer_arrow.settings import json_schema
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse.settings import AWS, secret, text
from tap_flight_sql.sql import Bound

# The settings of the tap, read and checked; declared in `config_schema`.

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
        batch = BatchSettings.from_config(config["batch_config"]) if config.get("batch_config") else None
        root = config.get("plan_root")
        return cls(
            server=_server(config),
            streams=streams,
            batch=batch,
            plan_root=Url.parse(root) if root else batch.root if batch else None,
            aws=AwsOptions.from_config(config.get("aws") or {}),
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


# The settings of the tap, declared: their names, types, defaults and what they mean.


def _setting(name: str, kind: Any, description: str, **more: Any) -> th.Property[Any]:
    return th.Property(name, kind, description=description, **more)


_STREAM = th.ObjectType(
    _setting("name", th.StringType, "Name of the stream, and of the table that it becomes.", required=True),
    _setting("query", th.StringType, "The query whose rows are read."),
    _setting(
        "table",
        th.StringType,
        "In place of `query`: a table, all rows of which are read, written as in SQL: `shop.orders`.",
    ),
    _setting(
        "replication_key",
        th.StringType,
        "A column that grows with each new or changed row: a run reads the rows above the largest value that "
        "earlier runs read. Without it, each run reads all rows.",
    ),
    _setting("key_properties", th.ArrayType(th.StringType), "Columns that together identify a row."),
    _setting(
        "schema",
        th.ObjectType(additional_properties=th.StringType),
        "Types of columns, in place of the server's: string, integer, number, boolean, date, time, timestamp, "
        "decimal(p,s), binary, json, or an Arrow type such as int32, uint64, float32. A value that does not fit is "
        "an error with its row. A catalog that is given has its own types.",
    ),
)

CONFIG_JSONSCHEMA: dict[str, Any] = th.PropertiesList(
    _setting(
        "uri",
        th.StringType,
        "Address of the server: `grpc+tls://host:port`; `grpc://host:port` needs `tls: false`.",
        required=True,
        examples=["grpc+tls://host:443"],
    ),
    _setting("username", th.StringType, "User of the server."),
    _setting("password", th.CustomType(secret("Password of the user.")), "Password of the user."),
    _setting("token", th.CustomType(secret("A token.")), "In place of a password: a bearer token."),
    _setting(
        "tls",
        th.CustomType(
            {
                "type": ["boolean", "object", "null"],
                "properties": {
                    "ca_file": text(
                        "File with the certificates of authorities to trust, as PEM; by default the system's."
                    ),
                    "cert_file": text("File with the client's certificate, as PEM, for servers that ask for one."),
                    "key_file": text("File with the key of the client's certificate, as PEM."),
                    "skip_verify": {
                        "type": ["boolean", "null"],
                        "description": "Do not check the server's certificate; only for tests.",
                    },
                },
            }
        ),
        "How TLS is used. `false`: no TLS; passwords and rows are then not encrypted.",
    ),
    _setting(
        "streams",
        th.ArrayType(_STREAM),
        "The streams, each with a query or a table. Without it, each table of the server is a stream.",
    ),
    _setting(
        "session",
        th.ArrayType(th.StringType),
        "Statements that are run first on the connection of a query, such as `SET enable_parallel_result_sink = true`.",
    ),
    _setting(
        "headers",
        th.ObjectType(additional_properties=th.StringType),
        "Headers of each request, by name; InfluxDB 3 needs `database`.",
    ),
    _setting(
        "batch_config",
        th.CustomType({**json_schema(BatchSettings), "type": ["object", "null"]}),
        "Send BATCH messages: format and place of the batch files. Without it, RECORD messages are sent.",
    ),
    _setting(
        "plan_root",
        th.StringType,
        "URL below which the windows that were read are written down; by default the root of batch files.",
    ),
    _setting(
        "max_workers",
        th.IntegerType(minimum=1),
        "Endpoints of a query that are read at the same time. Default: the number of cores, at least 2.",
    ),
    _setting(
        "memory_limit_mb",
        th.IntegerType(minimum=64),
        "Megabytes of rows in memory that wait to be written, for all endpoints. Besides, each endpoint holds "
        "up to five messages of the server.",
        default=512,
    ),
    _setting(
        "max_message_mb",
        th.IntegerType(minimum=1, maximum=2047),
        "Megabytes of the largest message that is accepted from the server.",
        default=1024,
    ),
    _setting(
        "query_timeout_seconds",
        th.NumberType(exclusive_minimum=0),
        "Seconds after which a query that the server has not answered has failed; by default none.",
    ),
    _setting(
        "fetch_timeout_seconds",
        th.NumberType(exclusive_minimum=0),
        "Seconds in which all rows of an endpoint must have been read; by default none.",
    ),
    _setting("aws", th.CustomType(AWS), AWS["description"]),
    _setting(
        "emit_activate_version_messages",
        th.BooleanType,
        "Send ACTIVATE_VERSION for streams that are read as a whole, so that targets remove older rows.",
        default=True,
    ),
).to_dict()


# What the STATE of a stream holds. Pure.
#
#     {"replication_key": "updated_at", "replication_key_value": "2024-05-01T10:00:00", "window": 17, "log": "5f0c..."}
#
# All rows up to the value were sent, and all windows before this number of the window log with this id.


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Position of a stream: the largest value of its replication key that was sent, and the next window."""

    value: Bound | None = None
    window: int = 0
    log: str = ""

    def to_state(self, key: str) -> dict[str, Any]:
        """Return the stream's entry in STATE."""
        value = {"replication_key_value": self.value} if self.value is not None else {}
        return {"replication_key": key, **value, "window": self.window, **({"log": self.log} if self.log else {})}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], stream: str, key: str) -> Bookmark:
        """Read the stream's entry in STATE, which may be empty."""
        value, window, own = state.get("replication_key_value"), state.get("window", 0), state.get("replication_key")
        value = float(value) if isinstance(value, Decimal) else value  # the SDK reads fractions as decimals
        if own is not None and own != key:
            msg = (
                f"The STATE of stream {stream!r} is of the replication key {own!r}, and the setting is {key!r}; to "
                "begin anew, run without the stream's state, set another plan_root and empty the table"
            )
            raise ConfigError(msg)
        log = state.get("log", "")
        if (
            not isinstance(log, str)
            or not isinstance(window, int)
            or window < 0
            or not isinstance(value, int | float | str | None)
        ):
            msg = (
                f"The STATE of stream {stream!r} is not one that this tap wrote; restore an earlier one, or run "
                "without the stream's state"
            )
            raise ConfigError(msg)
        return cls(value, window, log)
