"""The schema of a stream, and the tables of the server as streams."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from singer_arrow.errors import ConfigError, SchemaError
from singer_arrow.schema.arrow_schema import canonical, parse_type
from singer_arrow.schema.json_schema import to_json_schema
from tap_flight_sql.server import Server
from tap_flight_sql.settings import StreamSettings
from tap_flight_sql.sql import check_key_type, quoted_name

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


def catalog_schema(server: Server, stream: StreamSettings) -> dict[str, Any]:
    """Return the JSON Schema of a stream, from the columns of its query, with the types of the settings.

    Columns without a counterpart are left out.
    """
    found = server.schema(stream.query)
    if stream.replication_key in stream.types:
        msg = (
            f"Stream {stream.name!r}: setting 'schema' names the replication key {stream.replication_key!r}, whose "
            "type is the server's, which compares its values; take it out, or convert it in the query"
        )
        raise ConfigError(msg)
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
        msg = f"Stream {stream.name!r}: its query has no column that can be read"
        raise SchemaError(msg)
    schema = pa.schema(fields)
    keys = (("key_properties", stream.key_properties), ("replication_key", [stream.replication_key]))
    for setting, names in (*keys, ("schema", stream.types)):
        for name in names:
            if name is not None and name not in schema.names:
                known = ", ".join(schema.names[:20])
                msg = (
                    f"Stream {stream.name!r}: setting {setting!r} names {name!r}, which is no column; there are {known}"
                )
                raise ConfigError(msg)
    if stream.replication_key is not None:
        check_key_type(stream.name, stream.replication_key, schema.field(stream.replication_key).type)
    return to_json_schema(schema, keys=stream.key_properties)
