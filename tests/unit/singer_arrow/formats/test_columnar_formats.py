"""ORC and Arrow IPC."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from singer_arrow.errors import ConfigError, DataError, EmptyObjectError, ObjectChangedError, SchemaError
from singer_arrow.formats import FORMATS, detect_format
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading import chunks as files

TABLE = pa.table({
    "i": pa.array([1, 2, None], pa.int32()),
    "tiny": pa.array([-128, 127, None], pa.int8()),
    "d": pa.array([Decimal("1.23"), None, Decimal("-9.99")], pa.decimal128(38, 2)),
    "t": pa.array([0, 1_700_000_000_123_456_789, None], pa.timestamp("ns")),
    "day": pa.array([date(1, 1, 1), date(9999, 12, 31), None], pa.date32()),
    "b": pa.array([b"\x00\xff", b"", None]),
    "text": pa.array(["é", "", None]),
    "f": pa.array([1.5, None, float("inf")]),
    "yes": pa.array([True, False, None]),
    "l": pa.array([[1, None], [], None], pa.list_(pa.int64())),
    "s": pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": None}]),
    "m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "with.dot": pa.array([1.5, None, 2.5]),
})  # fmt: skip


def _orc(table: pa.Table, **options: Any) -> bytes:
    out = pa.BufferOutputStream()
    orc.write_table(table, out, **options)
    return bytes(out.getvalue())


def _file(table: pa.Table, **options: Any) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, 1000)
    return bytes(out.getvalue())


def _stream(table: pa.Table, **options: Any) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, 1000)
    return bytes(out.getvalue())


def _feather(table: pa.Table, **options: Any) -> bytes:
    out = pa.BufferOutputStream()
    feather.write_feather(table, out, **options)
    return bytes(out.getvalue())


WRITE: dict[str, Callable[..., bytes]] = {
    "a.orc": _orc,
    "a.arrow": _file,
    "a.arrows": _stream,
    "feather.arrow": _feather,
}
each = pytest.mark.parametrize("name", WRITE)
PACKED = [
    *(("a.orc", codec) for codec in ("uncompressed", "snappy", "zlib", "lz4", "zstd")),
    *((name, codec) for name in ("a.arrow", "a.arrows", "feather.arrow") for codec in ("lz4", "zstd")),
]


@each
def test_all_types_are_read(objects: Any, name: str) -> None:
    found = objects.read(WRITE[name](TABLE), name)
    for column in set(TABLE.column_names) - {"t"}:
        assert found[column].to_pylist() == TABLE[column].to_pylist(), column
    assert found["t"].type == pa.timestamp("ns", "UTC")
    assert found["t"].cast(pa.int64()).to_pylist() == [0, 1_700_000_000_123_456_789, None]


@pytest.mark.parametrize(("name", "codec"), PACKED)
def test_all_codecs_of_the_formats_are_read(objects: Any, name: str, codec: str) -> None:
    table = pa.table({"n": range(5000), "t": [f"text {n % 7}" for n in range(5000)]})
    assert objects.read(WRITE[name](table, compression=codec), name).equals(table)


def test_layouts_of_arrow_become_plain_ones(objects: Any) -> None:
    table = pa.table({
        "e": pa.array(["a", "b", "a"]).dictionary_encode(),
        "big": pa.array(["x", None, "y"], pa.large_string()),
        "view": pa.array(["x", None, "y"], pa.string_view()),
        "zoned": pa.array([0, 1, None], pa.timestamp("s", "Europe/Berlin")),
        "u": pa.array([0, 2**64 - 1, None], pa.uint64()),
        "d": pa.array([Decimal(10**50), None, Decimal(1)], pa.decimal256(76, 0)),
        "fixed": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        "half": pa.array([1.5, None, 2.0], pa.float16()),
        "seen": pa.array([[1, 2], None, []], pa.list_view(pa.int64())),
        "large": pa.array([["x"], None, []], pa.large_list_view(pa.string())),
    })  # fmt: skip
    for name in ("a.arrow", "a.arrows"):
        found = objects.read(WRITE[name](table), name)
        assert found["e"].to_pylist() == ["a", "b", "a"]
        assert found["big"].type == found["view"].type == pa.string()
        assert found["zoned"].to_pylist() == [datetime(1970, 1, 1, 0, 0, s, tzinfo=UTC) for s in (0, 1)] + [None]
        assert found.select(["u", "d"]).equals(table.select(["u", "d"]))
        assert found["fixed"].to_pylist() == [[1, 2], None, [3, 4]]
        assert found["half"].to_pylist() == [1.5, None, 2.0]
        assert found["seen"].to_pylist() == [[1, 2], None, []]
        assert found["large"].to_pylist() == [["x"], None, []]


@each
def test_columns_are_found_by_name_and_fitted(objects: Any, name: str) -> None:
    schema = pa.schema([("with.dot", pa.float64()), ("absent", pa.string()), ("i", pa.string())])
    found = objects.read(WRITE[name](TABLE), name, schema)
    assert found.to_pydict() == {"with.dot": [1.5, None, 2.5], "absent": [None] * 3, "i": ["1", "2", None]}
    absent = objects.read(WRITE[name](TABLE), name, pa.schema([("absent", pa.int64())]))
    assert absent.to_pydict() == {"absent": [None] * 3}


@each
def test_batches_are_of_bounded_size_and_the_same_on_every_run(objects: Any, name: str) -> None:
    table = pa.table({"n": range(10_000)})
    runs = []
    for _ in range(2):
        reader = objects.reader(WRITE[name](table), name)
        batches = list(FORMATS[detect_format(name) or ""].read(reader, table.schema, ReadOptions(batch_rows=300)))
        assert pa.Table.from_batches(batches).equals(table)
        assert max(b.num_rows for b in batches) <= 300
        runs.append([b.num_rows for b in batches])
    assert runs[0] == runs[1]


@each
def test_values_that_do_not_fit_are_named(objects: Any, name: str) -> None:
    with pytest.raises(DataError, match=rf"{name}, row 1, column 'text': 'é' is not an integer"):
        objects.read(WRITE[name](TABLE), name, pa.schema([("text", pa.int64())]))


@each
def test_broken_files_are_named(objects: Any, name: str) -> None:
    data = WRITE[name](pa.table({"n": range(100_000), "t": ["x"] * 100_000}))
    schema = pa.schema([("n", pa.int64()), ("t", pa.string())])
    kind = {"a.orc": "ORC"}.get(name, "Arrow IPC")
    for bad in (b"no such file at all", data[: len(data) // 2], b"x" * len(data)):
        with pytest.raises(DataError, match=rf"{name}.*(not an {kind}|broken|it ends before).*Upload the file again"):
            objects.read(bad, name, schema)
    with pytest.raises(EmptyObjectError):
        objects.read(b"", name, schema)
    with pytest.raises(EmptyObjectError):
        objects.infer(b"", name)


def test_an_arrow_file_without_its_end_is_an_error(objects: Any) -> None:
    table = pa.table({"n": range(3000)})
    data = _file(table)
    end = data.index(_stream(table)[-900:-8]) + 892  # after a record batch
    with pytest.raises(DataError, match="it ends before its end mark"):
        objects.read(data[:end], "a.arrow", table.schema)


def test_a_message_that_claims_to_be_huge_takes_no_memory(objects: Any) -> None:
    data = _stream(pa.table({"n": range(10)}))
    forged = data[:4] + (2**31 - 8).to_bytes(4, "little") + data[8:]
    with pytest.raises(DataError, match="at once, more than 1024 MiB"):
        objects.infer(forged, "a.arrows")


@each
def test_names_that_are_duplicate_or_differ_in_case_only(objects: Any, name: str) -> None:
    cased = pa.table({"id": [1], "ID": [2], "Id": [3]})
    assert objects.read(WRITE[name](cased), name).equals(cased)
    if name != "feather.arrow":
        twice = pa.table([[1], [2], [3]], names=["a", "b", "a"])
        with pytest.raises(SchemaError, match="'a' occurs twice"):
            objects.infer(WRITE[name](twice), name)
        with pytest.raises(DataError, match=rf"{name}, column 'a': the file has it twice"):
            objects.read(WRITE[name](twice), name, pa.schema([("a", pa.int64())]))


def test_large_orc_files_are_copied_once_and_give_their_place_back(objects: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(files, "SMALL_OBJECT", 1000)
    table = pa.table({"n": range(50_000), "t": [str(n * 7919) for n in range(50_000)]})
    assert objects.read(_orc(table), "a.orc", table.schema).equals(table)
    assert objects.storage.pinned  # the rows that were read are of one version


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="macOS has no /dev/full")
def test_a_full_disk_is_an_error(objects: Any, monkeypatch: Any, tmp_path: Path) -> None:
    (tmp_path / "object").symlink_to("/dev/full")
    monkeypatch.setattr(files, "SMALL_OBJECT", 1000)
    monkeypatch.setattr(files, "temporary_folder", lambda _: nullcontext(tmp_path))
    data = _orc(pa.table({"n": [str(n * 7919) for n in range(50_000)]}))
    with pytest.raises(ConfigError, match=r"a\.orc cannot be copied to .*No space left on device; make room, or set"):
        objects.read(data, "a.orc", pa.schema([("n", pa.string())]))


def test_orc_timestamps_that_nanoseconds_cannot_hold_are_refused(objects: Any) -> None:
    moments = pa.array([datetime(1500, 1, 1), datetime(2020, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001 - no zone there
    with pytest.raises(DataError, match=r"a\.orc.*out of range.*Deselect the column"):
        objects.read(_orc(pa.table({"t": moments})), "a.orc")


@pytest.mark.parametrize("name", ["a.orc", "a.arrow"])
def test_errors_of_the_store_are_not_changed_while_a_file_is_read(objects: Any, name: str) -> None:
    table = pa.table({"t": [str(n * 7919) for n in range(1_000_000)]})
    reader = objects.reader(WRITE[name](table), name, listed=True)
    batches = FORMATS[name[2:]].read(reader, table.schema, ReadOptions(batch_rows=1000))
    objects.storage.put(objects.url(name), WRITE[name](table.slice(1)))
    with pytest.raises(ObjectChangedError):
        list(batches)


def test_the_schema_of_an_orc_file_takes_its_end_alone(objects: Any) -> None:
    table = pa.table({"t": [str(n * 7919) for n in range(2_000_000)]})
    data = _orc(table, compression="uncompressed")
    assert len(data) > 8 << 20
    reader = objects.reader(data, "a.orc", listed=True)
    assert FORMATS["orc"].infer(reader, ReadOptions(), sample_bytes=1) == pa.schema([("t", pa.string())])
    assert sum(end - start for start, end, _ in objects.storage.asked) < 1 << 20


def test_formats_are_detected_by_their_suffixes() -> None:
    found = {n: detect_format(n) for n in ("a.orc", "a.arrow", "a.arrows", "a.ipc", "a.FEATHER", "a.arrow.gz")}
    assert found == {"a.orc": "orc"} | dict.fromkeys(list(found)[1:], "arrow")


def _varint(n: int) -> bytes:
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


@pytest.mark.parametrize("claimed", [2**31, 100_004])
def test_a_parquet_file_that_claims_more_rows_than_it_has_is_refused(objects: Any, claimed: int) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": range(100_003)}), out, store_schema=False)
    data = out.getvalue()
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8].replace(_varint(2 * 100_003), _varint(2 * claimed))  # in Thrift's encoding of numbers
    forged = data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    assert pq.read_metadata(io.BytesIO(forged)).num_rows == claimed
    reader = objects.reader(forged, "a.parquet")
    with pytest.raises(
        DataError, match=rf"row group 0: (its footer lists {claimed} rows, there are 100003|its data is)"
    ):
        list(FORMATS["parquet"].read(reader, pa.schema([("id", pa.int64())]), ReadOptions()))
