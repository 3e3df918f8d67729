"""Why goals are not reached: what bounds them, as profiles show; for the page of results."""

LIMITS: dict[tuple[str, str], str] = {
    ("taxi-parquet", "Parquet -> BATCH Parquet, 1 file: rows per CPU second over Airbyte's"): (
        "four fifths of our CPU are Arrow's reader and zstd writer of Parquet, the rest is the start of Python; plain"
        " pyarrow comes to 130 times, plain polars, which compresses less, to 170."
    ),
    (
        "taxi-csv",
        "CSV -> BATCH Parquet, 1 file: rows per CPU second over the fastest of Airbyte, pipelinewise, tap-file",
    ): (
        "the runs of one round differ by more (5.9 to 7.5 CPU seconds) than the goal is missed by; parsing CSV and"
        " writing zstd Parquet, both by Arrow, are nearly all of it."
    ),
    ("taxi-parquet-5", "Parquet -> BATCH Parquet, 5 files: CPU against plain pyarrow read + write"): (
        "files are converted two at a time, where plain pyarrow takes one after the other; each of the two cores"
        " here is slower while the other works, so that it ends sooner, after more CPU seconds."
    ),
    ("s3-columns", "times as fast as pyarrow's best"): (
        "two answers of S3 after one another (footer, then chunks) are 0.06 s of it, and decoding the three columns is"
        " 0.12 CPU seconds, the same for all that decode by Arrow. polars, the fastest here, is no 2.5 times as fast"
        " either."
    ),
    ("s3-parquet", "times as fast as pyarrow's best"): (
        "both decode by the same library on all cores; ours counts what it holds and takes a third of the memory."
    ),
    ("s3-csv", "times as fast as the best other"): (
        "Arrow's CSV parser takes both cores all the time, beside the local S3 that runs on them as well; on more cores"
        " the others wait for one connection, and this does not."
    ),
    ("s3-csv-unlimited", "seconds, against CPU seconds / cores"): (
        "the local S3 runs on the same two cores: with its CPU counted it is 1.1, the rest is the first 60 ms."
    ),
    ("s3-jsonl-gz", "times as fast as pyarrow's best"): (
        "Arrow's JSON parser does most of the work in both, and both have the two cores busy all the time. What igzip"
        " saves is spent on checks that the parser lacks: NaN, two records on a line, keys that are new."
    ),
    ("flight-sql", "rows per CPU second over rows to files"): (
        "psycopg in C fetches binary rows and makes columns by `zip`; the server of the rows is PostgreSQL, the one of"
        " Arrow DuckDB. SQLAlchemy is a ninth of tap-flight-sql, taps of rows are a sixtieth."
    ),
    ("flight-sql", "four endpoints at once, times as fast as one: reading"): (
        "the four processes of the server make and send their rows on the same two cores as the tap, which keeps 0.8 of"
        " a core busy with one endpoint already. Endpoints of 25 MB/s are read three times as fast."
    ),
    ("arrow-batch", "CPU of CSV to Arrow over CSV to Parquet"): (
        "parsing the CSV is most of both: CSV to Arrow, which compresses nothing, takes 3.3 of the 3.9 CPU seconds of"
        " CSV to Parquet."
    ),
    ("avro-from-jsonl", "CPU of json and fastavro over ours"): (
        "parsing JSON by Arrow is most of ours; writing the Avro alone is the case `avro`."
    ),
    ("wide", "rows a second, BATCH Parquet over the stock pipe"): (
        "loading 151 MB takes the local BigQuery longer than the whole goal allows; two processes have to start; and"
        " the tap writes zstd Parquet of values that are all distinct. With `passthrough` it does not."
    ),
    ("record-pipe", "wide: rows per CPU second over SDK, default"): (
        "6 KB of JSON a row are written, carried through the pipe and parsed, rows wait in a spool on disk, and texts"
        " that are all distinct are compressed by zstd, all by compiled code; Python is a fifth of it."
    ),
    ("record-target", "wide: rows per CPU second over SDK, tuned"): (
        "the parsing of 6 KB of JSON a row by Arrow, a spool on disk and zstd on texts that are all distinct are four"
        " fifths of it; Python is the rest."
    ),
    ("scaling-10gb", "memory, largest against smallest file"): (
        "measured beside other work. Memory goes up and down by 100 MB, below `memory_limit_mb` and 250 MB, without a"
        " trend in time; a run that is ten times as long has more moments for its peak."
    ),
    ("redshift-bytes", "bytes through the target over bytes of the files, Parquet on S3"): (
        "only footers pass, asked for by 128 KB each; the files of the case have 15 MB, those of the tap 128."
    ),
}
"""By case and text of the goal."""
