"""Requests for objects: few, pinned, ahead of need, within the budget."""

from __future__ import annotations

import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singer_arrow.errors import EmptyObjectError, NotFoundError, ObjectChangedError, ServiceError
from singer_arrow.reading import objects as objects_module
from singer_arrow.reading.objects import MIN_PART, ObjectReader
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage import errors as pace
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

MIB = 1 << 20
SMALL = os.urandom(3 * MIB)
LARGE = os.urandom(MIB) * 41 + b"end"


def test_a_small_object_is_one_request(objects: Any) -> None:
    unknown = objects.reader(SMALL)
    assert b"".join(unknown.chunks()) == SMALL
    assert objects.storage.asked == [(0, MIN_PART, None), (MIN_PART, len(SMALL), None)]
    listed = objects.reader(SMALL, listed=True)
    assert b"".join(listed.chunks()) == SMALL
    assert objects.storage.asked == [(0, len(SMALL), None)]
    assert objects.storage.pinned == [True]


def test_a_large_object_is_read_by_pinned_parts(objects: Any) -> None:
    reader = objects.reader(LARGE)
    assert b"".join(reader.chunks()) == LARGE
    assert objects.storage.pinned[:1] == [False]
    assert all(objects.storage.pinned[1:])
    assert len(objects.storage.asked) > 5
    assert all(end - start <= 16 * MIB for start, end, _ in objects.storage.asked)
    listed = objects.reader(LARGE, listed=True)
    assert b"".join(listed.chunks()) == LARGE
    assert all(objects.storage.pinned)


@settings(deadline=None, max_examples=settings.default.max_examples // 3)
@given(
    start=st.integers(0, len(LARGE)),
    size=st.integers(0, len(LARGE)),
    head=st.integers(0, 9 * MIB),
    listed=st.booleans(),
)
@pytest.mark.full
def test_any_part_of_an_object(objects: Any, start: int, size: int, head: int, listed: bool) -> None:
    reader = objects.reader(LARGE, listed=listed)
    if head:
        assert bytes(reader.head_bytes(head)) == LARGE[:head]
    assert b"".join(reader.chunks(start, start + size)) == LARGE[start : start + size]
    assert b"".join(reader.chunks(start)) == LARGE[start:]
    assert reader.budget.fetched.used == 0


def test_the_head_is_not_asked_for_again(objects: Any) -> None:
    reader = objects.reader(SMALL, listed=True)
    assert bytes(reader.head_bytes(10)) == SMALL[:10]
    assert b"".join(reader.chunks()) == SMALL
    assert len(objects.storage.asked) == 1
    large = objects.reader(LARGE, listed=True)
    large.head_bytes(MIB)
    assert b"".join(large.chunks()) == LARGE
    assert sum(end - start for start, end, _ in objects.storage.asked) == len(LARGE)


def test_the_tail_of_an_object(objects: Any) -> None:
    for listed in (False, True):
        reader = objects.reader(LARGE, listed=listed)
        start, data = reader.tail(100)
        assert (start, bytes(data)) == (len(LARGE) - 100, LARGE[-100:])
        assert len(objects.storage.asked) == 1
        assert reader.size == len(LARGE)


def test_an_empty_object_is_an_error(objects: Any) -> None:
    for listed in (False, True):
        for ask in (lambda r: list(r.chunks()), lambda r: r.head_bytes(5), lambda r: r.tail(5)):
            with pytest.raises(EmptyObjectError, match="empty"):
                ask(objects.reader(b"", listed=listed))


def test_a_missing_object_is_an_error(objects: Any) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        list(ObjectReader(objects.storage, objects.url("nowhere")).chunks())


@pytest.mark.parametrize("delete", [False, True])
def test_an_object_that_changes_is_never_a_mix(objects: Any, delete: bool) -> None:
    reader = objects.reader(LARGE, "changing")
    chunks = reader.chunks()
    next(chunks)
    chunks.close()
    objects.storage.delete([reader.url]) if delete else objects.write(os.urandom(len(LARGE)), "changing")
    with pytest.raises(ObjectChangedError, match="replaced or deleted"):
        list(ObjectReader(objects.storage, reader.url, info=reader.info).chunks())


@pytest.mark.parametrize(("receiver_is_slow", "least", "most"), [(True, 0, 9), (False, 5, 24)])
def test_the_read_ahead_grows_only_for_a_receiver_that_waits(
    objects: Any, monkeypatch: pytest.MonkeyPatch, receiver_is_slow: bool, least: int, most: int
) -> None:
    started = list[Any]()

    class Pool(ThreadPoolExecutor):
        """Threads whose futures are done, or not, whenever the receiver takes one."""

        def submit(self, *given: Any) -> Any:
            started.append(future := super().submit(*given))
            future.done = lambda: receiver_is_slow  # type: ignore[method-assign]
            return future

    pool = Pool(4)
    monkeypatch.setattr(objects_module, "shared_pool", lambda *_: pool)
    monkeypatch.setattr(objects_module, "_FIRST_AHEAD", 4 * MIB)
    reader = objects.reader(LARGE, listed=True)
    chunks = reader.chunks()
    for _ in range(8):
        next(chunks)
    assert least <= len(started) - 8 <= most
    chunks.close()
    pool.shutdown()
    assert reader.budget.fetched.used == 0


def test_readers_in_many_threads_share_one_budget(objects: Any) -> None:
    url, budget = objects.write(LARGE, "shared"), Budget(20 * MIB)
    info = objects.storage.head(url)

    def read(_: int) -> bool:
        return b"".join(ObjectReader(objects.storage, url, info=info, budget=budget).chunks()) == LARGE

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(read, range(12)))
    assert budget.fetched.used == 0
    assert budget.fetched.peak <= 20 * MIB


def test_a_consumer_that_takes_objects_in_order_gets_them(objects: Any) -> None:
    """Later readers fill the budget and are not consumed until the first is done."""
    url, budget = objects.write(LARGE, "ordered"), Budget(4 * MIB)
    info, started = objects.storage.head(url), threading.Barrier(4)

    def open_and_hold(i: int) -> Any:
        chunks = ObjectReader(objects.storage, url, info=info, budget=budget).chunks()
        started.wait(60)
        return next(chunks), chunks

    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(open_and_hold, range(4)))
    for first, rest in opened:
        assert bytes(first) + b"".join(rest) == LARGE


class _Sequential(Storage):
    """A store of a scheme that supports only sequential reads."""

    def open(self, url: Url) -> BinaryIO:
        return io.BytesIO(LARGE if url.key == "large" else b"")


def test_schemes_without_ranges_are_read_in_order() -> None:
    reader = ObjectReader(_Sequential(), Url("https", "host", "large"))
    assert bytes(reader.head_bytes(5)) == LARGE[:5]
    assert b"".join(reader.chunks()) == LARGE
    assert b"".join(reader.chunks(MIB + 1, 3 * MIB)) == LARGE[MIB + 1 : 3 * MIB]
    with pytest.raises(EmptyObjectError):
        list(ObjectReader(_Sequential(), Url("https", "host", "empty")).chunks())


@pytest.mark.parametrize("by", ["reader", "storage"])
def test_what_is_given_up_is_not_asked_for_again(by: str, objects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, asked = objects.reader(SMALL, listed=True), threading.Event()

    def slow(*_: Any) -> None:
        asked.set()
        raise OSError("status code: 503")

    monkeypatch.setattr(pace, "FIRST_PAUSE", 1e6)
    monkeypatch.setattr(objects.storage, "_get", slow)
    monkeypatch.setattr(objects.storage, "cancelled", threading.Event())  # other readers use this storage too
    reader.prefetch()
    assert asked.wait(60)
    (reader.cancel if by == "reader" else objects.storage.cancelled.set)()
    with pytest.raises(ServiceError):
        reader.head_bytes(1)
