"""Records contain exact JSON values, nested ones and slices too, as objects and as lines."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from arrow_tables import in_json, tables
from hypothesis import given
from hypothesis import strategies as st
from singer_sdk.singerlib import RecordMessage
from singer_sdk.singerlib.json import serialize_json

from singer_arrow.errors import DataError
from singer_arrow.records import validation as module
from singer_arrow.records.validation import RecordEncoder, to_records
from singer_arrow.schema.arrow_schema import json_field


def records(values: list[Any], field: pa.DataType | pa.Field) -> list[Any]:
    field = field if isinstance(field, pa.Field) else pa.field("x", field)
    batch = pa.RecordBatch.from_arrays([pa.array(values, field.type)], schema=pa.schema([field]))
    return [r["x"] for r in to_records(batch)]


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (2**63 - 1, pa.int64(), 2**63 - 1),
        (2**64 - 1, pa.uint64(), 2**64 - 1),
        (Decimal("12345678901234567890.10"), pa.decimal128(38, 2), Decimal("12345678901234567890.10")),
        (Decimal(10**37), pa.decimal128(38, 0), 10**37),
        (0.1, pa.float64(), 0.1),
        (float("nan"), pa.float64(), None),
        (float("-inf"), pa.float32(), None),
        (True, pa.bool_(), True),
        ("", pa.string(), ""),
        (b"\x00\xff", pa.binary(), "AP8="),
        (date(1, 1, 1), pa.date32(), "0001-01-01"),
        (time(1, 2, 3, 4), pa.time64("us"), "01:02:03.000004"),
        (datetime(2024, 5, 1, 10, 0, 0, 5, UTC), pa.timestamp("us", "UTC"), "2024-05-01T10:00:00.000005Z"),
        ('{"a": [1, 1.10]}', json_field("x"), {"a": [1, Decimal("1.10")]}),
        ([1.5, float("nan"), None], pa.list_(pa.float64()), [1.5, None, None]),
        ({"a": b"x", "b": None}, pa.struct([("a", pa.binary()), ("b", pa.date32())]), {"a": "eA==", "b": None}),
        ([("k", Decimal("1.0"))], pa.map_(pa.string(), pa.decimal128(3, 1)), {"k": Decimal("1.0")}),
        ([{"a": [1]}, None], pa.list_(pa.struct([("a", pa.list_(pa.int64()))])), [{"a": [1]}, None]),
    ],
)
def test_values_are_exact(given: Any, kind: pa.DataType | pa.Field, expected: Any) -> None:
    assert records([given, None, given], kind) == [expected, None, expected]


def test_large_batches_are_worked_off_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CELLS", 7)
    table = pa.table({"a": list(range(10)), "l": [[n] * (n % 3) for n in range(10)]})
    (batch,) = table.to_batches()
    assert list(to_records(batch)) == table.to_pylist()


def test_slices_keep_their_rows() -> None:
    table = pa.table({"l": [[n, n] for n in range(10)], "s": [{"a": n} for n in range(10)], "t": list("abcdefghij")})
    (batch,) = table.slice(4, 3).to_batches()
    assert list(to_records(batch)) == table.to_pylist()[4:7]


@pytest.mark.parametrize("days", [-719_163, 2_932_897])
def test_years_that_json_has_no_text_for_are_refused(days: int) -> None:
    with pytest.raises(DataError, match="column 'x': a date lies outside the years 1 to 9999"):
        records([days], pa.date32())


def test_a_duplicate_key_of_a_map_is_refused() -> None:
    with pytest.raises(DataError, match="column 'x': a map has the key 'k' twice"):
        records([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))


@pytest.mark.parametrize(("text", "reason"), [('{"x":', "is not JSON"), ('["\\ud800"]', "holds a lone surrogate")])
def test_json_text_that_is_none_is_refused_as_lines_and_as_records(text: str, reason: str) -> None:
    batch = pa.record_batch([pa.array([text])], schema=pa.schema([json_field("j")]))
    for rows in (to_records(batch), RecordEncoder("s", batch.schema).blocks(batch)):
        with pytest.raises(DataError, match=f"column 'j': .* {reason}"):
            list(rows)


def test_records_are_json() -> None:
    batch = pa.RecordBatch.from_pylist([{"a": 1, "b": [datetime(2024, 1, 1, tzinfo=UTC)]}])
    assert json.dumps(list(to_records(batch))) == '[{"a": 1, "b": ["2024-01-01T00:00:00.000000Z"]}]'


# ---- lines


def lines(table: pa.Table, stream: str = "s", version: int | None = None) -> list[str]:
    writer, found = RecordEncoder(stream, table.schema, version), list[str]()
    for batch in table.to_batches(max_chunksize=3):
        for block in writer.blocks(batch):
            text = str(block.lines, "utf-8")
            assert text.endswith("\n")
            assert text.count("\n") == block.count
            found += text[:-1].split("\n")
    return found


def exact(text: str) -> Any:
    """Parse JSON with numbers of any size and precision."""
    return json.loads(text, parse_float=Decimal)


@given(table=tables(), stream=st.text(max_size=5), version=st.none() | st.integers(0, 2**40))
def test_lines_are_those_that_the_sdk_writes_of_single_records(
    table: pa.Table, stream: str, version: int | None
) -> None:
    singly = [record for batch in table.to_batches() for record in to_records(batch)]
    now = datetime.now(UTC)
    for line, record, expected in zip(lines(table, stream, version), singly, in_json(table), strict=True):
        message = exact(line)
        assert now <= datetime.fromisoformat(message.pop("time_extracted")) <= datetime.now(UTC)
        theirs = exact(serialize_json(RecordMessage(stream, record, version, now).to_dict()))
        theirs.pop("time_extracted")
        assert message == theirs
        assert list(message) == list(theirs)
        assert list(message["record"]) == list(record)
        assert message["record"] == expected


def test_a_line_is_as_the_sdk_writes_it() -> None:
    table = pa.table({"n": [1], "t": ["x"]})
    (line,) = lines(table, 'a "b"', 7)
    at = json.loads(line)["time_extracted"]
    assert line == (
        r'{"type":"RECORD","stream":"a \"b\"","record":{"n":1,"t":"x"},"version":7,"time_extracted":"' + at + '"}'
    )
    assert datetime.fromisoformat(at).tzinfo == UTC


def test_rows_without_any_column_are_records() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    (block,) = RecordEncoder("s", batch.schema).blocks(batch)
    assert [json.loads(line)["record"] for line in bytes(block.lines).splitlines()] == [{}, {}]
    assert block.count == 2


@pytest.mark.parametrize(
    "column", [pa.nulls(20_000), pa.array(["x" * n for n in range(2_000)]), pa.array(range(9_000))]
)
def test_blocks_are_of_bounded_size(column: pa.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for columns that take no memory themselves, and for growing lines."""
    monkeypatch.setattr(module, "_BLOCK_BYTES", 50_000)
    monkeypatch.setattr(module, "_FIRST_ROWS", 16)
    table = pa.table({f"c{n}": column for n in range(3)})
    writer = RecordEncoder("s", table.schema)
    blocks = [block for batch in table.to_batches() for block in writer.blocks(batch)]
    assert sum(block.count for block in blocks) == table.num_rows
    assert max(block.lines.nbytes for block in blocks) < 150_000
    assert len(blocks) < 400


def test_nothing_is_written_of_a_batch_with_a_date_that_json_cannot_hold() -> None:
    column = pa.array([0] * 1_000 + [-719_163], pa.date32())
    table = pa.table({"x": column})
    with pytest.raises(DataError, match="column 'x': a date lies outside the years 1 to 9999"):
        next(RecordEncoder("s", table.schema).blocks(table.to_batches()[0]))


def test_a_duplicate_key_of_a_map_is_refused_in_lines() -> None:
    table = pa.table({"x": pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))})
    with pytest.raises(DataError, match="column 'x': a map has the key 'k' twice"):
        lines(table)


@pytest.mark.parametrize(
    "field",
    [pa.field("c\0b", pa.int64()), pa.field("x", pa.list_(pa.struct([("a\0b", pa.int64())])))],
    ids=["flat", "nested"],
)
def test_a_column_with_values_whose_name_would_be_cut_is_refused(field: pa.Field) -> None:
    value = 1 if field.type == pa.int64() else [{"a\0b": None}]
    columns = {"id": pa.array([1, 2]), field.name: pa.array([None, value], field.type)}
    (batch,) = pa.table(columns).to_batches()
    with pytest.raises(DataError, match="column '(c.*b|x)': it has values, and the character NUL"):
        list(RecordEncoder("s", batch.schema).blocks(batch))
    assert [json.loads(line)["record"] for line in lines(pa.Table.from_batches([batch[:1]]))] == [{"id": 1}]
