"""Why goals are not reached: what bounds them, as profiles show; for the page of results."""

LIMITS: dict[tuple[str, str], str] = {
    ("taxi-parquet", "Parquet -> BATCH Parquet, 1 file: seconds over DuckDB's"): (
        "a second of ours is the start, as below; DuckDB takes more CPU seconds for the rest."
    ),
    ("taxi-parquet", "Parquet -> BATCH Parquet, 1 file: rows per CPU second over Airbyte's"): (
        "measured on a machine whose speed changed by half between runs; it was 201 on a steady one. Five files: 288."
    ),
    **dict.fromkeys(
        (
            ("taxi-csv", "CSV -> BATCH Parquet, 1 file: seconds over DuckDB's"),
            ("taxi-csv", "CSV -> BATCH Parquet, 1 file: CPU seconds over DuckDB's"),
            ("taxi-csv-gz", "CSV.GZ -> BATCH Parquet, 1 file: seconds over DuckDB's"),
            ("taxi-csv-gz", "CSV.GZ -> BATCH Parquet, 1 file: CPU seconds over DuckDB's"),
        ),
        "the start of Python, the plan and the answers of S3 one after the other are a second of ours; of a larger file"
        " on local disk, case `scaling`, it is less.",
    ),
    ("s3-small", "times as fast as boto3"): (
        "measured on a machine whose speed changed by half between runs; it was 4.9 on a steady one."
    ),
    ("s3-parquet", "times as fast as pyarrow's best"): (
        "its dataset is faster by a sixth, with 866 MB where ours has 310: we ask for ranges within a budget of memory."
    ),
    ("taxi-parquet", "Parquet -> BATCH Parquet, 1 file: seconds over polars'"): (
        "polars compresses less (72 MB where ours and DuckDB's are 48). A second of ours is the start: Python and its"
        " imports, and the answers of S3 to a listing, a look at the plan and the footer, one after the other. Another"
        " encoder would not change that: the Rust crate `parquet` 60.1 reads 10 million trips and writes them, by zstd"
        " of level 1, in 4.2 CPU seconds, Arrow in 4.45 (149 and 148 MB), and polars in 5.0 (179 MB)."
    ),
    ("taxi-parquet", "Parquet -> BATCH Parquet, 1 file: CPU against plain pyarrow read + write"): (
        "row groups are encoded on both cores at once, each of which is slower while the other works: a quarter less"
        " time for a tenth more CPU seconds. The start of Python, listing and plan are most of the rest."
    ),
    ("taxi-parquet-5", "Parquet -> BATCH Parquet, 5 files: CPU against plain pyarrow read + write"): (
        "files are converted two at a time, where plain pyarrow takes one after the other; each of the two cores"
        " here is slower while the other works, so that it ends sooner, after more CPU seconds."
    ),
    **dict.fromkeys(
        (
            ("taxi-jsonl-gz", "JSONL.GZ -> BATCH Parquet, 1 file: seconds over the least of polars' and DuckDB's"),
            ("taxi-jsonl-gz", "JSONL.GZ -> BATCH Parquet, 1 file: CPU seconds over the least of polars' and DuckDB's"),
        ),
        "pyarrow's parser of JSON, which `pip install` brings, takes ten of the twelve CPU seconds; a script takes"
        " as many. The extra `[native]` takes less than DuckDB and polars.",
    ),
    ("s3-jsonl-gz", "times as fast as pyarrow's best"): (
        "it is the parser of pyarrow that reads; the checks of what it lets through take a tenth of its time. With the"
        " extra `[native]` it is 2.4."
    ),
    **dict.fromkeys(
        (
            ("record-pipe", "wide: rows per CPU second over SDK, default"),
            ("record-pipe", "narrow: rows per CPU second over SDK, default"),
            ("record-target", "wide: rows per CPU second over SDK, tuned"),
            ("record-target", "narrow: rows per CPU second over SDK, tuned"),
        ),
        "two fifths of the target's CPU time are the parser of pyarrow, a tenth are checks of its columns, a fifth the"
        " reading of lines from the pipe. The extra `[native]` reaches 1.7 to 3 times as many rows.",
    ),
    ("start", "a run with nothing new over 1,000 objects, seconds"): (
        "Python and the imports are half of it, and boto3, which lists, a tenth. The rest is answers of S3 one after"
        " another, 30 ms each: the listing, samples of five objects by two threads, and the plan. With a catalog no"
        " samples are read."
    ),
    ("start", "one object into a table, seconds beyond the warehouse's"): (
        "two processes start on two cores, of which the local BigQuery takes a part; the tap lists, looks for a plan,"
        " reads a sample and the object, and writes a plan and a batch file, before the target can begin to load."
    ),
    ("scaling", "MB a second, two cores against one"): (
        "the start of Python is done by one core; each core is slower while the other works."
    ),
    **dict.fromkeys(
        (
            ("scaling", "CSV, largest file: seconds over DuckDB's"),
            ("scaling", "CSV, largest file: CPU seconds over DuckDB's"),
        ),
        "Arrow's parser is 3.0 and the zstd encoder 2.7 of 8.2 CPU seconds for 522 MB, the start 0.7: what remains for"
        " all checks, conversions and messages is less than the goal asks to save.",
    ),
    **dict.fromkeys(
        (
            ("cores", f"{files}: two cores, times as fast as one")
            for files in ("JSON Lines, 1 file", "JSON Lines, 8 files", "Parquet, 1 file")
        ),
        "one core starts Python, imports and infers the schema, 0.4 of 4 to 5 seconds (of several files, from samples"
        " of five); at the end a last row group is encoded and copied; and each core is a little slower while the"
        " other works.",
    ),
    **dict.fromkeys(
        (
            ("lock", f"{kind}, {files}: seconds of the lock over CPU seconds")
            for kind in ("CSV", "JSON Lines", "gzip JSON Lines", "Parquet")
            for files in ("1 file", "4 files")
        ),
        "threads that hold the lock wait for one of two cores, which others keep busy, and are counted. Of the samples"
        " of one file of CSV 0.58 are in parsing blocks of text, of JSON Lines 0.18 in inferring the schema and 0.11 in"
        " parsing, of Parquet 0.2 in reading the footers of row groups that were encoded side by side; the rest are"
        " spread over threads, queues and the beginning of the run.",
    ),
    ("s3-columns", "times as fast as pyarrow's best"): (
        "two answers of S3 after one another (footer, then chunks) are 0.06 s of it, and decoding the three columns is"
        " 0.12 CPU seconds, the same for all that decode by Arrow. polars, the fastest here, is no 2.5 times as fast"
        " either."
    ),
    ("s3-columns", "seconds over those of the limit"): (
        "of the 0.10 seconds between them, half is the CPU of the local S3, which sends 50 ranges from the same cores,"
        " and half is receiving them; polars, at 1.59 of the limit, has the same."
    ),
    ("s3-csv", "seconds over those of the limit"): (
        "the local S3 takes 0.6 CPU seconds of the same cores, and receiving 349 MB takes 0.5 of ours;"
        " the limit had its bytes before."
    ),
    ("s3-csv", "times as fast as the best other"): (
        "Arrow's CSV parser takes both cores all the time, beside the local S3 that runs on them as well; on more cores"
        " the others wait for one connection, and this does not."
    ),
    ("s3-csv-unlimited", "seconds, against CPU seconds / cores"): (
        "the local S3 runs on the same two cores: with its CPU counted it is 1.1, the rest is the first 60 ms."
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
        "parsing JSON is a part of ours; writing the Avro alone is the case `avro`."
    ),
    **dict.fromkeys(
        ((case, "rows a second, BATCH Parquet over the stock pipe") for case in ("wide", "wide-1m")),
        "40 times is 4.3 seconds for 100,000 rows, of which the local BigQuery takes 2.8 to 3.7 for its load jobs.",
    ),
    **dict.fromkeys(
        ((case, "the same without the load jobs' time") for case in ("wide", "wide-1m")),
        "100 times is 1.6 seconds for 100,000 rows: the tap alone takes 3.4 CPU seconds, of which reading and"
        " writing zstd Parquet of values that are all distinct is 2.9, and the target 1.1. With `passthrough` both take"
        " 1.7 CPU seconds, in 3.0 seconds.",
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
