"""Parallel listing returns the same objects as a single one, with few requests, and ends on an error."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import NotFoundError, ServiceError
from singer_arrow.storage.listing import ObjectPage
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files import listing as lister
from tap_s3_files.listing import list_objects
from tap_s3_files.paths import find

AT = datetime(2024, 1, 1, tzinfo=UTC)


class Bucket(Storage):
    """A storage that lists keys in order, as S3 does, and counts its requests."""

    def __init__(self, keys: list[str], fail: str = "") -> None:
        super().__init__()
        self.keys = sorted(keys)
        self.asked: list[tuple[str, str]] = []
        self.listed = 0
        self._fail, self._lock = fail, threading.Lock()

    def list_pages(self, prefix: Url, *, after: str = "") -> Iterator[ObjectPage]:
        found = self._found(prefix, after)
        while page := list(islice(found, 2)):
            yield ObjectPage.of(page)

    def _found(self, prefix: Url, after: str) -> Iterator[ObjectInfo]:
        with self._lock:
            self.asked.append((prefix.key, after))
        for key in self.keys:
            if key.startswith(prefix.key) and key > after:
                if key == self._fail:
                    msg = "busy"
                    raise ServiceError(msg)
                self.listed += 1
                yield ObjectInfo(Url(prefix.scheme, prefix.bucket, key), 1, "e", AT)

    def head(self, url: Url) -> ObjectInfo:
        if url.key not in self.keys:
            msg = f"{url} does not exist"
            raise NotFoundError(msg)
        return ObjectInfo(url, 1, "e", AT)


def urls(*keys: str) -> list[Url]:
    return [Url("s3", "b", key) for key in keys]


def listed(storage: Storage, paths: list[Url], begin: str = "") -> list[str]:
    found = list_objects(storage, paths, begin=Url("s3", "b", begin) if begin else None)
    return sorted(o.url.key for o in found)


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lister, "MANY", 4)
    monkeypatch.setattr(lister, "FOLDERS", 3)


keys = st.lists(st.text("ab/0", min_size=1, max_size=6).filter(lambda k: "//" not in k and k[0] != "/"), max_size=40)
paths = st.lists(
    st.sampled_from(["**", "a/**", "a/*", "{a,b}/**", "a", "b/", "a/b*/**", "{a,a/b}/*", "0*"]), min_size=1
)


@given(keys, paths)
def test_what_is_found_is_what_one_listing_after_the_other_finds(some: list[str], patterns: list[str]) -> None:
    bucket = Bucket([*{k for k in some if not k.endswith("/")}])
    expected = sorted(o.url.key for o in find(bucket, urls(*patterns)))
    assert len(set(expected)) == len(expected)
    assert listed(bucket, urls(*patterns)) == expected


def test_folders_are_listed_apart_where_there_are_many_objects() -> None:
    bucket = Bucket([f"in/{day}/{n}" for day in "abcdef" for n in range(9)])
    assert len(listed(bucket, urls("in/**"))) == 54
    assert {prefix for prefix, _ in bucket.asked} >= {"in/", "in/a/", "in/b/", "in/c/"}
    few = Bucket(["in/a/1", "in/b/1"])
    listed(few, urls("in/**"))
    assert few.asked == [("in/", "")]


def test_alternatives_are_places_of_their_own() -> None:
    bucket = Bucket(["in/a/1", "in/b/1", "in/c/1"])
    assert listed(bucket, urls("in/{a,b}/*")) == ["in/a/1", "in/b/1"]
    assert sorted(bucket.asked) == [("in/a/", ""), ("in/b/", "")]


def test_where_keys_ascend_only_later_ones_are_asked_for() -> None:
    bucket = Bucket(["in/1", "in/2", "in/3", "more/1"])
    assert listed(bucket, urls("in/*", "more/*"), "in/2") == ["in/3", "more/1"]
    assert sorted(bucket.asked) == [("in/", "in/2"), ("more/", "")]


def test_an_error_of_one_place_ends_it() -> None:
    bucket = Bucket([f"in/{day}/{n}" for day in "abcdef" for n in range(9)], fail="in/c/4")
    with pytest.raises(ServiceError, match="busy"):
        listed(bucket, urls("in/**"))


def test_the_progress_of_a_long_listing_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lister, "LINE_SECONDS", 0.01)
    was_logged = threading.Event()

    class Slow(Bucket):
        def list_pages(self, prefix: Url, *, after: str = "") -> Iterator[ObjectPage]:
            yield from super().list_pages(prefix, after=after)
            was_logged.wait(60)

    class Notify(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            was_logged.set()

    caplog.set_level("INFO", "tap-s3-files")
    monkeypatch.setattr(lister.logger, "handlers", [Notify()])
    assert listed(Slow(["a/1", "a/2"]), urls("a/*")) == ["a/1", "a/2"]
    assert "Listing s3://b/a/: 2 objects so far" in caplog.text
