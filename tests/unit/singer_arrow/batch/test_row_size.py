"""The estimated size of rows depends on their values, not on their layout in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.batch.files import row_bytes
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions

LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.floats(width=32)),
    (pa.decimal128(9, 2), st.decimals(0, 100, places=2)),
    (pa.date32(), st.dates()),
    (pa.string(), st.text(max_size=9)),
    (pa.binary(), st.binary(max_size=9)),
    (pa.null(), st.none()),
]


def _nested(inner: tuple[pa.DataType, st.SearchStrategy[Any]]) -> list[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    t, values = inner
    some = values | st.none()
    return [
        (pa.list_(t), st.lists(some, max_size=3)),
        (pa.list_(t, 2), st.lists(some, min_size=2, max_size=2)),
        (pa.struct([("a", t), ("b", pa.string())]), st.fixed_dictionaries({"a": some, "b": st.text(max_size=3)})),
        (pa.map_(pa.string(), t), st.lists(st.tuples(st.text(max_size=3), some), max_size=3)),
    ]


LEVEL = [*LEAVES, *(n for leaf in LEAVES for n in _nested(leaf))]
TYPES = [*LEVEL, *(n for inner in LEVEL[len(LEAVES) :] for n in _nested(inner))]


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    t, values = draw(st.sampled_from(TYPES))
    return pa.array(draw(st.lists(values | st.none(), max_size=12)), t)


def size(column: pa.Array) -> int:
    return row_bytes(pa.RecordBatch.from_arrays([column], ["c"]))


def expected(value: Any, t: pa.DataType) -> int:
    """Compute the expected size value by value."""
    if pa.types.is_null(t):
        return 0
    if pa.types.is_struct(t):
        return sum(expected(None if value is None else value[f.name], f.type) for f in t)
    if pa.types.is_map(t):
        pairs = value or []
        return 4 + sum(expected(k, t.key_type) + expected(v, t.item_type) for k, v in pairs)
    if pa.types.is_list(t):
        return 4 + sum(expected(v, t.value_type) for v in value or [])
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return 4 + len(value.encode() if isinstance(value, str) else value or b"")
    return -(-t.bit_width // 8)


@given(columns(), st.integers(0, 12), st.booleans())
@pytest.mark.full
def test_it_does_not_depend_on_how_rows_are_held(column: pa.Array, cut: int, hidden: bool) -> None:
    whole = size(column)
    if "fixed_size_list" not in str(column.type):
        assert whole == sum(expected(v, column.type) for v in column.to_pylist())
    assert size(column.slice(0, cut)) + size(column.slice(cut)) == whole
    assert size(pa.concat_arrays([column.slice(cut), column.slice(0, cut)])) == whole
    assert size(pa.concat_arrays([column, column]).slice(len(column))) == whole
    assert size(pa.array(column.to_pylist(), column.type)) == whole
    assert size(column.take(pa.array(range(len(column)), pa.int64()))) == whole
    if hidden and not pa.types.is_nested(column.type) and not pa.types.is_null(column.type):
        kept = [i % 2 == 0 for i in range(len(column))]
        assert size(_under_nulls(column, kept)) == size(pc.if_else(pa.array(kept, pa.bool_()), column, None))


def _under_nulls(column: pa.Array, kept: list[bool]) -> pa.Array:
    """Return the column with values under its nulls."""
    validity = pa.array([k and v is not None for k, v in zip(kept, column.to_pylist(), strict=True)], pa.bool_())
    return pa.Array.from_buffers(column.type, len(column), [validity.buffers()[1], *column.buffers()[1:]])


@pytest.mark.parametrize("layout", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_texts_count_alike_in_any_layout(layout: pa.DataType) -> None:
    texts = pa.array(["a", None, "bb", "a", "a longer text than a view holds"] * 3)
    laid = texts.dictionary_encode() if pa.types.is_dictionary(layout) else texts.cast(layout)
    assert size(laid) == size(texts)
    assert size(laid.slice(4, 7)) == size(texts.slice(4, 7))


@pytest.mark.parametrize(
    ("name", "head", "usual", "odd"),
    [("csv", "id,name,day\n", "1,a,\n", "2.0,b,\n"), ("jsonl", "", '{"id":1,"name":"a"}\n', '{"id":2.0,"day":null}\n')],
)
def test_it_does_not_depend_on_where_a_reading_begins(objects: Any, name: str, head: str, usual: str, odd: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])
    body = head + usual * 400 + odd + usual * 800

    def sizes(text: str) -> list[int]:
        read = FORMATS[name].read(objects.reader(text.encode(), f"a.{name}"), schema, ReadOptions(block_bytes=512))
        return [row_bytes(batch) for batch in read]

    whole, rest = sizes(body), sizes(head + usual * 800)
    assert len(whole) > 8
    assert len(rest) > 4
    assert sizes(body) == whole
    assert sum(whole) == sum(rest) + sum(sizes(head + usual * 400 + odd))
