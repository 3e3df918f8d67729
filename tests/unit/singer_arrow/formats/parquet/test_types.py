"""Each physical and logical type of Parquet, from any writer."""

from __future__ import annotations

import base64
import io
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from parquet_by_hand import OPTIONAL, REPEATED, Byte, Kind, Lie, Long, Node, Old, Struct, parquet

from singer_arrow.errors import DataError
from singer_arrow.formats.parquet_read import ParquetFormat
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress
from singer_arrow.schema.arrow_schema import json_field

US, NS = pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")
DAY = 2440588  # 1970-01-01 as INT96 counts days


def i32(*values: int) -> bytes:
    return b"".join(v.to_bytes(4, "little", signed=v < 0) for v in values)


def i64(*values: int) -> bytes:
    return b"".join(v.to_bytes(8, "little", signed=v < 0) for v in values)


def texts(*values: bytes) -> bytes:
    return b"".join(len(v).to_bytes(4, "little") + v for v in values)


def leaf(kind: Kind, data: bytes, **more: Any) -> Node:
    return Node("c", kind, data=data, count=2, **more)


def decimal(kind: Kind, data: bytes, precision: int, **more: Any) -> Node:
    logical = (5, Struct({1: 2, 2: precision}))
    return leaf(kind, data, old=Old.DECIMAL, logical=logical, scale=2, precision=precision, **more)


def integer(bits: int, signed: bool, *values: int) -> Node:
    logical = (10, Struct({1: Byte(bits), 2: signed}))
    return leaf(Kind.INT64 if bits == 64 else Kind.INT32, (i64 if bits == 64 else i32)(*values), logical=logical)


def moment(number: int, unit: int, utc: bool, data: bytes) -> Node:
    """Return a TIME (7) or TIMESTAMP (8) of milliseconds (1), microseconds (2), or nanoseconds (3)."""
    kind = Kind.INT32 if (number, unit) == (7, 1) else Kind.INT64
    return leaf(kind, data, logical=(number, Struct({1: utc, 2: Struct({unit: Struct()})})))


MONEY = [Decimal("1.23"), Decimal("-4.56")]
SHORT, WIDE = (123).to_bytes(1), (-456).to_bytes(2, signed=True)
T0, T1 = datetime(1970, 1, 1, tzinfo=UTC), datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
CASES: dict[str, tuple[Node, pa.DataType, list[Any]]] = {
    "BOOLEAN": (leaf(Kind.BOOLEAN, b"\x02"), pa.bool_(), [False, True]),
    "INT32": (leaf(Kind.INT32, i32(-1, 1)), pa.int32(), [-1, 1]),
    "INT64": (leaf(Kind.INT64, i64(-1, 1)), pa.int64(), [-1, 1]),
    "FLOAT": (leaf(Kind.FLOAT, struct.pack("<ff", 1.5, -2)), pa.float32(), [1.5, -2]),
    "DOUBLE": (leaf(Kind.DOUBLE, struct.pack("<dd", 0.1, -2)), pa.float64(), [0.1, -2]),
    "FLOAT16": (leaf(Kind.FIXED, struct.pack("<ee", 1.5, -2), size=2, logical=(15, Struct())), pa.float16(), [1.5, -2]),
    "INT96": (leaf(Kind.INT96, i64(0) + i32(DAY) + i64(6400 * 10**9) + i32(DAY + 11574)), US, [T0, T1]),
    "BYTE_ARRAY": (leaf(Kind.BYTE_ARRAY, texts(b"", b"\xff")), pa.binary(), [b"", b"\xff"]),
    "FIXED": (leaf(Kind.FIXED, b"abcdef", size=3), pa.binary(), [b"abc", b"def"]),
    "STRING": (leaf(Kind.BYTE_ARRAY, texts(b"", "é".encode()), logical=(1, Struct())), pa.string(), ["", "é"]),
    "UTF8": (leaf(Kind.BYTE_ARRAY, texts(b"", "é".encode()), old=Old.UTF8), pa.string(), ["", "é"]),
    "ENUM": (leaf(Kind.BYTE_ARRAY, texts(b"A", b"B"), logical=(4, Struct())), pa.string(), ["A", "B"]),
    "old ENUM": (leaf(Kind.BYTE_ARRAY, texts(b"A", b"B"), old=Old.ENUM), pa.string(), ["A", "B"]),
    "BSON": (leaf(Kind.BYTE_ARRAY, texts(b"\5\0\0\0\0", b"x"), old=Old.BSON), pa.binary(), [b"\5\0\0\0\0", b"x"]),
    "INTERVAL": (
        leaf(Kind.FIXED, i32(1, 2, 3, 4, 5, 6), size=12, old=Old.INTERVAL), pa.binary(), [i32(1, 2, 3), i32(4, 5, 6)],
    ),
    "UUID": (
        leaf(Kind.FIXED, bytes(range(32)), size=16, logical=(14, Struct())),
        pa.binary(), [bytes(range(16)), bytes(range(16, 32))],
    ),
    "a type to come": (leaf(Kind.BYTE_ARRAY, texts(b"a", b"b"), logical=(40, Struct())), pa.binary(), [b"a", b"b"]),
    "DATE": (leaf(Kind.INT32, i32(-1, 0), logical=(6, Struct())), pa.date32(), [date(1969, 12, 31), date(1970, 1, 1)]),
    "decimal in INT32": (decimal(Kind.INT32, i32(123, -456), 5), pa.decimal128(5, 2), MONEY),
    "decimal in INT64": (decimal(Kind.INT64, i64(123, -456), 15), pa.decimal128(15, 2), MONEY),
    "decimal in FIXED": (
        decimal(Kind.FIXED, (123).to_bytes(5) + (-456).to_bytes(5, signed=True), 10, size=5),
        pa.decimal128(10, 2), MONEY,
    ),
    "decimal in BYTE_ARRAY": (decimal(Kind.BYTE_ARRAY, texts(SHORT, WIDE), 30), pa.decimal128(30, 2), MONEY),
    "large decimal": (decimal(Kind.BYTE_ARRAY, texts(SHORT, WIDE), 60), pa.decimal256(60, 2), MONEY),
    **{f"INT_{n}": (integer(n, True, -(2 ** (n - 1)), 1), getattr(pa, f"int{n}")(), [-(2 ** (n - 1)), 1])
       for n in (8, 16, 32, 64)},
    **{f"UINT_{n}": (integer(n, False, 2**n - 1, 1), getattr(pa, f"uint{n}")(), [2**n - 1, 1])
       for n in (8, 16, 32, 64)},
    **{f"old {old.name}": (leaf(Kind.INT64 if old.name.endswith("64") else Kind.INT32, data, old=old), t, [7, 1])
       for old, t, data in [
           *((Old(11 + i), t(), i32(7, 1)) for i, t in enumerate((pa.uint8, pa.uint16, pa.uint32))),
           *((Old(15 + i), t(), i32(7, 1)) for i, t in enumerate((pa.int8, pa.int16, pa.int32))),
           (Old.UINT_64, pa.uint64(), i64(7, 1)), (Old.INT_64, pa.int64(), i64(7, 1)),
       ]},
    **{f"TIME of {name}, {utc}": (
        moment(7, unit, utc, data), pa.time64("ns" if unit == 3 else "us"), [time(0, 0, 1), time(23, 59, 59)])
       for utc in (True, False)
       for name, unit, data in [
           ("milliseconds", 1, i32(1000, 86_399_000)),
           ("microseconds", 2, i64(10**6, 86_399 * 10**6)),
           ("nanoseconds", 3, i64(10**9, 86_399 * 10**9)),
       ]},
    **{f"TIMESTAMP of {name}, {utc}": (
        moment(8, unit, utc, i64(0, 10**9 * 1000**unit)), NS if unit == 3 else US, [T0, T1])
       for utc in (True, False)
       for name, unit in (("milliseconds", 1), ("microseconds", 2), ("nanoseconds", 3))},
    **{f"old {old.name}": (leaf(kind, data, old=old), t, values)
       for old, kind, data, t, values in [
           (Old.DATE, Kind.INT32, i32(0, 1), pa.date32(), [date(1970, 1, 1), date(1970, 1, 2)]),
           (Old.TIME_MILLIS, Kind.INT32, i32(0, 1000), pa.time64("us"), [time(0), time(0, 0, 1)]),
           (Old.TIME_MICROS, Kind.INT64, i64(0, 10**6), pa.time64("us"), [time(0), time(0, 0, 1)]),
           (Old.TIMESTAMP_MILLIS, Kind.INT64, i64(0, 10**12), US, [T0, T1]),
           (Old.TIMESTAMP_MICROS, Kind.INT64, i64(0, 10**15), US, [T0, T1]),
       ]},
    "nothing but nulls": (
        Node("c", Kind.INT32, OPTIONAL, logical=(11, Struct()), count=2, levels=(([0, 0], 1),)), pa.null(), [None] * 2,
    ),
    "nulls of a type": (Node("c", Kind.INT64, OPTIONAL, count=2, levels=(([0, 0], 1),)), pa.int64(), [None, None]),
    "REPEATED": (
        Node("c", Kind.INT32, REPEATED, data=i32(1, 2), count=3, levels=(([0, 1, 0], 1), ([1, 1, 0], 1))),
        pa.list_(pa.int32()), [[1, 2], []],
    ),
    "LIST of two levels": (
        Node("c", Kind.GROUP, OPTIONAL, Old.LIST, children=(
            Node("array", Kind.INT32, REPEATED, data=i32(1, 2), count=3, levels=(([0, 1, 0], 1), ([2, 2, 0], 2))),
        )),
        pa.list_(pa.int32()), [[1, 2], None],
    ),
    "LIST of three levels": (
        Node("c", Kind.GROUP, OPTIONAL, Old.LIST, children=(Node("list", Kind.GROUP, REPEATED, children=(
            Node("element", Kind.INT32, OPTIONAL, data=i32(1), count=3, levels=(([0, 1, 0], 1), ([3, 2, 0], 2))),
        )),)),
        pa.list_(pa.int32()), [[1, None], None],
    ),
    "MAP": (
        Node("c", Kind.GROUP, OPTIONAL, Old.MAP, children=(Node("key_value", Kind.GROUP, REPEATED, children=(
            Node("key", Kind.BYTE_ARRAY, old=Old.UTF8, data=texts(b"k"), count=2, levels=(([0, 0], 1), ([2, 0], 2))),
            Node("value", Kind.INT32, OPTIONAL, data=i32(1), count=2, levels=(([0, 0], 1), ([3, 0], 2))),
        )),)),
        pa.map_(pa.string(), pa.int32()), [[("k", 1)], None],
    ),
    "an object with an ENUM in a list": (
        Node("c", Kind.GROUP, OPTIONAL, children=(
            Node("n", Kind.INT32, data=i32(1), count=2, levels=(([1, 0], 1),)),
            Node("e", Kind.BYTE_ARRAY, REPEATED, Old.ENUM,
                 data=texts(b"A"), count=2, levels=(([0, 0], 1), ([2, 0], 2))),
            Node("b", Kind.BYTE_ARRAY, data=texts(b"\xff"), count=2, levels=(([1, 0], 1),)),
        )),
        pa.struct([("n", pa.int32()), ("e", pa.list_(pa.string())), ("b", pa.binary())]),
        [{"n": 1, "e": ["A"], "b": b"\xff"}, None],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_of_each_type_arrive(objects: Any, case: str) -> None:
    column, t, values = CASES[case]
    found = objects.read(parquet(2, column), "a.parquet")
    assert found.schema.field("c").type == t
    assert [str(v) if t == NS else v for v in found["c"].to_pylist()] == (
        [str(v) for v in pa.array(values, NS).to_pylist()] if t == NS else values
    )


@pytest.mark.parametrize("more", [{"old": Old.JSON}, {"old": Old.JSON, "logical": (12, Struct())}])
def test_json_is_json(objects: Any, more: dict[str, Any]) -> None:
    found = objects.read(parquet(2, leaf(Kind.BYTE_ARRAY, texts(b'{"a": 1}', b"[]"), **more)), "a.parquet")
    assert found.schema.field("c") == json_field("c")
    assert found["c"].to_pylist() == ['{"a": 1}', "[]"]


def test_enumerations_are_rescued_as_text(objects: Any) -> None:
    node = Node("new", Kind.BYTE_ARRAY, old=Old.ENUM, data=texts(b"A", b"\xff"), count=2)
    schema = pa.schema([("c", pa.int32()), json_field(RESCUED)])
    options = ReadOptions(on_drift="rescue", known_columns=frozenset({"c"}))
    reader = objects.reader(parquet(2, leaf(Kind.INT32, i32(1, 2)), node), "a.parquet")
    (batch,) = ParquetFormat().read(reader, schema, options)
    assert batch[RESCUED].to_pylist() == ['{"new":"A"}', '{"new":"\\\\xff"}']


@pytest.mark.parametrize(
    "column",
    [decimal(Kind.INT32, i32(1, 123456), 3), decimal(Kind.BYTE_ARRAY, texts(SHORT, (123456).to_bytes(4)), 3)],
    ids=["INT32", "BYTE_ARRAY"],
)
def test_decimals_of_more_digits_than_their_type_do_not_fit(objects: Any, column: Node) -> None:
    data = parquet(2, column)
    with pytest.raises(DataError, match=r"column 'c': .*1234.56.* is not a decimal of at most 1 digits"):
        objects.read(data, "a.parquet")
    schema, progress = pa.schema([("c", pa.decimal128(3, 2)), json_field(RESCUED)]), ReadProgress()
    (batch,) = ParquetFormat().read(
        objects.reader(data, "a.parquet"), schema, ReadOptions(on_bad_row="rescue"), progress
    )
    assert batch[RESCUED].to_pylist()[1:] == ['{"c":1234.56}']
    assert (batch["c"][1].as_py(), progress.rescued) == (None, 1)


@pytest.mark.parametrize("encoding", ["PLAIN", "RLE_DICTIONARY", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_encodings_of_numbers(objects: Any, encoding: str, version: str) -> None:
    table = pa.table({"n": pa.array([*range(1000), None, -(2**63)], pa.int64())})
    coded = {"use_dictionary": True} if "DICT" in encoding else {"use_dictionary": False, "column_encoding": encoding}
    out = io.BytesIO()
    pq.write_table(table, out, data_page_version=version, **coded)
    assert objects.read(out.getvalue(), "a.parquet").equals(table)


@pytest.mark.parametrize("encoding", ["PLAIN", "RLE_DICTIONARY", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_encodings_and_codecs_of_text(objects: Any, encoding: str, codec: str) -> None:
    table = pa.table({"t": [f"text {i % 37}" if i % 5 else None for i in range(1000)]})
    coded = {"use_dictionary": True} if "DICT" in encoding else {"use_dictionary": False, "column_encoding": encoding}
    out = io.BytesIO()
    pq.write_table(table, out, compression=codec, **coded)
    assert objects.read(out.getvalue(), "a.parquet").equals(table)


LIES = [{"rows": -2}, {"chunk": {9: Long(-4)}}, {"chunk": {9: Long(0)}}, {"chunk": {7: Long(1 << 40)}}, {"times": 3}]


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_footers_that_contradict_themselves_are_refused(objects: Any, lie: dict[str, Any]) -> None:
    """Some of them would crash the process if Arrow's reader opened them."""
    data = parquet(2, leaf(Kind.INT64, i64(7, 8)), lie=Lie(**lie))
    with pytest.raises(DataError, match=r"a.parquet, row group 0: its footer lists impossible columns, rows or bytes"):
        objects.read(data, "a.parquet", pa.schema([("c", pa.int64())]))


class Kms(pe.KmsClient):
    """A key service with keys that are not secret."""

    def __init__(self, _: Any) -> None:
        pe.KmsClient.__init__(self)

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize(("plain", "what"), [(True, "some of its columns are"), (False, "its footer is")])
def test_encrypted_files_are_refused(objects: Any, tmp_path: Path, plain: bool, what: str) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    keys = pe.EncryptionConfiguration(footer_key="k", column_keys={"c": ["a"]}, plaintext_footer=plain)
    properties = pe.CryptoFactory(Kms).file_encryption_properties(pe.KmsConnectionConfig(), keys)
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    data = (tmp_path / "a.parquet").read_bytes()
    for work in (lambda: objects.infer(data, "a.parquet"), lambda: objects.read(data, "a.parquet", table.schema)):
        with pytest.raises(DataError, match=rf"a.parquet: {what} encrypted, which cannot be read. Decrypt the file"):
            work()
