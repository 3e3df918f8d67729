from __future__ import annotations

import io
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import ConfigError, DataError, EmptyObjectError, SchemaError
from singer_arrow.formats import FORMATS, WRITABLE, WriteOptions
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

PARQUET = WRITABLE["parquet"]
MICROSECONDS = pa.timestamp("us", "UTC")


def _file(table: pa.Table, **options: Any) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(table, out, **options)
    return bytes(out.getvalue())


def _wide(rows: int, columns: int = 12) -> pa.Table:
    rng = random.Random(1)
    return pa.table({f"c{i}": [rng.random() for _ in range(rows)] for i in range(columns)})


def _flipped(data: bytes) -> bytes:
    return data[:9000] + bytes([data[9000] ^ 1]) + data[9001:]


NESTED = pa.table({
    "i": pa.array([1, 2, None], pa.int32()),
    "u": pa.array([1, 2**64 - 1, None], pa.uint64()),
    "d": pa.array([Decimal("1.23"), None, Decimal("-9.99")], pa.decimal128(38, 2)),
    "big": pa.array([Decimal(10**50), None, Decimal(1)], pa.decimal256(76, 0)),
    "t": pa.array([0, 1, None], pa.timestamp("ms")),
    "zoned": pa.array([0, 1, None], pa.timestamp("us", "Europe/Berlin")),
    "ns": pa.array([0, 1, None], pa.timestamp("ns", "UTC")),
    "day": pa.array([0, 1, None], pa.date32()),
    "time": pa.array([0, 1, None], pa.time64("us")),
    "b": pa.array([b"\x00\xff", b"", None]),
    "l": pa.array([[1, None], [], None], pa.list_(pa.int64())),
    "s": pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": None}]),
    "m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "e": pa.array(["a", "b", "a"]).dictionary_encode(),
    "with.dot": pa.array([1.5, None, 2.5]),
})  # fmt: skip


def test_the_schema_is_that_of_the_footer_in_canonical_types(objects: Any) -> None:
    found = objects.infer(_file(NESTED), "a.parquet")
    assert found.field("t").type == MICROSECONDS
    assert found.field("zoned").type == MICROSECONDS
    assert found.field("ns").type == pa.timestamp("ns", "UTC")
    assert found.field("e").type == pa.string()
    assert found.field("big").type == pa.decimal256(76, 0)
    assert objects.storage.asked == [(None, None, 128 << 10)]


def test_all_types_are_read_and_timestamps_are_instants(objects: Any) -> None:
    table = objects.read(_file(NESTED), "a.parquet")
    for name in set(NESTED.column_names) - {"t", "zoned", "ns", "e"}:
        assert table[name].to_pylist() == NESTED[name].to_pylist(), name
    assert table["t"].to_pylist() == [datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 1000, UTC), None]
    assert table["zoned"].cast(pa.int64()).to_pylist() == [0, 1, None]
    assert table["e"].to_pylist() == ["a", "b", "a"]


def test_int96_timestamps_beyond_the_range_of_nanoseconds(objects: Any) -> None:
    moments = [datetime(1500, 1, 1), datetime(9999, 12, 31)]  # noqa: DTZ001 - the file's type has no zone
    data = _file(pa.table({"t": pa.array(moments, pa.timestamp("us"))}), use_deprecated_int96_timestamps=True)
    assert objects.read(data, "a.parquet")["t"].to_pylist() == [m.replace(tzinfo=UTC) for m in moments]


def test_only_the_columns_of_the_schema_are_requested(objects: Any) -> None:
    table = _wide(200_000)
    data = _file(table, row_group_size=50_000, compression="none", use_dictionary=False)
    reader = objects.reader(data, "wide.parquet", listed=True)
    schema = pa.schema([("c7", pa.float64()), ("c1", pa.float64()), ("absent", pa.string())])
    batches = list(PARQUET.read(reader, schema, ReadOptions(batch_rows=20_000)))
    assert pa.Table.from_batches(batches).select(["c7", "c1"]).equals(table.select(["c7", "c1"]))
    assert [b.num_rows for b in batches] == [20_000, 20_000, 10_000] * 4
    asked = sum(end - start for start, end, _ in objects.storage.asked)
    assert all(objects.storage.pinned)
    assert len(objects.storage.asked) <= 1 + 4 * 2
    assert asked < 0.4 * len(data)


def test_small_files_are_one_request(objects: Any) -> None:
    reader = objects.reader(_file(_wide(1000)), "small.parquet", listed=True)
    schema = PARQUET.infer(reader, ReadOptions(), sample_bytes=0)
    assert len(list(PARQUET.read(reader, schema, ReadOptions()))) == 1
    assert len(objects.storage.asked) == 1, "for both the schema and the rows"


class _Sequential(Storage):
    """A store of a scheme that supports only sequential reads."""

    def open(self, url: Url) -> BinaryIO:
        return io.BytesIO(_file(NESTED))


def test_files_of_schemes_without_ranges_are_copied_first() -> None:
    reader = ObjectReader(_Sequential(), Url("https", "host", "a.parquet"))
    schema = PARQUET.infer(reader, ReadOptions(), sample_bytes=0)
    assert sum(b.num_rows for b in PARQUET.read(reader, schema, ReadOptions())) == 3


@pytest.mark.parametrize("limit", [1 << 30, 4 << 20])
def test_row_groups_above_the_budget_are_read_through_windows(objects: Any, limit: int) -> None:
    table = _wide(150_000)
    data = _file(table, row_group_size=100_000, compression="none", use_dictionary=False)
    budget = Budget(limit)
    reader = objects.reader(data, "large.parquet", listed=True, budget=budget)
    found = pa.Table.from_batches(PARQUET.read(reader, table.schema, ReadOptions()))
    assert found.equals(table)
    assert budget.fetched.used == 0
    assert budget.fetched.peak < max(limit, 8 << 20)


def test_columns_are_found_by_name_and_fitted(objects: Any) -> None:
    schema = pa.schema([("i", pa.int64()), ("s", pa.struct([("y", pa.string())])), ("with.dot", pa.string())])
    assert objects.read(_file(NESTED), "a.parquet", schema).to_pylist() == [
        {"i": 1, "s": {"y": '["a"]'}, "with.dot": "1.5"},
        {"i": 2, "s": None, "with.dot": None},
        {"i": None, "s": {"y": None}, "with.dot": "2.5"},
    ]
    batches = list(PARQUET.read(objects.reader(_file(NESTED)), pa.schema([]), ReadOptions()))
    assert [b.num_rows for b in batches] == [3]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n", "not a Parquet file"),
        (_file(NESTED)[:-8], "not a Parquet file, or its footer is broken"),
        (_file(NESTED)[:-8] + b"\xff\xff\xff\x7fPAR1", "not a Parquet file, or its footer is broken"),
        (b"PAR1" + bytes(500) + b"\x10\x00\x00\x00PAR1", "not a Parquet file, or its footer is broken"),
        (_file(NESTED)[:-4] + b"PARE", "encrypted"),
        (b"PAR1" + bytes(5000) + _file(_wide(5000))[5004:], "row group 0: its data is broken"),
        (_flipped(_file(_wide(5000), write_page_checksum=True)), "row group 0: its data is broken"),
    ],
    ids=range(7),
)
def test_broken_files_are_named(objects: Any, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        objects.read(data, "bad.parquet")
    assert str(caught.value).startswith(str(objects.url("bad.parquet")))
    assert "\n" not in str(caught.value)


def test_values_that_do_not_fit_are_named(objects: Any) -> None:
    table = pa.table({"a": [1.0, 2.0, 3.5]})
    with pytest.raises(DataError, match=r"bad.parquet, row group 1, row [0-9]+, column 'a': 3.5 is not an integer"):
        objects.read(_file(table, row_group_size=2), "bad.parquet", pa.schema([("a", pa.int64())]))
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SchemaError, match="'a' occurs twice"):
        objects.infer(_file(twice), "bad.parquet")
    with pytest.raises(EmptyObjectError):
        objects.read(b"", "empty.parquet")


@pytest.mark.parametrize("compression", [None, "zstd", "snappy", "gzip", "none"])
def test_what_is_written_is_read_as_it_was(tmp_path: Path, compression: str | None) -> None:
    path = tmp_path / "out.parquet"
    rows = PARQUET.write(iter(NESTED.to_batches(max_chunksize=2)), NESTED.schema, path, WriteOptions(compression))
    assert rows == 3
    assert pq.read_table(path).equals(NESTED)
    found = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
    assert found == {None: "ZSTD", "none": "UNCOMPRESSED"}.get(compression, str(compression).upper())


def test_a_file_without_rows_has_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert PARQUET.write(iter([]), NESTED.schema, path) == 0
    assert pq.read_schema(path).equals(NESTED.schema)


def test_dictionaries_only_where_they_pay_and_row_groups_of_a_good_size(tmp_path: Path) -> None:
    path, rows = tmp_path / "out.parquet", 1_500_000
    batch = pa.record_batch({"unique": pa.array(range(rows)), "few": pa.array([i % 3 for i in range(rows)])})
    schema, step = batch.schema, 100_000
    PARQUET.write((batch.slice(i, step) for i in range(0, rows, step)), schema, path)
    metadata = pq.ParquetFile(path).metadata
    assert [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)] == [1_000_000, 500_000]
    encodings = [metadata.row_group(0).column(i).encodings for i in range(2)]
    assert "RLE_DICTIONARY" not in encodings[0]
    assert "RLE_DICTIONARY" in encodings[1]


def test_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'lzo'"):
        PARQUET.write(iter([]), NESTED.schema, tmp_path / "x", WriteOptions("lzo"))


def test_the_format_is_detected_by_its_suffix() -> None:
    from singer_arrow.formats import detect_format

    names = {"a.csv.gz": "csv", "a.TSV": "csv", "b.ndjson.zst": "jsonl", "b.json": "jsonl", "c.parquet": "parquet"}
    assert {name: detect_format(name) for name in names} == names
    assert detect_format("a.txt") is None
    assert set(WRITABLE) < set(FORMATS)


def test_a_footer_is_asked_for_once_in_a_run(objects: Any) -> None:
    data = _file(_wide(200_000), row_group_size=50_000)
    reader = objects.reader(data, "kept.parquet", listed=True)
    schema = PARQUET.infer(reader, ReadOptions(), sample_bytes=0)
    first = len(objects.storage.asked)
    again = ObjectReader(objects.storage, reader.url, info=reader.info)
    assert PARQUET.infer(again, ReadOptions(), sample_bytes=0).equals(schema)
    assert len(objects.storage.asked) == first
    elsewhere = ObjectReader(other := type(objects.storage)(), reader.url, info=reader.info)
    assert PARQUET.infer(elsewhere, ReadOptions(), sample_bytes=0).equals(schema)
    assert other.asked, "another storage may mean another object by the same name"
    objects.write(_file(NESTED), "kept.parquet")
    changed = ObjectReader(objects.storage, reader.url, info=objects.storage.head(reader.url))
    assert PARQUET.infer(changed, ReadOptions(), sample_bytes=0) != schema


def test_small_row_groups_are_decoded_side_by_side(objects: Any) -> None:
    table = _wide(30_000)
    reader = objects.reader(_file(table, row_group_size=1000), "groups.parquet", budget=Budget(8 << 20, 4 << 20))
    batches = list(PARQUET.read(reader, table.schema, ReadOptions(batch_rows=600)))
    assert [b.num_rows for b in batches] == [600, 400] * 30
    assert pa.Table.from_batches(batches).equals(table)
    assert reader.budget.decoded.used == 0
    assert 0 < reader.budget.decoded.peak <= 4 << 20
