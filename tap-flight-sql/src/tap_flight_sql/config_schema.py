"""The settings of the tap, declared: their names, types, defaults and what they mean."""

from __future__ import annotations

from typing import Any

from singer_sdk import typing as th

from singer_arrow.batch.settings import BATCH_CONFIG
from singer_arrow.warehouse.settings import AWS, secret, text


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
    _setting("batch_config", th.CustomType(BATCH_CONFIG), BATCH_CONFIG["description"]),
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
