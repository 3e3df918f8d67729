"""The settings: declared, read and checked; the bookmark in STATE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from singer_arrow.batch.message import BatchSettings, batch_setting
from singer_arrow.errors import ConfigError
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.runtime.threads import default_workers
from singer_arrow.settings import inline, read_settings, setting
from singer_arrow.storage.aws import AwsOptions, aws_setting
from singer_arrow.storage.urls import Url
from tap_flight_sql.sql import Bound

# The settings of the tap, declared and checked.

MIB = 1 << 20
_LEAST_HELD = 8 * MIB
_SCHEMES = ("grpc+tls://", "grpc://", "grpc+tcp://", "grpc+unix://")


def _bytes(megabytes: int) -> int:
    return megabytes * MIB


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """One entry of `streams`, or a table of the server; `types`: of columns, by the names of types."""

    name: str = setting("Name of the stream, and of the table that it becomes.", required=True)
    query: str = setting("The query whose rows are read.", default="")
    table: str = setting(
        "In place of `query`: a table, all rows of which are read, written as in SQL: `shop.orders`.", default=""
    )
    replication_key: str | None = setting(
        "A column that grows with each new or changed row: a run reads the rows above the largest value that earlier "
        "runs read. Without it, each run reads all rows."
    )
    key_properties: tuple[str, ...] = setting("Columns that together identify a row.", default=())
    types: Mapping[str, str] = setting(
        "Types of columns, in place of the server's: string, integer, number, boolean, date, time, timestamp, "
        "decimal(p,s), binary, json, or an Arrow type such as int32, uint64, float32. A value that does not fit is an "
        "error with its row. A catalog that is given has its own types.",
        default={},
        name="schema",
    )

    def checked(self, where: str) -> StreamSettings:
        """Return the stream with its query, or raise ConfigError."""
        if not self.name:
            raise ConfigError(f"Setting '{where}.name' must not be empty")
        if bool(self.query) == bool(self.table):
            raise ConfigError(f"Setting '{where}' needs either 'query' or 'table'")
        given = self.query.strip().rstrip(";").rstrip()
        query = given if self.query else f"SELECT * FROM {self.table}"  # noqa: S608 - as the user wrote it
        return replace(self, query=query, table="", replication_key=self.replication_key or None)


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files."""

    ca_file: str | None = setting(
        "File with the certificates of authorities to trust, as PEM; by default the system's."
    )
    cert_file: str | None = setting("File with the client's certificate, as PEM, for servers that ask for one.")
    key_file: str | None = setting("File with the key of the client's certificate, as PEM.")
    skip_verify: bool = setting("Do not check the server's certificate; only for tests.", factory=bool)

    def pem(self, name: str) -> str | None:
        """Return the text of a file; ConfigError if it cannot be read."""
        path = getattr(self, name)
        try:
            return Path(path).read_text() if path else None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no PEM file"
            raise ConfigError(f"Setting 'tls.{name}': {path} cannot be read: {reason}") from None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the server is reached; `ca`, `cert` and `key` are the texts of PEM files."""

    uri: str = setting(
        "Address of the server: `grpc+tls://host:port`; `grpc://host:port` needs `tls: false`.",
        required=True,
        examples=["grpc+tls://host:443"],
    )
    username: str | None = setting("User of the server.")
    password: str | None = setting("Password of the user.", secret=True)
    token: str | None = setting("In place of a password: a bearer token.", secret=True)
    tls: bool | Tls | None = setting("How TLS is used. `false`: no TLS; passwords and rows are then not encrypted.")
    session: tuple[str, ...] = setting(
        "Statements that are run first on the connection of a query, such as `SET enable_parallel_result_sink = true`.",
        default=(),
    )
    headers: Mapping[str, str] = setting("Headers of each request, by name; InfluxDB 3 needs `database`.", default={})
    message_bytes: int = setting(
        "Megabytes of the largest message that is accepted from the server.",
        default=1024,
        name="max_message_mb",
        parse=_bytes,
        minimum=1,
        maximum=2047,
    )
    query_seconds: float | None = setting(
        "Seconds after which a query that the server has not answered has failed; by default none.",
        name="query_timeout_seconds",
        parse=float,
        exclusiveMinimum=0,
    )
    fetch_seconds: float | None = setting(
        "Seconds in which all rows of an endpoint must have been read; by default none.",
        name="fetch_timeout_seconds",
        parse=float,
        exclusiveMinimum=0,
    )
    ca: str | None = None
    cert: str | None = None
    key: str | None = field(default=None, repr=False)

    def checked(self) -> ServerSettings:
        """Return the settings with the texts of files, or raise ConfigError."""
        uri, tls = self.uri, self.tls if isinstance(self.tls, Tls) else Tls()
        if not uri.startswith(_SCHEMES):
            raise ConfigError(f"Setting 'uri' is {uri!r}, it must be an address like grpc+tls://host:port")
        is_encrypted = uri.startswith("grpc+tls://")
        if not is_encrypted and self.tls is not False:
            raise ConfigError(
                f"Setting 'uri' is {uri!r}, which is not encrypted; use grpc+tls://, or set tls to false to accept "
                "that passwords and rows can be read on their way"
            )
        if is_encrypted and self.tls is False:
            raise ConfigError(f"Setting 'tls' is false, and 'uri' is {uri!r}; use grpc://, or leave tls out")
        if bool(tls.cert_file) != bool(tls.key_file):
            raise ConfigError("Settings 'tls.cert_file' and 'tls.key_file' belong together; set both or neither")
        if self.token and (self.username or self.password):
            raise ConfigError("Settings 'token' and 'username' exclude each other; set one of them")
        if (self.username is None) != (self.password is None):
            raise ConfigError("Settings 'username' and 'password' belong together; set both or neither")
        return replace(self, ca=tls.pem("ca_file"), cert=tls.pem("cert_file"), key=tls.pem("key_file"))


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. Without `streams`, each table of the server is a stream."""

    server: ServerSettings = inline(ServerSettings(""))
    streams: tuple[StreamSettings, ...] = setting(
        "The streams, each with a query or a table. Without it, each table of the server is a stream.", default=()
    )
    batch: BatchSettings | None = batch_setting()
    plan_root: Url | None = setting(
        "URL below which the windows that were read are written down; by default the root of batch files.",
        kind=str,
        parse=lambda text: Url.parse(text) if text else None,
    )
    max_workers: int = setting(
        "Endpoints of a query that are read at the same time. Default: the number of cores, at least 2.",
        factory=default_workers,
        minimum=1,
    )
    memory_bytes: int = setting(
        "Megabytes of rows in memory that wait to be written, for all endpoints. Besides, each endpoint holds up to "
        "five messages of the server.",
        default=512,
        name="memory_limit_mb",
        parse=_bytes,
        minimum=64,
    )
    aws: AwsOptions = aws_setting()
    emit_activate_version_messages: bool = setting(
        "Send ACTIVATE_VERSION for streams that are read as a whole, so that targets remove older rows.", default=True
    )

    @property
    def held_bytes(self) -> int:
        """Bytes of rows that each worker gathers before it encodes them: of all, half of the memory."""
        return max(_LEAST_HELD, min(HELD_BYTES, self.memory_bytes // 2 // self.max_workers))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read a configuration that the JSON Schema has found valid; ConfigError if settings contradict each other."""
        settings = read_settings(cls, config)
        streams = tuple(stream.checked(f"streams[{n}]") for n, stream in enumerate(settings.streams))
        names = [stream.name for stream in streams]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"Setting 'streams' has two streams named {twice!r}; give each a name of its own")
        root = settings.plan_root or (settings.batch.root if settings.batch else None)
        return replace(settings, server=settings.server.checked(), streams=streams, plan_root=root)


# What the STATE of a stream holds. Pure.
#
#     {"replication_key": "updated_at", "replication_key_value": "2024-05-01T10:00:00", "window": 17, "log": "5f0c...",
#      "batch": "3f9c..."}
#
# All rows up to the value were sent, and all windows before this number of the window log with this id.


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Position of a stream: the largest value of its replication key that was sent, the next window, the last batch."""

    value: Bound | None = None
    window: int = 0
    log: str = ""
    batch: str = ""

    def to_state(self, key: str) -> dict[str, Any]:
        """Return the stream's entry in STATE: flat, and with every key, as Meltano merges it into the former one."""
        value = self.value if self.value is not None else ""
        ids = {"window": self.window, "log": self.log, "batch": self.batch}
        return {"replication_key": key, "replication_key_value": value, **ids}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], stream: str, key: str) -> Bookmark:
        """Read the stream's entry in STATE, which may be empty."""
        value, window, own = state.get("replication_key_value"), state.get("window", 0), state.get("replication_key")
        value = float(value) if isinstance(value, Decimal) else value  # the SDK reads fractions as decimals
        value = None if value == "" and not window else value  # at its start
        if own not in (None, "", key):
            raise ConfigError(
                f"The STATE of stream {stream!r} is of the replication key {own!r}, and the setting is {key!r}; to "
                "begin anew, run without the stream's state, set another plan_root and empty the table"
            )
        log, batch = state.get("log", ""), state.get("batch", "")
        if (
            not isinstance(log, str)
            or not isinstance(batch, str)
            or not isinstance(window, int)
            or window < 0
            or not isinstance(value, int | float | str | None)
        ):
            raise ConfigError(
                f"The STATE of stream {stream!r} is not one that this tap wrote; restore an earlier one, or run "
                "without the stream's state"
            )
        return cls(value, window, log, batch)
