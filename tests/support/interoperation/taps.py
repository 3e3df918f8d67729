"""Configuration of the public taps, and the rows that their tables must contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.peers import Peer

from interoperation.environments import ARROW_SUFFIX
from interoperation.sources import NESTED, dbf_name, plain
from interoperation.things import THINGS, TYPED, Row, text, texts

Config = dict[str, Any]
RECORD = "RECORD"
JSONL = "BATCH, JSON Lines"
PARQUET = "BATCH, Parquet"
ARROW = "BATCH, Arrow"
_SDK_KINDS = (RECORD, JSONL, PARQUET)
_ALL_KINDS = (*_SDK_KINDS, ARROW)


@dataclass(frozen=True)
class Places:
    """Locations of the sources.

    Attributes:
        folder: The folder with the files.
        bucket: The S3 bucket, with the CSV file below `csv/`.
        postgres: The folder with PostgreSQL's socket.
        http: The address of the HTTP server.
        env: Environment variables for access to S3.
    """

    folder: Path
    bucket: str
    postgres: str
    http: str
    env: Mapping[str, str]


@dataclass(frozen=True)
class Tap:
    """A public tap.

    Attributes:
        peer: The package to install.
        program: Its executable.
        config: Its settings.
        expected: The rows that the table must contain; columns that they do not name are not compared.
        table: The table in a warehouse.
        key: The column that identifies rows.
        kinds: The kinds of messages that it writes, one per run.
        catalog: The option for the catalog, for taps that select nothing by default.
        note: Values that the tap changes.
        script: A Python file that the program runs, for a tap whose source is not available here.
    """

    peer: Peer
    program: str
    config: Callable[[Places], Config]
    expected: Callable[[], list[Row]]
    table: str = "things"
    key: str = "id"
    kinds: tuple[str, ...] = (RECORD,)
    catalog: str = ""
    note: str = ""
    script: Path | None = None

    def environment(self, kind: str) -> str:
        """Return the name of the environment that writes a kind of messages."""
        is_encoded_by_sdk = kind == ARROW and self.script is None
        return f"{self.peer.package}{ARROW_SUFFIX}" if is_encoded_by_sdk else self.peer.package


def _rows(change: Callable[[Row], Row]) -> Callable[[], list[Row]]:
    return lambda: [change(row) for row in THINGS]


def _typed(row: Row) -> Row:
    nothing = dict.fromkeys(TYPED)
    return row | (TYPED if row["id"] == 1 else nothing)


def _meltanolabs_postgres(row: Row) -> Row:
    seen = _typed(row)
    seen.pop("zoned_clock")  # times with an offset are kept as written
    return _as_floats(seen, "amount", "wide") | {"raw": seen["raw"] and seen["raw"].hex()}


def _meltanolabs_plain(row: Row) -> Row:
    return {name: value for name, value in _meltanolabs_postgres(row).items() if name != "raw"}


def _pipelinewise_postgres(row: Row) -> Row:
    seen = _typed(row)
    seen.pop("raw")
    midnight = datetime.combine(row["day"], time())
    lists = {name: seen[name] or [] for name in ("tags", "numbers")}
    zoned = seen["zoned_clock"] and time(11, 14, 15)
    return seen | lists | {"day": midnight, "zoned_clock": zoned}


def _as_floats(row: Row, *names: str) -> Row:
    return row | {name: None if row[name] is None else float(row[name]) for name in names}


def _spreadsheet(row: Row) -> Row:
    seen = {n: v for n, v in _as_floats(row, "amount").items() if n not in ("day", "at")}
    return seen | {"good": int(row["good"]), "day": f"{row['day']} 00:00:00"}


def _dbf(row: Row) -> Row:
    midnight = datetime.combine(row["day"], time())
    good = {"id": row["id"], "name": dbf_name(row), "amount": float(row["amount"]), "good": row["good"]}
    return {name.upper(): value for name, value in (good | {"day": midnight}).items()}


def _geo(row: Row) -> Row:
    features = {name: value for name, value in plain(row).items() if name not in ("id", "name")}
    return {"id": float(row["id"]), "name": row["name"], "features": features}


def _from_json(row: Row) -> Row:
    return dict(next(nested for nested in NESTED if nested["id"] == row["id"]))


def _jsonl(row: Row) -> Row:
    return _from_json(row) | {"day": row["day"], "at": row["at"]}


def _flattened(row: Row) -> Row:
    seen = _from_json(row)
    place = seen.pop("place")
    return seen | {"tags": '["a", "\\u00e9"]', "place_lat": place["lat"], "place_floor": place["floor"]}


def _feed(row: Row) -> Row:
    moment = row["at"].replace(microsecond=0)
    return {"entry_id": str(row["id"]), "entry_title": row["name"], "entry_published": moment}


def _csv_numbers(row: Row) -> Row:
    score = Decimal(text(row["score"]))
    return texts(row) | {"id": row["id"], "big": row["big"], "amount": row["amount"], "score": score}


def _number_or_text(row: Row) -> Row:
    return texts(row) | {"amount": str(float(row["amount"]))}


def _calendar() -> list[Row]:
    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(60)]
    return [
        {"date_key": int(f"{d:%Y%m%d}"), "date": d, "weekday_name": f"{d:%A}", "year": d.year, "day_of_year": n + 1}
        for n, d in enumerate(days)
    ]


def _postgres(schema: str) -> Callable[[Places], Config]:
    def config(places: Places) -> Config:
        url = f"postgresql+psycopg://rdsdb:none@localhost/source?host={places.postgres}"
        return {"sqlalchemy_url": url, "filter_schemas": [schema]}

    return config


_S3_TABLES = '[{"table_name": "things", "search_pattern": "csv$", "key_properties": "id", "search_prefix": "csv"}]'


_KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}

_MELTANOLABS_POSTGRES = Tap(
    Peer("meltanolabs-tap-postgres", "3.11"),
    "tap-postgres",
    _postgres("public"),
    _rows(_meltanolabs_postgres),
    table="public_things",
    kinds=(RECORD, PARQUET),
    catalog="--catalog",
    note="`numeric` is a number without bounds: a float; `bytea` is text in SCHEMA, and bytes in Parquet files; "
    "`timetz` is not compared",
)

TAPS: Mapping[str, Tap] = {
    "meltanolabs-tap-postgres": _MELTANOLABS_POSTGRES,
    "meltanolabs-tap-postgres-plain": replace(
        _MELTANOLABS_POSTGRES,
        config=_postgres("plain"),
        expected=_rows(_meltanolabs_plain),
        table="plain_things",
        kinds=(JSONL, PARQUET, ARROW),
        note="`numeric` is a number without bounds: a float; a table without `bytea` and `timetz`",
    ),
    "meltanolabs-tap-snowflake": Tap(
        Peer("meltanolabs-tap-snowflake", "3.11"),
        "python",
        lambda _: {},
        _rows(lambda row: _as_floats(row, "id", "big", "amount")),
        kinds=(ARROW,),
        note="without Snowflake: the tap's encoder and types, called with rows made here; "
        "`NUMBER` is a number, so a float",
        script=Path(__file__).with_name("snowflake_tap.py"),
    ),
    "pipelinewise-tap-postgres": Tap(
        Peer("pipelinewise-tap-postgres", "3.11"),
        "tap-postgres",
        lambda p: {
            **{"host": p.postgres, "port": 5432, "user": "rdsdb", "password": "none", "dbname": "source"},
            "filter_schemas": "public",
        },
        _rows(_pipelinewise_postgres),
        table="public_things",
        catalog="--catalog",
        note="JSON Schema of draft 4; leaves `bytea` out",
    ),
    "tap-csv-folder": Tap(
        Peer("tap-csv-folder", "3.11"),
        "tap-csv-folder",
        lambda p: {"path": str(p.folder / "csv"), "read_mode": "one_stream_per_file"},
        _rows(texts),
        kinds=_SDK_KINDS,
        note="all values are texts",
    ),
    "tap-dbf": Tap(
        Peer("tap-dbf", "3.11"),
        "tap-dbf",
        lambda p: {"path": str(p.folder / "things.dbf")},
        _rows(_dbf),
        key="ID",
        kinds=_ALL_KINDS,
        note="dates come without a time under `format: date-time`",
    ),
    "tap-dimdate": Tap(
        Peer("tap-dimdate", "3.9"),
        "tap-dimdate",
        lambda _: {"start_date": "2026-01-01", "end_date": "2026-03-01"},
        _calendar,
        table="calendar",
        key="date_key",
        note="makes its rows itself",
    ),
    "tap-feed": Tap(
        Peer("tap-feed", "3.9"),
        "tap-feed",
        lambda p: {
            **{"feed_urls": [f"{p.http}/feed.xml"], "start_date": "1900-01-01T00:00:00Z"},
            "feed_entry_fields": ["id", "title", "link"],
        },
        _rows(_feed),
        table="feed",
        key="entry_id",
        note="times have a space instead of T",
    ),
    "tap-filesanywhere": Tap(
        Peer("tap-filesanywhere", "3.11"),
        "tap-filesanywhere",
        lambda p: {
            "start_date": "1970-01-01T00:00:00Z",
            "tables": [
                {
                    **{"path": f"file://{p.folder}/plain", "name": "things", "pattern": ".*[.]csv", "format": "csv"},
                    "key_properties": ["id"],
                }
            ],
        },
        lambda: [texts(row) for row in THINGS if row["id"] != 2],
        kinds=(RECORD, JSONL),
        note="all values are texts; splits quoted values at commas, so the row that has one is not in its source",
    ),
    "tap-geo": Tap(
        Peer("tap-geo", "3.11"),
        "tap-geo",
        lambda p: {
            "files": [
                {
                    **{"paths": [str(p.folder / "things.geojson")], "table_name": "things", "primary_keys": ["id"]},
                    "expose_fields": ["id", "name"],
                }
            ]
        },
        _rows(_geo),
        kinds=(RECORD, JSONL),
        note="ids are numbers, so floats",
    ),
    "tap-jsonfile": Tap(
        Peer("tap-jsonfile", "3.11"),
        "tap-jsonfile",
        lambda p: {"paths": [f"{p.folder}/json/*.json"], "stream_name": "things"},
        _rows(_from_json),
        kinds=_ALL_KINDS,
        note="dates and times are texts",
    ),
    "tap-jsonl": Tap(
        Peer("tap-jsonl", "3.11"),
        "tap-jsonl",
        lambda p: {"path": str(p.folder / "things.jsonl"), "stream_name": "things", "primary_keys": ["id"]},
        _rows(_jsonl),
        kinds=_ALL_KINDS,
    ),
    "tap-minio-csv": Tap(
        Peer("tap-minio-csv", "3.9"),
        "tap-minio-csv",
        lambda p: {
            **{"start_date": "2000-01-01T00:00:00Z", "bucket": p.bucket, "endpoint_url": p.env["AWS_ENDPOINT_URL"]},
            **_KEYS,
            "tables": _S3_TABLES,
        },
        _rows(_number_or_text),
        catalog="--properties",
        note="numbers may be numbers or texts, so columns are texts",
    ),
    "pipelinewise-tap-s3-csv": Tap(
        Peer("pipelinewise-tap-s3-csv", "3.11"),
        "tap-s3-csv",
        lambda p: {
            **{"start_date": "2000-01-01T00:00:00Z", "bucket": p.bucket},
            **_KEYS,
            "aws_endpoint_url": p.env["AWS_ENDPOINT_URL"],
            "tables": [
                {
                    **{"table_name": "things", "search_prefix": "csv", "search_pattern": "csv$"},
                    **{"key_properties": ["id"], "delimiter": ","},
                }
            ],
        },
        _rows(texts),
        catalog="--properties",
        note="all values are texts",
    ),
    "tap-rest-api-msdk": Tap(
        Peer("tap-rest-api-msdk", "3.11"),
        "tap-rest-api-msdk",
        lambda p: {
            "api_url": p.http,
            "streams": [
                {
                    **{"name": "things", "path": "/things", "records_path": "$.things[*]", "primary_keys": ["id"]},
                    "num_inference_records": 50,
                }
            ],
        },
        _rows(_flattened),
        kinds=(RECORD, JSONL),
        note="flattens objects, lists become texts, dates and times are texts",
    ),
    "tap-s3-csv": Tap(
        Peer("tap-s3-csv", "3.11"),
        "tap-s3-csv",
        lambda p: {
            **{"start_date": "1970-01-01T00:00:00Z", "bucket": p.bucket},
            **{"account_id": "1", "external_id": "none", "role_name": "none", "tables": _S3_TABLES},
        },
        _rows(_csv_numbers),
        catalog="--catalog",
        note="numbers with a fraction are texts with `format: singer.decimal`, which become decimals",
    ),
    "tap-singer-jsonl": Tap(
        Peer("tap-singer-jsonl", "3.11"),
        "tap-singer-jsonl",
        lambda p: {"source": "local", "local": {"folders": [str(p.folder / "singer")], "recursive": False}},
        _rows(_jsonl),
        note="replays messages from a file",
    ),
    "tap-spreadsheets": Tap(
        Peer("tap-spreadsheets", "3.11"),
        "tap-spreadsheets",
        lambda p: {
            "files": [
                {
                    **{"path": str(p.folder / "things.xlsx"), "format": "excel", "worksheet": "things"},
                    **{"table_name": "things", "primary_keys": ["id"]},
                }
            ]
        },
        _rows(_spreadsheet),
        kinds=_ALL_KINDS,
        note="booleans are 0 and 1, dates and times are texts; times are not compared",
    ),
}
