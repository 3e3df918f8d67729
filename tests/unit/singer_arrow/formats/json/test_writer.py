"""Writing of JSON Lines: portable values, and values that JSON lacks."""

from __future__ import annotations

import gzip
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import ConfigError, DataError, SchemaError
from singer_arrow.formats import WRITABLE, WriteOptions
from singer_arrow.schema.arrow_schema import json_field

JSONL = WRITABLE["jsonl"]
MICROSECONDS = pa.timestamp("us", "UTC")
A = pa.schema([("a", pa.int64())])


def _written(table: pa.Table, path: Path) -> list[Any]:
    JSONL.write(iter(table.to_batches()), table.schema, path, WriteOptions("none"))
    return [json.loads(line, parse_float=Decimal) for line in path.read_bytes().splitlines()]


def test_values_as_every_reader_knows_them(tmp_path: Path) -> None:
    deep = pa.struct([("d", pa.decimal128(5, 2)), ("n", pa.float64()), ("t", pa.timestamp("ns", "UTC"))])
    table = pa.table({
        "d": pa.array([Decimal("1.10"), Decimal("12345678901234567890123456789.99")], pa.decimal128(38, 2)),
        "f": [math.nan, math.inf],
        "naive": pa.array([0, 1], pa.timestamp("s")),
        "ns": pa.array([0, 1], pa.timestamp("ns", "Asia/Tokyo")),
        "took": pa.array([0, 1], pa.duration("us")),
        "e": pa.array(["a", "b"]).dictionary_encode(),
        "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
        "pair": pa.array([[1, 2], [3, None]], pa.list_(pa.int8(), 2)),
        "deep": pa.array([{"d": Decimal("0.5"), "n": math.nan, "t": 0}, None], deep),
    })  # fmt: skip
    assert _written(table, tmp_path / "out.jsonl") == [
        {
            "d": Decimal("1.10"), "f": None, "naive": "1970-01-01T00:00:00Z",
            "ns": "1970-01-01T00:00:00.000000000Z", "took": 0, "e": "a", "fixed": "YWI=", "pair": [1, 2],
            "deep": {"d": Decimal("0.50"), "n": None, "t": "1970-01-01T00:00:00.000000000Z"},
        },
        {
            "d": Decimal("12345678901234567890123456789.99"), "f": None, "naive": "1970-01-01T00:00:01Z",
            "ns": "1970-01-01T00:00:00.000000001Z", "took": 1, "e": "b", "fixed": "Y2Q=", "pair": [3, None],
            "deep": None,
        },
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["*", "^a.*$"])
def test_names_that_polars_takes_for_patterns(tmp_path: Path, name: str) -> None:
    members = pa.struct([("a1", pa.int8()), (name, pa.float32())])
    table = pa.table({
        "a1": [1], name: pa.array([[b"x"]], pa.list_(pa.binary())), "a2": [2], "j": [Decimal("1.5")],
        "s": pa.array([{"a1": 1, name: 0.1}], members),
    })  # fmt: skip
    (row,) = _written(table, tmp_path / "out.jsonl")
    assert row.pop("s")[name] == Decimal("0.10000000149011612")
    assert row == {"a1": 1, name: ["eA=="], "a2": 2, "j": Decimal("1.5")}


def test_json_text_is_set_in_as_it_is_on_one_line(tmp_path: Path) -> None:
    schema = pa.schema([json_field("j"), ("n", pa.int64()), json_field("k")])
    table = pa.table([['{"x":\n 1.0}', None, '"s"'], [1, 2, 3], [None, "[]", "5"]], schema=schema)
    path = tmp_path / "out.jsonl"
    assert _written(table, path) == [
        {"j": {"x": 1}, "n": 1, "k": None},
        {"j": None, "n": 2, "k": []},
        {"j": "s", "n": 3, "k": 5},
    ]
    assert path.read_bytes().startswith(b'{"j":{"x":  1.0},"n":1,"k":null}\n')
    with pytest.raises(DataError, match="column 'j': 'no json' is not JSON"):
        _written(pa.table([["no json"], [1], [None]], schema=schema), path)
    for text in ('{"x":"\\ud800"}', '"\\udc00"'):
        with pytest.raises(DataError, match="column 'j': .* holds a lone surrogate, which is not a character"):
            _written(pa.table([[text], [1], [None]], schema=schema), path)


def test_large_batches_are_written_in_slices(tmp_path: Path) -> None:
    table = pa.table({"a": ["x" * 1000] * 30_000, "b": range(30_000)})
    path = tmp_path / "out.jsonl.gz"
    assert JSONL.write(iter(table.to_batches()), table.schema, path) == 30_000
    with gzip.open(path) as file:
        assert [json.loads(line)["b"] for line in file] == list(range(30_000))
    assert path.read_bytes()[4:8] == bytes(4), "no time in it: the same rows make the same file"


def test_what_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    late = pa.table({"t": pa.array([2**58], MICROSECONDS)})
    with pytest.raises(DataError, match=r"column 't': a date lies outside the years 1 to 9999"):
        _written(late, path)
    nested = pa.table({"t": pa.array([[None, -(10**7)]], pa.list_(pa.date32()))})
    with pytest.raises(DataError, match=r"column 't'"):
        _written(nested, path)
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(SchemaError, match="Column 'u' is of type"):
        _written(pa.table({"u": union}), path)
    with pytest.raises(ConfigError, match="'zstd'"):
        JSONL.write(iter([]), A, path, WriteOptions("zstd"))


def test_the_edges_of_the_calendar(tmp_path: Path) -> None:
    moments = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]
    table = pa.table({"t": pa.array(moments, MICROSECONDS), "d": pa.array([m.date() for m in moments])})
    written = _written(table, tmp_path / "out.jsonl")
    assert [datetime.fromisoformat(row["t"]) for row in written] == moments
    assert [date.fromisoformat(row["d"]) for row in written] == [m.date() for m in moments]
