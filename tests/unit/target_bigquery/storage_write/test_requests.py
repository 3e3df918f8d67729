"""Encoding of rows for the Storage Write API: types, null lists, requests of a bounded size."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.load.method import Item
from target_bigquery.columns import columns_of
from target_bigquery.conversion import Conversion
from target_bigquery.storage_write import load_method as rows
from target_bigquery.types import Column


def sent(given: pa.Schema, content: list[dict[str, Any]], columns: tuple[Column, ...] | None = None) -> pa.RecordBatch:
    """Return the rows of a stream as they are sent."""
    conversion = Conversion(columns or columns_of(given), given)
    batch = pa.RecordBatch.from_pylist(content, conversion.read_schema)
    (upload,) = conversion.all_batches([("file", [batch])])
    found = rows.converted(upload, rows.row_schema(conversion.upload_schema, conversion.columns))
    found.validate(full=True)
    return found


def test_numbers_have_the_width_that_their_columns_take() -> None:
    given = pa.schema(
        [
        *(("u", pa.uint64()), ("n", pa.decimal128(12, 2)), ("w", pa.decimal256(38, 9)), ("b", pa.decimal128(38, 10))),
        *(("in", pa.struct([("b", pa.decimal128(20, 15))])), ("ns", pa.list_(pa.decimal128(38, 18)))),
        ]
    )  # fmt: skip
    most = Decimal("99999999999999999999999999999.999999999")
    row = {"u": 2**64 - 1, "n": Decimal("-0.01"), "w": most, "b": Decimal("1E-10")}
    row |= {"in": {"b": Decimal("1E-15")}, "ns": [Decimal("1E-18")]}
    found = sent(given, [row])
    assert [f.type for f in found.schema] == [
        *(pa.decimal128(20, 0), pa.decimal128(12, 2), pa.decimal128(38, 9), pa.decimal256(38, 10)),
        *(pa.struct([("b", pa.decimal256(20, 15))]), pa.list_(pa.decimal256(38, 18))),
    ]
    assert found.to_pylist() == [row]


def test_null_lists_become_empty_ones_at_every_depth() -> None:
    inside = pa.struct([("tags", pa.list_(pa.string())), ("n", pa.int64())])
    given = pa.schema([("tags", pa.list_(pa.string())), ("in", inside), ("ins", pa.list_(inside))])
    content = [
        {"tags": None, "in": None, "ins": None},
        {"tags": ["a"], "in": {"tags": None, "n": 1}, "ins": [{"tags": None, "n": None}, {"tags": ["b"], "n": 2}]},
        {"tags": [], "in": {"tags": ["c"], "n": None}, "ins": []},
    ]
    found = sent(given, content)
    assert found.to_pylist() == [
        {"tags": [], "in": None, "ins": []},
        {"tags": ["a"], "in": {"tags": [], "n": 1}, "ins": [{"tags": [], "n": None}, {"tags": ["b"], "n": 2}]},
        {"tags": [], "in": {"tags": ["c"], "n": None}, "ins": []},
    ]
    assert found.column(0).null_count == found.column(2).null_count == 0


def test_a_slice_is_sent_as_its_own_rows() -> None:
    given = pa.schema([("l", pa.list_(pa.int64())), ("s", pa.struct([("l", pa.list_(pa.int64()))]))])
    content = [{"l": [n], "s": {"l": None if n % 2 else [n, n]}} for n in range(10)]
    schema = rows.row_schema(given, columns_of(given))
    batch = pa.RecordBatch.from_pylist(content, given)
    found = rows.converted(batch.slice(3, 4), schema)
    assert found.equals(rows.converted(pa.RecordBatch.from_pylist(content[3:7], given), schema))


def test_json_is_sent_as_text_without_metadata() -> None:
    given = pa.schema([("m", pa.map_(pa.string(), pa.int64()))])
    found = sent(given, [{"m": '{"a":1}'}])
    assert found.schema.equals(pa.schema([("m", pa.string())]), check_metadata=True)


def test_columns_that_the_api_has_no_type_for() -> None:
    def unsupported_column(*fields: Any) -> str | None:
        return rows.unsupported_column(columns_of(pa.schema(list(fields))))

    assert unsupported_column(("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))) is None
    assert unsupported_column(("a", pa.int64()), ("t", pa.time64("us"))) == "t (TIME)"
    assert unsupported_column(("a", pa.list_(pa.struct([("t", pa.time32("s"))])))) == "a.t (TIME)"


@given(st.lists(st.integers(0, 3000), max_size=40), st.integers(4000, 20_000))
def test_requests_hold_all_rows_in_order_and_none_is_too_large(sizes: list[int], most: int) -> None:
    batch = pa.record_batch({"n": pa.array(range(len(sizes)), pa.int64()), "s": ["x" * size for size in sizes]})
    parts = list(rows.split_requests(batch, most))
    assert all(pa.ipc.get_record_batch_size(part) <= most and part.num_rows for part in parts)
    assert [n for part in parts for n in part.column("n").to_pylist()] == list(range(len(sizes)))


def test_a_row_that_fits_no_request() -> None:
    batch = pa.record_batch({"s": ["a", "x" * 5000, "b"]})
    with pytest.raises(rows.TooLargeError):
        list(rows.split_requests(batch, 4000))


def test_what_is_written_is_what_is_sent(tmp_path: Path) -> None:
    given = pa.schema([("n", pa.int64()), ("s", pa.string())])
    conversion = Conversion(columns_of(given), given)
    batches = [pa.record_batch({"n": [k], "s": [f"row {k}"]}, schema=given) for k in range(50)]
    item: Any = Item(urls=(), file_format="parquet", conversion=conversion)
    found = rows.write(item, batches, tmp_path / "rows")
    assert (found.rows, len(found.spans)) == (50, 1)  # small batches share a request
    data = (tmp_path / "rows").read_bytes()
    assert found.bytes == len(data)
    message = pa.py_buffer(data[found.spans[0].start :])
    again = pa.ipc.read_record_batch(message, pa.ipc.read_schema(pa.py_buffer(found.schema)))
    assert again.column("n").to_pylist() == list(range(50))
    empty = rows.write(item, [], tmp_path / "none")
    assert (empty.rows, empty.bytes, empty.spans) == (0, 0, ())
