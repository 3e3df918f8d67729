"""Singer messages become rows in tables of the local Redshift, through target-redshift."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from redshift_lines import Loads
from singer_lines import record, rows, schema, state, states

from local_cloud import Cloud
from singer_arrow.errors import LoadError
from singer_arrow.storage.store import Storage

# Formats and types


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
@pytest.mark.parametrize("file_format", ["parquet", "jsonl", "arrow"])
@pytest.mark.parametrize("where", ["s3", "local"])
def test_everything_loads_alike(
    method: str, file_format: str, where: str, redshift: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = redshift.batch
    run = [
        schema(),
        batch(rows(0, 3), file_format=file_format, where=where, batch_id="a"),
        batch(rows(3, 3), file_format=file_format, where=where),
        record(**rows(6, 1)[0]),
        state(1),
    ]
    counts = redshift.run(run, load_method=method)
    assert redshift.table() == rows(0, 7)
    own = {"_sdc_rank": "VARCHAR(1280)"} if method == "upsert" else {}
    assert redshift.columns() == {"id": "BIGINT", "name": "VARCHAR(256)", **own}
    assert (counts["batches"], counts["files"], counts["records"], counts["rows"]) == (2, 2, 1, 7)
    assert states(capsys.readouterr().out) == [1]
    assert redshift.ledger() == {"a": 3}
    assert redshift.staging_tables() == []


@pytest.mark.parametrize("load_format", ["auto", "parquet", "jsonl", "csv"])
@pytest.mark.parametrize("file_format", ["parquet", "jsonl", "arrow"])
def test_every_format_is_copied_as_it_should(file_format: str, load_format: str, redshift: Loads, cloud: Cloud) -> None:
    batches = [redshift.batch(rows(3 * n, 3), file_format=file_format, batch_id=f"{n}") for n in range(4)]
    counts = redshift.run([schema(), *batches, state(1)], load_format=load_format)
    assert redshift.table() == rows(0, 12)
    assert counts["load_jobs"] == 1  # one COPY for all four
    copies = [s for s in cloud.redshift_statements() if s.startswith("COPY") and redshift.schema]
    expected = {"jsonl": "FORMAT AS JSON", "csv": "FORMAT AS CSV"}.get(load_format)
    if expected is None:
        expected = "FORMAT AS JSON" if file_format == "jsonl" else "FORMAT AS PARQUET"
    assert expected in copies[-1]


def test_options_of_copy_are_those_of_the_stream_or_the_run(redshift: Loads, cloud: Cloud) -> None:
    lines = redshift.batch(rows(0, 3), file_format="jsonl", batch_id="a")  # loaded as they are, like Parquet
    run, options = [schema(), lines, redshift.batch(rows(3, 3)), state(1)], ["compupdate PRESET STATUPDATE ON"]
    redshift.run(run, copy_options=[*options, "REGION 'us-east-1'"], replay="load")
    redshift.run(run, copy_options=options, streams={"rows": {"copy_options": ["STATUPDATE"]}}, replay="load")
    redshift.run(run, copy_options=["COMPUPDATE OFF STATUPDATE OFF"], replay="load")
    assert redshift.ids() == sorted([*range(6)] * 3)
    copies = [s.partition("MANIFEST ")[2] for s in cloud.redshift_statements() if s.startswith("COPY")][-6:]
    text, own = "DATEFORMAT 'auto' TIMEFORMAT 'auto' COMPUPDATE", "REGION 'us-east-1'"
    with_options = [f"{text} PRESET STATUPDATE ON {own}", "STATUPDATE ON", f"{text} OFF STATUPDATE", "STATUPDATE"]
    assert sorted(copies) == sorted([*with_options, f"{text} OFF STATUPDATE OFF", "STATUPDATE OFF"])
    with pytest.raises(LoadError, match="us-east-1"):
        redshift.run(run, copy_options=["REGION 'eu-west-1'"], replay="load")


def test_of_files_on_s3_only_footers_pass_through(redshift: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    get = Storage.get

    def noting(self: Storage, url: Any, **options: Any) -> Any:
        read.append(f"{url.name} {sorted(options)}")
        return get(self, url, **options)

    monkeypatch.setattr(Storage, "get", noting)
    run = [schema(), redshift.batch(rows(0, 1000)), redshift.batch(rows(1000, 10), file_format="jsonl", batch_id="b")]
    redshift.run(run)
    assert sorted(read) == ["1.parquet ['suffix']", "2.jsonl.gz ['end', 'start']"]
    assert redshift.ids() == list(range(1010))


def test_nothing_stays_in_the_stage(redshift: Loads, s3: Any, bucket: str) -> None:
    run = [schema(), redshift.batch(rows(0, 10)), redshift.batch(rows(10, 10), where="local"), record(id=20, name="x")]
    redshift.run(run, s3_stage=f"s3://{bucket}/stage")
    assert redshift.ids() == list(range(21))
    keys = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert keys == ["batches/1.parquet"]


TYPES: list[tuple[str, pa.DataType, list[Any], str]] = [
    ("i8", pa.int8(), [-128, 127], "SMALLINT"),
    ("u8", pa.uint8(), [0, 255], "SMALLINT"),
    ("i32", pa.int32(), [-(2**31), 2**31 - 1], "INTEGER"),
    ("u32", pa.uint32(), [0, 2**32 - 1], "BIGINT"),
    ("i64", pa.int64(), [-(2**63), 2**63 - 1], "BIGINT"),
    ("u64", pa.uint64(), [0, 2**64 - 1], "DECIMAL(20, 0)"),
    ("f32", pa.float32(), [0.5, -0.25], "REAL"),
    ("f64", pa.float64(), [1e308, -0.1], "DOUBLE PRECISION"),
    (
        "n",
        pa.decimal128(38, 9),
        [Decimal("12345678901234567890123456789.123456789"), Decimal("-0.000000001")],
        "DECIMAL(38, 9)",
    ),
    ("d", pa.decimal128(12, 2), [Decimal("1234567890.12"), Decimal("-0.01")], "DECIMAL(12, 2)"),
    ("b", pa.bool_(), [True, False], "BOOLEAN"),
    ("s", pa.string(), ["", 'é☃ 日本語 🛩 " \\ \n\t\u0001|,'], "VARCHAR(256)"),
    ("y", pa.binary(), [b"", bytes(range(256))], "VARBYTE(16777216)"),
    ("day", pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], "DATE"),
    ("clock", pa.time64("us"), [time(0, 0), time(23, 59, 59, 999999)], "TIME"),
    (
        "at",
        pa.timestamp("us", "UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)],
        "TIMESTAMPTZ",
    ),
    ("l", pa.list_(pa.int64()), [[1, -2], []], "SUPER"),
    ("st", pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}, {"a": None, "b": ""}], "SUPER"),
    ("m", pa.map_(pa.string(), pa.int64()), [[("k", 1)], []], "SUPER"),
    ("dl", pa.list_(pa.decimal128(20, 2)), [[Decimal("123456789012345678.91")], []], "SUPER"),
]
AS_READ = {"m": [{"k": 1}, {}], "u64": [Decimal(0), Decimal(2**64 - 1)]}
PLAIN = ("i8", "i32", "i64", "f32", "f64", "n", "d", "b", "s", "y", "day", "at", "l", "st")
"""Columns that COPY loads without conversion."""


@pytest.mark.parametrize("load_format", ["auto", "jsonl", "csv"])
@pytest.mark.parametrize("where", ["s3", "local"])
def test_numbers_that_are_none_stay_so(load_format: str, where: str, redshift: Loads) -> None:
    columns = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("r", pa.float32())])
    values = [math.nan, math.inf, -math.inf, 5e-324, None]
    content = [{"id": n, "f": v, "r": v} for n, v in enumerate(values)]
    redshift.run(
        [schema(columns=columns), redshift.batch(content, columns=columns, where=where)], load_format=load_format
    )
    got = redshift.table()
    assert math.isnan(got[0]["f"])
    assert math.isnan(got[0]["r"])
    assert [r["f"] for r in got[1:]] == values[1:]
    assert [r["r"] for r in got[1:]] == [math.inf, -math.inf, 0.0, None]


@pytest.mark.parametrize("method", ["append-only", "upsert"])
def test_long_json_is_loaded_whole(method: str, redshift: Loads) -> None:
    columns = pa.schema([("id", pa.int64()), ("n", pa.decimal128(38, 9)), ("j", pa.list_(pa.string()))])
    long = ["é" * 100_000, None, "x"]
    exact = Decimal("12345678901234567890123456789.123456789")
    run = [schema(columns=columns), record(id=1, j=["short"]), record(id=2, j=long)]
    run.append(redshift.batch([{"id": 3, "n": exact, "j": long}], columns=columns, where="local"))
    redshift.run(run, load_method=method)
    assert [json.loads(r["j"]) for r in redshift.table()] == [["short"], long, long]
    assert redshift.table()[2]["n"] == exact


def as_python(kind: str, value: Any) -> Any:
    """Return the parsed value of SUPER or VARBYTE, which clients receive as text."""
    if kind == "SUPER":
        return json.loads(value, parse_float=Decimal)
    return bytes.fromhex(value) if kind.startswith("VARBYTE") else value


@pytest.mark.parametrize("load_format", ["auto", "jsonl", "csv"])
@pytest.mark.parametrize("only", ["all", "plain"])
def test_every_type_arrives_exactly(load_format: str, only: str, redshift: Loads) -> None:
    types = [t for t in TYPES if only == "all" or t[0] in PLAIN]
    columns = pa.schema([("id", pa.int64()), *((name, kind) for name, kind, _, _ in types)])
    content = [{"id": n, **{name: values[n] for name, _, values, _ in types}} for n in range(2)]
    content.append({"id": 2})
    redshift.run([schema(columns=columns), redshift.batch(content, columns=columns)], load_format=load_format)
    assert redshift.columns() == {"id": "BIGINT", **{name: kind for name, _, _, kind in types}}
    got = redshift.table()
    for n in range(2):
        for name, _, values, kind in types:
            assert as_python(kind, got[n][name]) == AS_READ.get(name, values)[n], name
    assert {n: v for n, v in got[2].items() if v is not None} == {"id": 2}


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
@pytest.mark.parametrize("where", ["s3", "local"])
def test_many_bytes_in_a_table_that_exists(method: str, where: str, redshift: Loads) -> None:
    columns = pa.schema([("id", pa.int64()), ("y", pa.binary())])
    for number, size in enumerate([1, 70_000, 2_000_000]):
        content = [{"id": number, "y": b"y" * size}]
        redshift.run(
            [schema(columns=columns), redshift.batch(content, columns=columns, where=where)], load_method=method
        )
        assert redshift.sql("SELECT OCTET_LENGTH(y) FROM {rows} ORDER BY id DESC LIMIT 1") == [(size,)]
    sizes = redshift.sql(
        "SELECT character_maximum_length FROM svv_columns WHERE column_name = 'y' AND table_schema = %s",
        redshift.schema,
    )
    assert sizes == [(None,)]  # as Redshift's catalog may store it
