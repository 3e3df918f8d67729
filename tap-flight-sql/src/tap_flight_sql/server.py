"""Connections to a Flight SQL server, queries, the server's errors; its tables and their schemas as streams.

Each method opens a connection of its own and closes it, because servers keep sessions that are not closed for long.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from singer_arrow.errors import ConfigError, CredentialsError, SchemaError, ServiceError, SingerArrowError
from singer_arrow.schema.arrow_schema import canonical, parse_type
from singer_arrow.schema.json_schema import to_json_schema
from singer_arrow.sdk.cli import lazy_modules
from tap_flight_sql.settings import ServerSettings, StreamSettings, Tls
from tap_flight_sql.sql import ESCAPE_PROBE, PROBE, check_key_type, quoted_name

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection, Cursor


# Connections, queries and their results, and the server's errors.

_PREFIX = "adbc.flight.sql."
_OPTIONS = {
    "username": "username",
    "password": "password",
    "ca": f"{_PREFIX}client_option.tls_root_certs",
    "cert": f"{_PREFIX}client_option.mtls_cert_chain",
    "key": f"{_PREFIX}client_option.mtls_private_key",
    "message_bytes": f"{_PREFIX}client_option.with_max_msg_size",
    "fetch_seconds": f"{_PREFIX}rpc.timeout_seconds.fetch",
}
"""The driver's names of our settings."""
_QUERY_TIMEOUTS = (f"{_PREFIX}rpc.timeout_seconds.query", f"{_PREFIX}rpc.timeout_seconds.update")
_ENDED_EARLY = re.compile("server preface|broken pipe|connection reset")
"""Texts of a connection that the server ended, as it does where a client's certificate lacks or is refused."""
_CODES = re.compile(r"^[A-Z_]+: |\[FlightSQL\] |rpc error: code = \w+ desc = | \((?:\w+); .*$", re.DOTALL)
"""Parts of the driver's messages: its own code, its name, and the names of gRPC's code and of the call."""
_LONGEST = 500  # characters of a server's text that are shown


class Result(NamedTuple):
    """The result of a query: its endpoints, each once, for `Server.read`; the number of its rows, if it is known."""

    partitions: list[bytes]
    rows: int | None


class Server:
    """A Flight SQL server. Thread-safe."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings, self.uri = settings, settings.uri

    @contextmanager
    def query(self, query: str) -> Iterator[Result]:
        """Run a query, and yield its result, which may be read until the end of the block."""
        with self._connected("the query") as connection, connection.cursor() as cursor:
            self._begin_session(cursor)
            with translated(self.uri, "the query"):
                listed, _ = cursor.adbc_execute_partitions(query)
                rows = cursor.rowcount
            partitions = list(dict.fromkeys(listed))  # the driver lists an endpoint as often as the server does
            yield Result(partitions, rows if rows >= 0 and len(partitions) == len(listed) else None)

    @contextmanager
    def read(self, partition: bytes) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the rows of an endpoint of a result, by a connection of its own."""
        with self._connected("an endpoint") as connection, connection.cursor() as cursor:
            with translated(self.uri, "an endpoint", is_retriable=True):
                cursor.adbc_read_partition(partition)
                reader = cursor.fetch_record_batch()

            def batches() -> Iterator[pa.RecordBatch]:
                while True:
                    with translated(self.uri, "an endpoint", is_retriable=True):
                        try:
                            batch = reader.read_next_batch()
                        except StopIteration:
                            return
                    yield batch

            yield batches()

    def schema(self, query: str) -> pa.Schema:
        from adbc_driver_manager import NotSupportedError

        with self._connected("the query") as connection, connection.cursor() as cursor:
            self._begin_session(cursor)
            with translated(self.uri, "the query"):
                try:
                    found = cursor.adbc_execute_schema(query)
                except NotSupportedError:
                    _, found = cursor.adbc_execute_partitions(query)
        if found is None:
            raise ConfigError(f"{self.uri}: the server does not name the columns of the query; it cannot be read")
        return found

    def value(self, query: str) -> pa.Scalar:
        """Return the one value of a query of one row and one column."""
        with self._connected("the query") as connection, connection.cursor() as cursor:
            self._begin_session(cursor)
            with translated(self.uri, "the query"):
                cursor.execute(query)
                table = cursor.fetch_arrow_table()
        return table.column(0)[0]

    def tables(self) -> list[tuple[str, str, str]]:
        """Return the tables of the server: catalog, schema and name of each. Names that it does not use are empty."""
        doing = "the list of tables, in place of which 'streams' can name them,"
        with self._connected(doing) as connection, translated(self.uri, doing):
            found = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        return [
            (catalog["catalog_name"] or "", schema["db_schema_name"] or "", table["table_name"])
            for catalog in found
            for schema in catalog["catalog_db_schemas"] or ()
            for table in schema["db_schema_tables"] or ()
        ]

    @cached_property
    def quote(self) -> str:
        """The character that encloses names: a double quote, or a backtick, as in Doris and StarRocks."""
        try:
            return '"' if pa.types.is_integer(self.value(PROBE).type) else "`"
        except ConfigError:  # the statement is refused
            return "`"

    @cached_property
    def escapes(self) -> bool:
        """Whether a backslash within text is an escape, for this server and its `session`."""
        return len(self.value(ESCAPE_PROBE).as_py()) == 1

    @contextmanager
    def _connected(self, doing: str) -> Iterator[Connection]:
        s = self._settings
        options = {name: getattr(s, ours) for ours, name in _OPTIONS.items()}
        options |= dict.fromkeys(_QUERY_TIMEOUTS, s.query_seconds)
        options[f"{_PREFIX}authorization_header"] = f"Bearer {s.token}" if s.token else None
        options[f"{_PREFIX}client_option.tls_skip_verify"] = (
            "true" if isinstance(s.tls, Tls) and s.tls.skip_verify else None
        )
        options[f"{_PREFIX}rpc.with_cookie_middleware"] = "true"  # some servers know a session by its cookie
        options |= {f"{_PREFIX}rpc.call_header.{name}": value for name, value in s.headers.items()}
        given = {name: str(value) for name, value in options.items() if value is not None}
        with translated(self.uri, doing):
            connection = _driver().connect(s.uri, db_kwargs=given, autocommit=True)
        with connection:
            yield connection

    def _begin_session(self, cursor: Cursor) -> None:
        for statement in self._settings.session:
            with translated(self.uri, f"the statement {statement!r} of the setting 'session'"):
                cursor.execute(statement)
                cursor.fetch_arrow_table()


@cache
def _driver() -> Any:
    """Import the driver; without polars, which it would import if it is installed, and which takes 0.2 seconds."""
    with lazy_modules({"polars": ("DataFrame",)}):
        return import_module("adbc_driver_flightsql.dbapi")


@contextmanager
def translated(uri: str, doing: str, *, is_retriable: bool = False) -> Iterator[None]:
    """Raise errors of the driver as ours.

    `doing` is for the message; with `is_retriable`, as in the middle of a result, errors without a known cause are.
    """
    from adbc_driver_manager import Error

    try:
        yield
    except SingerArrowError:
        raise
    except (Error, OSError, pa.ArrowException) as error:
        raise _translation(error, uri, doing, is_retriable=is_retriable) from None


def _translation(error: Exception, uri: str, doing: str, *, is_retriable: bool) -> SingerArrowError:
    code = getattr(getattr(error, "status_code", None), "name", "IO")
    # The server's text, without the driver's codes, and tracebacks of servers in Python
    text = " ".join(_CODES.sub("", str(error).split(". Detail:")[0]).split())[:_LONGEST]
    if "larger than max" in text:
        return ConfigError(f"{uri}: {doing}: {text}; raise max_message_mb, or let the server send smaller batches")
    if "x509:" in text or "tls:" in text or "certificate" in text:
        msg = f"{uri}: {text}; set tls.ca_file to the authority of the server, and tls.cert_file if it asks for one"
        return ConfigError(msg)
    if _ENDED_EARLY.search(text) and uri.startswith("grpc+tls") and not is_retriable:
        hint = "the server ended the connection before it answered; if it asks for a client's certificate"
        return ServiceError(f"{uri}: {doing}: {text}; {hint}, set tls.cert_file and tls.key_file")
    if code in ("UNAUTHENTICATED", "UNAUTHORIZED"):
        return CredentialsError(f"{uri}: {doing}: {text}; correct username and password, or token, or grant access")
    if code in ("IO", "TIMEOUT", "CANCELLED") or is_retriable:
        return ServiceError(f"{uri}: {doing}: {text}")
    return ConfigError(f"{uri}: {doing} was refused: {text}")


# The schema of a stream, and the tables of the server as streams.

logger = logging.getLogger("tap-flight-sql")
_OWN_SCHEMAS = frozenset({"information_schema", "pg_catalog", "__internal_schema", "mysql", "sys"})
"""Schemas with tables about the server."""


def table_streams(server: Server) -> Iterator[StreamSettings]:
    """Yield a stream for each table of the server, without those that describe it."""
    found = [t for t in server.tables() if t[1].lower() not in _OWN_SCHEMAS]
    catalogs = {catalog for catalog, _, _ in found}
    for catalog, schema, table in found:
        parts = [part for part in (catalog, schema, table) if part]
        named = parts if len(catalogs) > 1 else [part for part in (schema, table) if part]
        query = f"SELECT * FROM {'.'.join(quoted_name(part, server.quote) for part in parts)}"  # noqa: S608 - quoted
        yield StreamSettings(name="-".join(named), query=query)


def query_schema(server: Server, stream: StreamSettings) -> dict[str, Any]:
    """Return the JSON Schema of a stream, from the columns of its query, with the types of the settings.

    Columns without a counterpart are left out.
    """
    found = server.schema(stream.query)
    if stream.replication_key in stream.types:
        raise ConfigError(
            f"Stream {stream.name!r}: setting 'schema' names the replication key {stream.replication_key!r}, whose "
            "type is the server's, which compares its values; take it out, or convert it in the query"
        )
    types = {name: parse_type(name, text) for name, text in stream.types.items()}
    found = pa.schema([types.get(field.name, field) for field in found])
    if len(set(found.names)) < len(found.names):
        canonical(found)  # raises the error that names the column
    fields: list[pa.Field] = []
    for field in found:
        is_empty = pa.types.is_null(field.type)  # it holds no value
        try:
            fields += canonical(pa.schema([field.with_type(pa.string()) if is_empty else field]))
        except SchemaError as error:
            logger.warning("Stream %r: %s; the column is left out", stream.name, error)
    if not fields:
        raise SchemaError(f"Stream {stream.name!r}: its query has no column that can be read")
    schema = pa.schema(fields)
    keys = (("key_properties", stream.key_properties), ("replication_key", [stream.replication_key]))
    for setting, names in (*keys, ("schema", stream.types)):
        for name in names:
            if name is not None and name not in schema.names:
                known = ", ".join(schema.names[:20])
                raise ConfigError(
                    f"Stream {stream.name!r}: setting {setting!r} names {name!r}, which is no column; there are {known}"
                )
    if stream.replication_key is not None:
        check_key_type(stream.name, stream.replication_key, schema.field(stream.replication_key).type)
    return to_json_schema(schema, keys=stream.key_properties)
