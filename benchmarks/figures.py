"""The goals on the first screen of docs/performance.md, in its order."""

from typing import NamedTuple


class Figure(NamedTuple):
    """A goal that docs/performance.md names on its first screen.

    Attributes:
        case: The benchmark.
        goal: The text of the goal in that case.
        text: What was measured, for a reader who does not know the case.
        meaning: What it means to a user.
        is_in_readme: Whether README.md has it too.
    """

    case: str
    goal: str
    text: str
    meaning: str
    is_in_readme: bool = False


FIGURES = (
    Figure(
        "taxi-parquet",
        "Parquet -> BATCH Parquet, 1 file: seconds over DuckDB's",
        "Parquet on S3 to batch files: seconds, a DuckDB script = 1",
        "DuckDB reads S3 by its own extension; both are level.",
    ),
    Figure(
        "taxi-parquet",
        "Parquet -> BATCH Parquet, 1 file: seconds over polars'",
        "The same: seconds, a polars script = 1",
        "A script writes one file, without STATE, ids or a check of the schema.",
    ),
    Figure(
        "taxi-csv",
        "CSV -> BATCH Parquet, 1 file: seconds over DuckDB's",
        "CSV on S3 to batch files: seconds, a DuckDB script = 1",
        "As above; ranges are downloaded while earlier ones are parsed.",
    ),
    Figure(
        "scaling",
        "CSV, largest file: seconds over DuckDB's",
        "CSV of 1 GB on local disk: seconds, a DuckDB script = 1",
        "Without S3, both are limited by their parsers.",
        is_in_readme=True,
    ),
    Figure(
        "scaling",
        "CSV, largest file: CPU seconds over DuckDB's",
        "The same: CPU seconds, a DuckDB script = 1",
        "As above.",
    ),
    Figure(
        "taxi-jsonl-gz",
        "JSONL.GZ -> BATCH Parquet, 1 file: CPU seconds over the least of polars' and DuckDB's",
        "gzip JSON Lines on S3 to batch files: CPU seconds, the better of a polars and a DuckDB script = 1",
        "pyarrow's parser, and every check; the extra `[native]` takes half of it.",
        is_in_readme=True,
    ),
    Figure(
        "taxi-parquet",
        "Parquet -> BATCH Parquet, 1 file: rows per CPU second over Airbyte's",
        "Parquet on S3 to batch files: rows per CPU second, Airbyte's source = 1",
        "An hour of Airbyte is less than a minute.",
    ),
    Figure(
        "taxi-parquet",
        "Parquet -> BATCH Parquet, 1 file: CPU against plain pyarrow read + write",
        "The same: CPU seconds, a pyarrow script = 1",
        "What schema checks, ids and STATE cost on top of reading and writing.",
    ),
    Figure(
        "taxi-csv",
        "CSV -> BATCH Parquet, 1 file: rows per CPU second over the fastest of Airbyte, pipelinewise, tap-file",
        "CSV on S3 to batch files: rows per CPU second, the fastest of Airbyte and pipelinewise = 1",
        "Large CSV files are limited by the parser of Arrow.",
    ),
    Figure(
        "wide",
        "rows a second, BATCH Parquet over the stock pipe",
        "100,000 rows of 150 columns, S3 to a finished load: rows per second, the SDK's RECORD pipe = 1",
        "The load job takes most of the time that is left.",
    ),
    Figure(
        "record-pipe",
        "wide: rows per CPU second over SDK, default",
        "RECORD messages of 150 columns through the pipe: rows per CPU second, the SDK = 1",
        "Taps and targets of others benefit from either side, too.",
    ),
    Figure(
        "record-pipe",
        "narrow: rows per CPU second over SDK, default",
        "RECORD messages of 19 columns: rows per CPU second, the SDK = 1",
        "As above.",
    ),
    Figure(
        "redshift-loads",
        "rows a CPU second, Parquet on S3 over stock",
        "100,000 rows of 150 columns into Redshift: rows per CPU second, the SDK's SQL sink = 1",
        "Redshift reads the files itself; the target sends one COPY.",
    ),
    Figure(
        "s3-small",
        "times as fast as boto3",
        "2,000 objects of 10 KB into Arrow: seconds of boto3 with 32 threads / ours",
        "Many small files are read together.",
    ),
    Figure(
        "s3-columns",
        "times as fast as pyarrow's best",
        "3 of 19 columns of Parquet: seconds of pyarrow at its best / ours",
        "Only the byte ranges of the columns in use are requested.",
    ),
    Figure(
        "s3-csv",
        "times as fast as the best other",
        "CSV of 349 MB into Arrow: seconds of the fastest other reader / ours",
        "Ranges are downloaded over several connections while earlier ones are parsed.",
    ),
    Figure(
        "s3-jsonl-gz",
        "times as fast as pyarrow's best",
        "gzip JSON Lines into Arrow: seconds of pyarrow at its best / ours",
        "pyarrow's parser, and every check; the extra `[native]` is twice as fast.",
    ),
    Figure(
        "s3-torn",
        "torn readings",
        "Readings that mix two versions of an object that is overwritten meanwhile",
        "Every request is for the version that was listed.",
    ),
    Figure(
        "memory-inputs",
        "peak MB, JSON Lines, texts of 60 MB",
        "Peak MB of the tap with `memory_limit_mb: 512`, JSON Lines with texts of 60 MB",
        "Plan for the limit and 250 MB.",
    ),
    Figure(
        "scaling",
        "memory, largest against smallest file",
        "Peak memory with a file of 1 GB, with one of 0.25 GB = 1",
        "Memory does not grow with the file.",
        is_in_readme=True,
    ),
    Figure(
        "start",
        "a run with nothing new over 1,000 objects, seconds",
        "Seconds of a run that finds nothing new among 1,000 objects",
        "A schedule of every minute is fine.",
    ),
    Figure(
        "merge",
        "times as many bytes without the day in the key",
        "Bytes that a MERGE of one day reads in BigQuery: without pruning / with it",
        "The cost of an upsert follows the rows that change, not the table.",
    ),
)
