"""Parquet files of equal layout are concatenated without decoding, with the same content for every reader."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from singer_arrow.formats import WRITABLE, WriteOptions
from singer_arrow.formats.parquet_concat import Field, Struct, join, read_struct, write_struct

PARTS = pa.list_(pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]))


def table(first: int, rows: int) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "kind": pa.array([None if n % 5 == 0 else f"k{n % 3}" for n in numbers], pa.string()),
            "amount": pa.array([Decimal(n).scaleb(-2) for n in numbers], pa.decimal128(38, 9)),
            "big": pa.array([Decimal(n).scaleb(-30) for n in numbers], pa.decimal256(76, 38)),
            "at": pa.array(numbers, pa.timestamp("us", "UTC")),
            "parts": pa.array([[{"x": n, "y": [f"{n}"]}] * (n % 4) for n in numbers], PARTS),
        }
    )


@pytest.mark.parametrize("options", [{}, {"write_page_index": True}, {"bloom_filter_options": {"id": True}}])
@pytest.mark.full("options2")
def test_row_groups_are_copied(tmp_path: Path, options: dict[str, Any]) -> None:
    wholes = [table(0, 1000), table(1000, 10), table(1010, 0), table(1010, 3000)]
    paths = [tmp_path / f"{n}.parquet" for n in range(len(wholes))]
    for path, whole in zip(paths, wholes, strict=True):
        pq.write_table(whole, path, row_group_size=700, **options)
    out = tmp_path / "out.parquet"
    assert join(paths, out, chunk_bytes=0) == 4010
    with pq.ParquetFile(out) as file:
        assert file.metadata.num_row_groups == 2 + 1 + 1 + 5  # the empty file's column has no statistics
        assert file.read() == pa.concat_tables(wholes)
        for number in (0, 1, 2, 4, 8):
            group, statistics = file.read_row_group(number), file.metadata.row_group(number).column(0).statistics
            assert {"min": statistics.min, "max": statistics.max} == pc.min_max(group["id"]).as_py()
            assert not file.metadata.row_group(number).column(0).has_offset_index  # it contains offsets of the old file
    filters = [("id", ">=", 1005), ("id", "<", 1720)]
    assert pq.read_table(out, filters=filters) == pa.concat_tables(wholes).slice(1005, 715)


def test_other_readers_read_it(tmp_path: Path) -> None:
    import polars as pl

    paths, out = [tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "out.parquet"
    for number, path in enumerate(paths):
        part = table(number * 500, 500).drop_columns("big")
        WRITABLE["parquet"].write(part.to_batches(), part.schema, path, WriteOptions("zstd"))
    assert join(paths, out, chunk_bytes=0) == 1000
    assert pl.read_parquet(out).equals(pl.concat([pl.read_parquet(path) for path in paths]))


def test_a_joined_file_is_joined_again(tmp_path: Path) -> None:
    path, twice, out = tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "out.parquet"
    pq.write_table(table(0, 100), path)
    assert join([path, path], twice, chunk_bytes=0) == 200
    assert join([twice, path], out, chunk_bytes=0) == 300
    assert pq.read_table(out) == pa.concat_tables([table(0, 100)] * 3)


def test_files_that_are_not_alike_are_left(tmp_path: Path) -> None:
    path, other, out = tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "out.parquet"
    pq.write_table(table(0, 100), path)
    others = [table(0, 100).drop_columns("id"), table(0, 100).set_column(0, "id", [pa.array(range(100), pa.int32())])]
    for each in others:
        pq.write_table(each, other)
        assert join([path, other], out, chunk_bytes=0) is None
    for broken in (b"", b"PAR1", path.read_bytes()[:-1], b"PAR1" + b"\xff" * 20 + (20).to_bytes(4, "little") + b"PAR1"):
        other.write_bytes(broken)
        assert join([path, other], out, chunk_bytes=0) is None
    assert join([], out, chunk_bytes=0) is None
    assert not out.exists()


@pytest.mark.parametrize("beyond", [True, False])
def test_pages_outside_of_a_file_are_not_those_of_another(beyond: bool, tmp_path: Path) -> None:
    path, other, out = tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "out.parquet"
    pq.write_table(table(0, 1000), path)
    data = path.read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = read_struct(data[end:-8])
    assert footer is not None
    meta = footer[4].value[1][0][1].value[1][0][3].value
    for number in (9, 11):
        if number in meta:
            meta[number] = meta[number].holding(meta[number].value + end if beyond else 1)
    written = write_struct(footer)
    other.write_bytes(data[:end] + written + len(written).to_bytes(4, "little") + b"PAR1")
    assert join([other, path], out, chunk_bytes=0) is None


def test_small_chunks_are_left(tmp_path: Path) -> None:
    path, out = tmp_path / "a.parquet", tmp_path / "out.parquet"
    pq.write_table(table(0, 100), path)
    assert join([path, path], out, chunk_bytes=1 << 20) is None
    assert not out.exists()


def test_structures_stay_as_they_are(tmp_path: Path) -> None:
    odd = Struct(
        {
            1: Field(1, True),
            2: Field(2, False),
            3: Field(3, 200),
            20: Field(6, -(2**63)),
            21: Field(7, b"\0" * 8),
            300: Field(9, (8, [b"x" * n for n in range(20)])),
            301: Field(9, (1, [1, 2])),
            302: Field(12, Struct({1: Field(5, -1)})),
        }
    )
    assert read_struct(write_struct(odd)) == odd
    path = tmp_path / "a.parquet"
    pq.write_table(table(0, 100), path)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    struct = read_struct(footer)
    assert struct is not None
    assert write_struct(struct) == footer
    assert read_struct(footer[: len(footer) // 2]) is None
    assert read_struct(b"\x15\x02\x05\x02\x02\x00") is None  # field 1 twice
    assert read_struct(b"\x10\x00") is None  # a field of type 0, which there is not
