"""The settings of the tap, declared: their names, types, defaults and what they mean."""

from __future__ import annotations

from typing import Any

from singer_sdk import typing as th

from singer_arrow.batch.settings import BATCH_CONFIG
from singer_arrow.warehouse.settings import AWS, secret, text

_STREAM = th.ObjectType(
    th.Property(
        "name", th.StringType, required=True, description="Name of the stream, and of the table that it becomes."
    ),
    th.Property("query", th.StringType, description="The query whose rows are read."),
    th.Property(
        "table",
        th.StringType,
        description="In place of `query`: a table, all rows of which are read, written as in SQL: `shop.orders`.",
    ),
    th.Property(
        "replication_key",
        th.StringType,
        description=(
            "A column that grows with each new or changed row: a run reads the rows above the largest value that "
            "earlier runs read. Without it, each run reads all rows."
        ),
    ),
    th.Property("key_properties", th.ArrayType(th.StringType), description="Columns that together identify a row."),
    th.Property(
        "schema",
        th.ObjectType(additional_properties=th.StringType),
        description=(
            "Types of columns, in place of the server's: string, integer, number, boolean, date, time, timestamp, "
            "decimal(p,s), binary, json, or an Arrow type such as int32, uint64, float32. A value that does not fit is "
            "an error with its row. A catalog that is given has its own types."
        ),
    ),
)

CONFIG_JSONSCHEMA: dict[str, Any] = th.PropertiesList(
    th.Property(
        "uri",
        th.StringType,
        required=True,
        description="Address of the server: `grpc+tls://host:port`; `grpc://host:port` needs `tls: false`.",
        examples=["grpc+tls://host:443"],
    ),
    th.Property("username", th.StringType, description="User of the server."),
    th.Property("password", th.CustomType(secret("Password of the user.")), description="Password of the user."),
    th.Property("token", th.CustomType(secret("A token.")), description="In place of a password: a bearer token."),
    th.Property(
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
        description="How TLS is used. `false`: no TLS; passwords and rows are then not encrypted.",
    ),
    th.Property(
        "streams",
        th.ArrayType(_STREAM),
        description="The streams, each with a query or a table. Without it, each table of the server is a stream.",
    ),
    th.Property(
        "session",
        th.ArrayType(th.StringType),
        description=(
            "Statements that are run first on the connection of a query, such as "
            "`SET enable_parallel_result_sink = true`."
        ),
    ),
    th.Property(
        "headers",
        th.ObjectType(additional_properties=th.StringType),
        description="Headers of each request, by name; InfluxDB 3 needs `database`.",
    ),
    th.Property("batch_config", th.CustomType(BATCH_CONFIG), description=BATCH_CONFIG["description"]),
    th.Property(
        "plan_root",
        th.StringType,
        description="URL below which the windows that were read are written down; by default the root of batch files.",
    ),
    th.Property(
        "max_workers",
        th.IntegerType(minimum=1),
        description="Endpoints of a query that are read at the same time. Default: the number of cores, at least 2.",
    ),
    th.Property(
        "memory_limit_mb",
        th.IntegerType(minimum=64),
        default=512,
        description=(
            "Megabytes of rows in memory that wait to be written, for all endpoints. Besides, each endpoint holds "
            "up to five messages of the server."
        ),
    ),
    th.Property(
        "max_message_mb",
        th.IntegerType(minimum=1, maximum=2047),
        default=1024,
        description="Megabytes of the largest message that is accepted from the server.",
    ),
    th.Property(
        "query_timeout_seconds",
        th.NumberType(exclusive_minimum=0),
        description="Seconds after which a query that the server has not answered has failed; by default none.",
    ),
    th.Property(
        "fetch_timeout_seconds",
        th.NumberType(exclusive_minimum=0),
        description="Seconds in which all rows of an endpoint must have been read; by default none.",
    ),
    th.Property("aws", th.CustomType(AWS), description=AWS["description"]),
    th.Property(
        "emit_activate_version_messages",
        th.BooleanType,
        default=True,
        description="Send ACTIVATE_VERSION for streams that are read as a whole, so that targets remove older rows.",
    ),
).to_dict()
