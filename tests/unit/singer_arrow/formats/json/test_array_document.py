"""JSON documents that are arrays of objects."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.formats import json_array as module
from singer_arrow.formats.json_array import MAX_BLANK, ListElements, take_list
from singer_arrow.read_options import ReadOptions

IDS = pa.schema([("id", pa.int64())])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.sampled_from('a"\\,[]{}: \né'), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "{", "x"]), inner, max_size=3),
    max_leaves=8,
)


def _lines(data: bytes, cut: int, size: int) -> tuple[list[Any], list[int]]:
    is_list, chunks = take_list(iter([data[i : i + cut] for i in range(0, len(data), cut)]))
    assert is_list
    elements = ListElements(chunks, "u", size=size)
    lines = b"".join(elements).split(b"\n")[:-1]
    return [json.loads(line) for line in lines], [elements.line_of(n + 1) for n in range(len(lines))]


@given(
    rows=st.lists(values, max_size=12),
    indent=st.sampled_from([None, 1, 2]),
    cut=st.integers(1, 50),
    size=st.integers(1, 60),
    blank=st.sampled_from(["", "\n\n ", " \r\n"]),
)
def test_any_list_is_read_wherever_it_is_cut(rows: list[Any], indent: Any, cut: int, size: int, blank: str) -> None:
    body = json.dumps(rows, indent=indent, ensure_ascii=False)
    found, lines = _lines((blank + body + blank).encode(), cut, size)
    assert found == rows
    if indent and rows:  # each element begins on a line of its own, after as many blanks
        starts = [n for n, text in enumerate(body.split("\n"), 1) if _begins(text, indent)]
        assert lines == [n + blank.count("\n") for n in starts]


def _begins(text: str, indent: int) -> bool:
    rest = text[indent:]
    return text[:indent].isspace() and bool(rest) and not rest[0].isspace() and rest[0] not in "]}"


@pytest.mark.full
def test_lists_and_lines_give_the_same_rows(objects: Any) -> None:
    rows = [{"id": n, "items": [{"id": i} for i in range(n % 5)], "text": "},{" * (n % 3)} for n in range(5000)]
    lines = "".join(json.dumps(r) + "\n" for r in rows).encode()
    expected = objects.read(lines, "a.jsonl")
    for indent in (None, 2):
        document = json.dumps(rows, indent=indent).encode()
        for data in (document, gzip.compress(document), b"\xef\xbb\xbf" + document):
            assert objects.read(data, "a.jsonl", block_bytes=10_000).equals(expected)
    assert objects.infer(json.dumps(rows).encode(), "a.jsonl", sample_bytes=2000) == expected.schema


def test_the_exact_rules_are_hardly_needed(objects: Any, monkeypatch: Any) -> None:
    calls: list[int] = []
    exact = module.list_commas
    monkeypatch.setattr(module, "list_commas", lambda data: calls.append(len(data)) or exact(data))
    rows = [{"key": n, "items": [{"a": i} for i in range(50)]} for n in range(5000)]
    found = objects.read(json.dumps(rows).encode(), "a.jsonl", pa.schema([("key", pa.int64())]), block_bytes=20_000)
    assert found.num_rows == 5000
    assert calls == []


def test_batches_depend_on_the_text_alone(objects: Any) -> None:
    data = json.dumps([{"id": n} for n in range(10_000)]).encode()
    plain = objects.read(data, "a.jsonl", IDS, block_bytes=5000)
    packed = objects.read(gzip.compress(data), "a.jsonl", IDS, block_bytes=5000)
    assert [b.num_rows for b in plain.to_batches()] == [b.num_rows for b in packed.to_batches()]
    assert len(plain.to_batches()) > 10


def test_lists_without_elements(objects: Any) -> None:
    for data in (b"[]", b"  [ \n ] \n"):
        assert objects.read(data, "a.jsonl", IDS).num_rows == 0
        assert objects.infer(data, "a.jsonl").names == []


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b'[\n{"id": 1},\n{"id":\n2}\n,\n{"id": "x"}]', 6, "column 'id': expected an integer, found text 'x'"),
        (b'[{"id": 1},\n\n5]', 3, "each element of the list must be an object, this one"),
        (b'[{"id": 1},\n{"id": 2}', 2, "the list is not closed"),
        (b'[{"id": 1},\n{"id": 2}] {"id": 3}', 2, "the list is not closed, or not valid JSON"),
        (b'[{"id": 1},\n{"id": 2}]\n[]', 2, "not valid JSON"),
        (b'[{"id": 1}\n{"id": 2}]', 1, "not valid JSON"),
        (b'[{"id": 1},\n]', 2, "the list"),
        (b"[", 1, "not closed"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(objects: Any, data: bytes, line: int, message: str) -> None:
    for block in (5, 4 << 20):
        with pytest.raises(DataError) as caught:
            objects.read(data, "a.jsonl", IDS, block_bytes=block)
        assert message in str(caught.value)
        assert caught.value.line is not None
        if block > 5:
            assert caught.value.line == line


def test_rows_before_a_bad_one_are_given(objects: Any) -> None:
    data = b"[" + b'{"id":1},\n' * 1000 + b'{"id":"x"}]'
    batches: Iterator[pa.RecordBatch] = FORMATS["jsonl"].read(objects.reader(data), IDS, ReadOptions(block_bytes=800))
    assert sum(next(batches).num_rows for _ in range(10)) >= 790
    with pytest.raises(DataError, match="line 1001"):
        list(batches)


@pytest.mark.full
def test_an_element_that_is_too_long_is_an_error(objects: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "MAX_RECORD_BYTES", 1 << 20)
    data = b'[{"id": 1},\n{"id": "' + b"x" * (3 << 20) + b'"}]'
    with pytest.raises(DataError, match="line 2: an element of the list is longer than 1 MiB"):
        objects.read(data, "a.jsonl", IDS, block_bytes=100_000)


@pytest.mark.full
def test_a_large_list_takes_little_memory(objects: Any) -> None:
    data = b"[" + b'{"id": 1, "text": "' + b"x" * 1000 + b'"}' + b',\n{"id": 1, "text": "%b"}' % (b"x" * 1000) * 125_000
    reader = objects.reader(gzip.compress(data + b"]", 1), "large.jsonl")
    tracemalloc.start()
    rows = sum(b.num_rows for b in FORMATS["jsonl"].read(reader, IDS, ReadOptions()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 125_001
    assert peak < 100 << 20 < len(data)


@pytest.mark.parametrize("cut", [1000, 1 << 20])
def test_only_blanks_count_where_a_list_must_begin(cut: int) -> None:
    for blanks, expected in ((MAX_BLANK, True), (MAX_BLANK + 1, False)):
        data = b" " * blanks + b"[" + b"1," * MAX_BLANK
        assert take_list(iter([data[i : i + cut] for i in range(0, len(data), cut)]))[0] is expected


def test_a_list_begins_early_or_not_at_all() -> None:
    is_list, rest = take_list(iter([b" \n" * 1000, b"[1]"]))
    assert (is_list, b"".join(rest).strip()) == (True, b"1]")
    taken = 0

    def blanks() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield b"\n" * 10_000

    is_list, rest = take_list(blanks())
    assert (is_list, taken < 10) == (False, True)
    assert sum(map(len, rest)) == 10_000_000
