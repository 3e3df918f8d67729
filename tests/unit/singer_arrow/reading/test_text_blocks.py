"""Text: decompressed, transcoded, cut into blocks, and blocks processed in order."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from singer_arrow.errors import DataError
from singer_arrow.reading import chunks as text_module
from singer_arrow.reading.chunks import LongRecordError, blocks, decoded, read_sample
from singer_arrow.reading.parallel import Allowance, map_ordered


def _last_line_end(data: bytes) -> int:
    return data.rfind(b"\n") + 1


@given(
    data=st.binary(max_size=300),
    cuts=st.lists(st.integers(0, 300), max_size=6),
    size=st.integers(1, 50),
)
def test_blocks_depend_on_the_text_alone(data: bytes, cuts: list[int], size: int) -> None:
    borders = sorted({0, *cuts, len(data)})
    pieces = [data[a:b] for a, b in pairwise(borders)]
    found = [bytes(b) for b in blocks(pieces, _last_line_end, size=size)]
    assert b"".join(found) == data
    assert found == [bytes(b) for b in blocks([data], _last_line_end, size=size)]
    assert all(b.endswith(b"\n") for b in found[:-1])
    assert all(len(b) <= size or b.count(b"\n") <= 2 or b == found[-1] or b"\n" not in b[:size] for b in found)


def test_a_record_without_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "MAX_RECORD_BYTES", 1000)
    found = blocks([b"a\n", b"b" * 5000], _last_line_end, size=10)
    assert bytes(next(found)) == b"a\n"
    with pytest.raises(LongRecordError):
        next(found)


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    packed=st.booleans(),
)
def test_text_arrives_in_utf8(objects: Any, text: str, encoding: str, packed: bool) -> None:
    data = text.encode(encoding)
    data = gzip.compress(data) if packed else data
    if not data or text.startswith("\0"):  # as UTF-16 it has the mark of UTF-32
        return
    found = b"".join(bytes(c) for c in decoded(objects.reader(data), encoding=encoding))
    assert found.decode() == text.removeprefix("\ufeff")


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    written_encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1"]),
    marked=st.booleans(),
    packed=st.booleans(),
    start=st.integers(0, 40),
)
def test_text_is_read_from_any_byte(
    objects: Any, text: str, written_encoding: str, marked: bool, packed: bool, start: int
) -> None:
    text = (
        text.encode("latin-1", "replace").decode("latin-1")
        if written_encoding == "latin-1"
        else text.removeprefix("\ufeff")
    )
    assume(written_encoding != "utf-16" or text[:1] != "\0")  # its first bytes are those of a mark of UTF-32
    data = text.encode(written_encoding)
    encoding = (
        "utf-8" if marked and written_encoding != "latin-1" else written_encoding
    )  # with a byte order mark, no option is needed
    reader = objects.reader(gzip.compress(data) if packed else data)
    if not data:
        return
    assert b"".join(bytes(c) for c in decoded(reader, encoding=encoding, start=start)) == text.encode()[start:]
    assert read_sample(reader, 1 << 20, encoding=encoding)[0] == text.encode()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_bytes_before_the_start_are_not_fetched(objects: Any, mark: bytes) -> None:
    data = bytes(97 + i % 26 for i in range(1 << 20)) * 16
    reader = objects.reader(mark + data, listed=True)
    found = b"".join(bytes(c) for c in decoded(reader, start=12 << 20))
    assert found == data[12 << 20 :]
    head, *rest = objects.storage.asked
    assert head[1] <= 1 << 20
    assert min(start for start, _, _ in rest) == (12 << 20) + len(mark)


def test_a_sample_asks_for_no_more_than_it_needs(objects: Any) -> None:
    data = bytes(range(256)) * (20 << 12)
    found, whole = read_sample(objects.reader(data, listed=True), 1 << 20)
    assert (found, whole) == (data[: 1 << 20], False)
    assert objects.storage.asked == [(0, 1 << 20, None)]
    packed = gzip.compress(data, 0)
    found, whole = read_sample(objects.reader(packed, listed=True), 1 << 20)
    assert data.startswith(found)
    assert len(found) > 900_000
    assert not whole
    assert read_sample(objects.reader(b"small"), 1 << 20) == (b"small", True)


def test_a_sample_of_a_small_truncated_stream_is_an_error(objects: Any) -> None:
    with pytest.raises(DataError, match="truncated gzip"):
        read_sample(objects.reader(gzip.compress(b"x" * 100)[:-4]), 1 << 20)


def _views(n: int, seen: list[int] | None = None) -> Iterator[memoryview]:
    for i in range(n):
        if seen is not None:
            seen.append(i)
        yield memoryview(str(i).encode())


def test_results_come_in_order_whatever_the_work_takes() -> None:
    def work(block: memoryview) -> int:
        i = int(bytes(block))
        time.sleep(0.01 if i % 3 == 0 else 0)
        return i

    allowance = Allowance(1 << 20)
    assert list(map_ordered(_views(50), work, allowance)) == list(range(50))
    assert allowance.used == 0


def test_an_error_comes_after_the_results_before_it() -> None:
    def work(block: memoryview) -> int:
        if bytes(block) == b"7":
            raise LookupError
        return int(bytes(block))

    results = map_ordered(_views(20), work, Allowance(1 << 20))
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(LookupError):
        next(results)


def test_an_error_in_the_source_comes_after_the_results_before_it() -> None:
    def source() -> Iterator[memoryview]:
        yield from _views(5)
        raise LookupError

    results = map_ordered(source(), lambda b: int(bytes(b)), Allowance(1 << 20))
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(LookupError):
        next(results)


def test_nothing_is_made_far_ahead_of_a_slow_receiver_and_nothing_stays_behind() -> None:
    seen: list[int] = []
    allowance = Allowance(12)
    before = threading.active_count()
    results = map_ordered(_views(1000, seen), lambda b: int(bytes(b)), allowance)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    time.sleep(0.1)
    assert len(seen) < 12
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert allowance.used == 0
    assert not [t for t in threading.enumerate() if t.name == "blocks"], before


def test_readers_that_are_consumed_in_order_all_finish() -> None:
    """One block of each reader is always admitted, so readers that wait for their turn block no other."""
    allowance = Allowance(3)
    readers = [map_ordered(_views(30), lambda b: int(bytes(b)), allowance) for _ in range(5)]
    firsts = [next(r) for r in readers]
    assert firsts == [0] * 5
    for reader in readers:
        assert list(reader) == list(range(1, 30))
    assert allowance.used == 0
