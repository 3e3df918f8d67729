"""Singer messages become rows in tables of the local BigQuery, through target-bigquery."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bigquery_traces import load_jobs
from local_settings import GONE
from singer_lines import Batches, batch_of, load, record, rows, schema, state, states

from local_cloud import Cloud
from singer_arrow.errors import NotFoundError
from singer_arrow.formats import WRITABLE, WriteOptions

Config = dict[str, Any]


# Formats and types


@pytest.mark.parametrize("load_format", ["auto", "parquet", "avro", "jsonl"])
@pytest.mark.parametrize("file_format", ["parquet", "jsonl", "arrow"])
def test_every_format_loads_alike(
    file_format: str, load_format: str, config: Config, batch: Batches, table: Any, bq: Any, dataset: str
) -> None:
    lines = [
        schema(),
        batch(rows(0, 3), file_format=file_format, batch_id="a"),
        batch(rows(3, 3), file_format=file_format),
        state(1),
    ]
    load(lines, config | {"load_format": load_format})
    assert table() == rows(0, 6)
    (job,) = load_jobs(bq, dataset)
    source_formats = {"auto": "PARQUET", "jsonl": "NEWLINE_DELIMITED_JSON"}
    assert job.source_format == source_formats.get(load_format, load_format.upper())


TYPES: list[tuple[str, pa.DataType, list[Any], str]] = [
    ("i8", pa.int8(), [-128, 127], "INTEGER"),
    ("u32", pa.uint32(), [0, 2**32 - 1], "INTEGER"),
    ("i64", pa.int64(), [-(2**63), 2**63 - 1], "INTEGER"),
    ("u64", pa.uint64(), [0, 2**64 - 1], "NUMERIC"),
    ("f32", pa.float32(), [0.5, -0.25], "FLOAT"),
    ("f64", pa.float64(), [1e308, -0.1], "FLOAT"),
    (
        "n",
        pa.decimal128(38, 9),
        [Decimal("12345678901234567890123456789.123456789"), Decimal("-0.000000001")],
        "NUMERIC",
    ),
    (
        "bn",
        pa.decimal128(38, 18),
        [Decimal("12345678901234567890.123456789012345678"), Decimal("-1e-18")],
        "BIGNUMERIC",
    ),
    ("d", pa.decimal128(12, 2), [Decimal("1234567890.12"), Decimal("-0.01")], "NUMERIC"),
    ("b", pa.bool_(), [True, False], "BOOLEAN"),
    ("s", pa.string(), ["", 'é☃ 日本語 🛩 " \\ \n\t\u0001'], "STRING"),
    ("y", pa.binary(), [b"", bytes(range(256))], "BYTES"),
    ("day", pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], "DATE"),
    ("clock", pa.time64("us"), [time(0, 0), time(23, 59, 59, 999999)], "TIME"),
    (
        "at",
        pa.timestamp("us", "UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)],
        "TIMESTAMP",
    ),
    ("l", pa.list_(pa.int64()), [[1, -2], []], "INTEGER"),
    ("st", pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}, {"a": None, "b": ""}], "RECORD"),
    ("ls", pa.list_(pa.struct([("x", pa.float64())])), [[{"x": 1.5}, {"x": None}], []], "RECORD"),
    ("m", pa.map_(pa.string(), pa.int64()), [[("k", 1)], []], "JSON"),
    ("ll", pa.list_(pa.list_(pa.int64())), [[[1], [2, 3]], []], "JSON"),
]
AS_READ = {"m": [{"k": 1}, {}], "u64": [Decimal(0), Decimal(2**64 - 1)]}


@pytest.mark.parametrize("file_format", ["parquet", "jsonl", "arrow"])
@pytest.mark.parametrize("load_format", ["parquet", "avro", "jsonl"])
def test_every_type_arrives_exactly(
    load_format: str, file_format: str, config: Config, batch: Batches, table: Any, bq: Any, tmp_path: Path
) -> None:
    types = [t for t in TYPES if load_format != "parquet" or t[3] != "JSON"]
    columns = pa.schema([("id", pa.int64()), *((name, kind) for name, kind, _, _ in types)])
    content = [{"id": n, **{name: values[n] for name, _, values, _ in types}} for n in range(2)]
    content.append({"id": 2})
    message = batch(content, columns=columns)
    if file_format == "jsonl":
        path = tmp_path / "exact.jsonl.gz"
        WRITABLE["jsonl"].write(
            pa.Table.from_pylist(content, columns).to_batches(), columns, path, WriteOptions("gzip")
        )
        message |= {"encoding": {"format": "jsonl"}, "manifest": [path.as_uri()]}
    load([schema(columns=columns), message], config | {"load_format": load_format})
    kinds = {f.name: f.field_type for f in bq.get_table(f"{config['dataset']}.rows").schema}
    assert kinds == {"id": "INTEGER", **{name: kind for name, _, _, kind in types}}
    got = table()
    for n in range(2):
        for name, _, values, _ in types:
            assert got[n][name] == AS_READ.get(name, values)[n], name
    lists = {"l", "ls"}
    assert {n: v for n, v in got[2].items() if v is not None} == {"id": 2, **{key: [] for key in lists}}


def test_parquet_of_plain_types_is_not_rewritten(
    config: Config, batch: Batches, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from target_bigquery.uploads import Files

    uploaded = []
    join = Files.join

    def spy(self: Files, *arguments: Any) -> Any:
        uploaded.append(join(self, *arguments))
        return uploaded[-1]

    monkeypatch.setattr(Files, "join", spy)
    load([schema(), batch(rows(0, 3))], config)
    assert [u.path for u in uploaded] == [tmp_path / "1.parquet"]
    assert table() == rows(0, 3)


def test_nan_and_infinities(config: Config, batch: Batches, table: Any) -> None:
    columns = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    content = [{"id": n, "x": x} for n, x in enumerate((float("inf"), float("-inf"), 0.0, float("nan")))]
    for load_format in ("parquet", "avro"):
        stream = f"s_{load_format}"
        load(
            [schema(stream, columns), batch(content, stream=stream, columns=columns)],
            config | {"load_format": load_format},
        )
        got = [r["x"] for r in table(stream)]
        assert got[:3] == [float("inf"), float("-inf"), 0.0]
        assert got[3] != got[3]


def test_nested_as_json(config: Config, batch: Batches, table: Any, bq: Any) -> None:
    columns = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())])), ("l", pa.list_(pa.string()))])
    content = [{"id": 1, "s": {"a": 2**53 + 1}, "l": ["x", None]}, {"id": 2, "s": None, "l": None}]
    lines = [
        schema(columns=columns),
        batch(content[:1], columns=columns),
        batch(content[1:], columns=columns, file_format="jsonl"),
    ]
    load(lines, config | {"nested": "json"})
    assert [f.field_type for f in bq.get_table(f"{config['dataset']}.rows").schema] == ["INTEGER", "JSON", "JSON"]
    assert table() == content


def test_what_other_taps_write(config: Config, batch: Batches, table: Any, tmp_path: Path) -> None:
    properties = {
        "id": {"type": "integer"},
        "at": {"type": ["null", "string"], "format": "date-time"},
        "free": {"type": ["object", "null"]},
        "price": {"type": "number", "multipleOf": 0.01},
        "name": {"type": ["string", "null"]},
    }
    message = {"type": "SCHEMA", "stream": "rows", "schema": {"properties": properties}, "key_properties": []}
    path = tmp_path / "plain.json"
    content = [
        '{"id": 1, "at": "2026-11-20 11:09:53.074889", "free": {"a": [1, {"b": null}]}, "price": 1.10, "name": ""}',
        '{"id": 2, "at": "2026-11-20T11:09:13.025134+00:00", "extra": [1]}',
        '{"id": 3, "at": "2026-11-20T13:09:13+0200", "free": null, "price": 0.3}',
    ]
    path.write_text("\n".join(content))
    encoding = {"format": "jsonl", "compression": "none"}
    load([message, {"type": "BATCH", "stream": "rows", "encoding": encoding, "manifest": [str(path)]}], config)
    assert table() == [
        {
            "id": 1,
            "at": datetime(2026, 11, 20, 11, 9, 53, 74889, UTC),
            "free": {"a": [1, {"b": None}]},
            "price": Decimal("1.10"),
            "name": "",
        },
        {"id": 2, "at": datetime(2026, 11, 20, 11, 9, 13, 25134, UTC), "free": None, "price": None, "name": None},
        {
            "id": 3,
            "at": datetime(2026, 11, 20, 11, 9, 13, tzinfo=UTC),
            "free": None,
            "price": Decimal("0.3"),
            "name": None,
        },
    ]


def test_a_batch_on_s3_is_read_as_one_on_disk(
    config: Config, batch: Batches, table: Any, s3: Any, bucket: str, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cloud.environ().items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    messages = [batch(rows(n * 2, 2), file_format=f) for n, f in enumerate(("parquet", "jsonl", "parquet"))]
    for message in messages:
        (url,) = message["manifest"]
        path = Path(url.removeprefix("file://"))
        s3.upload_file(str(path), bucket, f"b/{path.name}")
        message["manifest"] = [f"s3://{bucket}/b/{path.name}"]
    load([schema(), *messages], config)
    assert table() == rows(0, 6)


# Messages


def test_records_and_batches_of_several_streams_interleaved(
    config: Config, batch: Batches, table: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [schema("a"), schema("b")]
    for n in range(0, 20, 4):
        lines += [
            *(record("a", **r) for r in rows(n, 2)),
            batch(rows(n, 2), stream="b"),
            batch(rows(n + 2, 2), stream="a", file_format="jsonl"),
            *(record("b", **r) for r in rows(n + 2, 2)),
            state(n),
        ]
    load(lines, config)
    assert table("a") == table("b") == rows(0, 20)
    assert states(capsys.readouterr().out)[-1] == 16


def test_batches_are_gathered_into_few_jobs(config: Config, batch: Batches, table: Any, bq: Any, dataset: str) -> None:
    target = load([schema(), *(batch(rows(n, 1)) for n in range(30))], config)
    assert table() == rows(0, 30)
    assert target.run.tallies.of("rows").counts() == {
        **{"batches": 30, "records": 0, "files": 30, "load_jobs": 1, "rows": 30, "skipped": 0},
        "bytes": target.run.tallies.of("rows").counts()["bytes"],
    }
    assert len(load_jobs(bq, dataset)) == 1


def test_state_is_throttled(config: Config, batch: Batches, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [schema()]
    for n in range(20):
        lines += [batch(rows(n, 1)), state(n)]
    load(lines, config | {"max_batch_mb": 0.001})
    sent = states(capsys.readouterr().out)
    assert sent[-1] == 19
    assert len(sent) <= 4


def test_record_metadata(config: Config, batch: Batches, table: Any) -> None:
    before = datetime.now(UTC)
    lines = [schema(), batch(rows(0, 2), version=5), record(id=2, name="x", version=6)]
    load(lines, config | {"add_record_metadata": True})
    got = table()
    for row, version in zip(got, (5, 5, 6), strict=True):
        assert before <= row["_sdc_received_at"] <= datetime.now(UTC)
        assert before <= row["_sdc_batched_at"] <= datetime.now(UTC)
        assert row["_sdc_table_version"] == version
        assert row["_sdc_sequence"] >= before.timestamp() * 1000 - 1
        assert row["_sdc_sync_started_at"] >= before.timestamp() * 1000 - 1
        assert row["_sdc_deleted_at"] is None
        assert row["_sdc_extracted_at"] == (row["_sdc_received_at"] if version == 5 else None)  # that of a batch
    assert [r["id"] for r in got] == [0, 1, 2]


# Missing files, and removal of temporary files


def test_a_missing_file(config: Config, batch: Batches, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [schema(), batch(rows(0, 2)), state(1), batch_of(GONE, "parquet"), state(2)]
    with pytest.raises(NotFoundError, match=r"/nowhere/gone\.parquet.*a batch file of the manifest is missing"):
        load(lines, config)
    assert 2 not in states(capsys.readouterr().out)


def test_temporary_files_are_gone(
    config: Config, batch: Batches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [schema(), batch(rows(0, 2), file_format="jsonl"), *(record(**r) for r in rows(2, 2))]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    load(messages, config)
    assert list((tmp_path / "temporary").iterdir()) == []
