"""The settings of the tap, declared: their names, types, defaults and what they mean."""

from __future__ import annotations

from typing import Any

from singer_sdk import typing as th

from singer_arrow.compression import CODECS
from singer_arrow.formats import FORMATS
from singer_arrow.singer.declare import AWS

BATCH_COMPRESSIONS = {"parquet": ("zstd", "snappy", "gzip", "none"), "jsonl": ("gzip", "none")}
"""What batch files may be compressed with; the first is the default."""


def _text(name: str, description: str, **more: Any) -> th.Property[str]:
    return th.Property(name, th.StringType, description=description, **more)


_CSV = th.ObjectType(
    _text(
        "delimiter",
        "What parts the values of a line; by default a tab in `.tsv` and `.tab`, `|` in `.psv`, else what the head of "
        "each file tells: a comma, a semicolon, a tab or `|`.",
    ),
    _text("quote", "What quotes a value. Empty: nothing does.", default='"'),
    _text("escape", "What escapes a quote inside a quoted value; by default quotes are doubled."),
    _text(
        "encoding",
        "Encoding of the text, by Python's names. Where it is UTF-8, files that begin with the byte order mark of "
        "UTF-16 or UTF-32 are read as that.",
        default="utf-8",
    ),
    th.Property("header", th.BooleanType, default=True, description="Whether the first line names the columns."),
    th.Property("skip_rows", th.IntegerType(minimum=0), default=0, description="Lines to skip before the header."),
    th.Property(
        "null_values",
        th.ArrayType(th.StringType),
        default=[""],
        description="Texts that mean null when they are not quoted.",
    ),
    _text("comment", "Lines that begin with this are skipped."),
)

_STREAM = th.ObjectType(
    _text("name", "Name of the stream, and of the table it becomes.", required=True),
    th.Property(
        "path",
        th.CustomType({"type": ["string", "array"], "items": {"type": "string"}}),
        required=True,
        description=(
            "Which objects: a URL with wildcards (`*`, `**`, `?`, `[abc]`, `{a,b}`), or a list of such. "
            "`s3://`, `gs://`, `az://`, or a local path. A path that ends with `/` means all objects below it. "
            "`{date:%Y/%m/%d}` stands for the dates from `start_date` to `end_date`. `{country:*}` is a wildcard "
            "with a name: what stands in its place becomes a column `country`."
        ),
    ),
    _text(
        "format",
        "Format of the objects; `auto`: told by each object's name.",
        allowed_values=["auto", *FORMATS],
        default="auto",
    ),
    _text(
        "compression",
        "Compression of the objects; `auto`: told by their first bytes and their names.",
        allowed_values=["auto", *CODECS],
        default="auto",
    ),
    th.Property("key_properties", th.ArrayType(th.StringType), description="Columns that together identify a row."),
    th.Property(
        "schema",
        th.ObjectType(additional_properties=th.StringType),
        description=(
            "Types of columns, where the inferred ones are not wanted: string, integer, number, boolean, date, time, "
            "timestamp, decimal(p,s), binary, json, or an Arrow type such as int32, uint64, float32."
        ),
    ),
    th.Property("columns", th.ArrayType(th.StringType), description="Read these columns only."),
    th.Property(
        "csv",
        _CSV,
        description=(
            "How CSV files are written; what of it lines, columns of fixed width and workbooks have holds for them too."
        ),
    ),
    th.Property(
        "fixed_width",
        th.ArrayType(
            th.ObjectType(
                _text("name", "Name of the column.", required=True),
                th.Property("start", th.IntegerType(minimum=1), required=True, description="Its first character."),
                th.Property("width", th.IntegerType(minimum=1), required=True, description="How many it has."),
            )
        ),
        description="Where the columns of files of fixed width stand on each line, in characters; the first is 1.",
    ),
    th.Property(
        "excel",
        th.ObjectType(
            th.Property(
                "sheet",
                th.CustomType({"type": ["string", "integer"], "minimum": 1}),
                description="Which sheet: its name, or its number from 1; by default the first.",
            )
        ),
        description="What is read of workbooks.",
    ),
    _text(
        "on_bad_row",
        "What happens to a row that cannot be read, or that holds a value which does not fit its column: `fail` ends "
        "the run and names file, line and column; `skip` leaves it out and counts it; `rescue` keeps it with what does "
        "not fit in the column `_sdc_rescued`.",
        allowed_values=["fail", "skip", "rescue"],
        default="fail",
    ),
    _text(
        "on_drift",
        "What happens when a file has columns that the schema lacks, or other types: `evolve` sends a wider SCHEMA "
        "before its rows; `fail` ends the run and names file, column and both types; `rescue` puts what does not fit "
        "into the column `_sdc_rescued`.",
        allowed_values=["evolve", "fail", "rescue"],
        default="evolve",
    ),
    _text(
        "archived",
        "What happens to objects in an archive (GLACIER, DEEP_ARCHIVE) that were not restored: `fail` ends the run, "
        "`skip` leaves them out for good.",
        allowed_values=["fail", "skip"],
        default="fail",
    ),
    th.Property(
        "partition_columns",
        th.BooleanType,
        default=False,
        description=(
            "Add a column for each folder such as `year=2024` in the keys: an integer, a date or text, if `schema` "
            "does not say another type."
        ),
    ),
)

_BATCH = th.ObjectType(
    th.Property(
        "encoding",
        th.ObjectType(
            _text("format", "Format of batch files.", allowed_values=[*BATCH_COMPRESSIONS], required=True),
            _text(
                "compression",
                "Of batch files: `zstd` (default), `snappy`, `gzip` or `none` for parquet, `gzip` or `none` for jsonl.",
                allowed_values=["zstd", "snappy", "gzip", "none"],
            ),
        ),
        required=True,
        description="What batch files are.",
    ),
    th.Property(
        "storage",
        th.ObjectType(
            _text("root", "URL below which batch files are: `s3://`, `gs://`, `az://`, `file://`.", required=True),
            _text("prefix", "Text that the names of batch files begin with."),
        ),
        required=True,
        description="Where batch files are.",
    ),
    th.Property(
        "target_file_mb",
        th.NumberType(exclusive_minimum=0),
        description="About how many megabytes a batch file holds.",
        default=128,
    ),
)

CONFIG_JSONSCHEMA: dict[str, Any] = th.PropertiesList(
    th.Property("streams", th.ArrayType(_STREAM), required=True, description="The streams, each from its own objects."),
    th.Property(
        "start_date", th.DateTimeType, description="Only objects changed at this time or later. No zone means UTC."
    ),
    th.Property("end_date", th.DateTimeType, description="Only objects changed before this time."),
    th.Property(
        "replication",
        th.ObjectType(
            _text(
                "method",
                "How new objects are found. `polling`: by listing. `sqs`: by the events that S3 sends to a queue. "
                "`inventory`: in the lists that S3 Inventory writes.",
                allowed_values=["polling", "sqs", "inventory"],
                default="polling",
            ),
            th.Property(
                "overlap_minutes",
                th.NumberType(minimum=0),
                description=(
                    "For polling and inventory: how many minutes after its time of last change an object may appear in "
                    "listings and still be read; by default 10, for inventory 2880. Needs a plan root: `plan_root`."
                ),
            ),
            th.Property(
                "keys_ascend",
                th.BooleanType,
                default=False,
                description=(
                    "For polling: keys of later objects come after those of earlier ones, as with dates in them, "
                    "and none is overwritten. A listing then begins where the last run ended."
                ),
            ),
            _text(
                "manifest_url",
                "For inventory: URL of a `manifest.json` of S3 Inventory, or of the folder of an inventory's "
                "configuration, which ends with `/`: then the newest one below it counts.",
            ),
            _text("queue_url", "For sqs: URL of the queue."),
            th.Property(
                "visibility_timeout",
                th.IntegerType(minimum=3, maximum=43200),
                default=300,
                description=(
                    "For sqs: seconds after which a message comes again if this process has died; while it lives, it "
                    "keeps the messages that it works on invisible."
                ),
            ),
            th.Property(
                "max_wait_seconds",
                th.NumberType(minimum=0),
                default=20,
                description="For sqs: the run ends when the queue was dry for so many seconds.",
            ),
            _text(
                "unmatched_events",
                "For sqs: what happens to messages that name no object of a stream: `keep` leaves them in the queue, "
                "others may need them; `delete` deletes them, for a queue that nobody else reads.",
                allowed_values=["keep", "delete"],
                default="keep",
            ),
        ),
        description="How the tap learns of new objects.",
    ),
    th.Property(
        "batch_config",
        _BATCH,
        description="BATCH messages: format and place of the batch files. Without it RECORD messages are sent.",
    ),
    _text("plan_root", "URL below which the plans of unfinished runs are kept; by default the batch storage's root."),
    th.Property(
        "passthrough",
        th.BooleanType,
        default=False,
        description=(
            "Put objects that are batch files already into manifests as they are, without reading their rows: Parquet "
            "with the columns and types of SCHEMA, or JSON Lines with gzip. The target must be able to read them where "
            "they are. Others are converted, and the log says why; metadata_columns must be false."
        ),
    ),
    th.Property(
        "metadata_columns",
        th.BooleanType,
        default=True,
        description=(
            "Add `_sdc_source_bucket`, `_sdc_source_file`, `_sdc_source_lineno`, `_sdc_source_modified_at` and "
            "`_sdc_source_etag` to each row."
        ),
    ),
    th.Property("aws", th.CustomType(AWS), description=AWS["description"]),
    th.Property(
        "max_workers",
        th.IntegerType(minimum=1),
        description="Objects converted at once. Default: as many as there are cores, at least 2.",
    ),
    th.Property(
        "memory_limit_mb",
        th.IntegerType(minimum=64),
        default=512,
        description=(
            "Megabytes of data in memory, of all objects that are being converted: fetched, decoded, or gathered for a "
            "row group. The process takes up to 250 more."
        ),
    ),
    th.Property(
        "emit_activate_version_messages",
        th.BooleanType,
        default=False,
        description="Send ACTIVATE_VERSION for streams that the catalog replicates as FULL_TABLE.",
    ),
    _text("executor", "Where objects are converted. Only `threads` is available yet.", default="threads"),
    th.Property(
        "schema_sample_files",
        th.IntegerType(minimum=1),
        default=5,
        description="How many objects of a stream, newest and oldest, its schema is inferred from.",
    ),
    th.Property(
        "schema_sample_mb",
        th.NumberType(exclusive_minimum=0),
        default=1,
        description="Megabytes of each of them that are looked at, where the format has no schema of its own.",
    ),
).to_dict()
