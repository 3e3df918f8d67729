"""Dates in paths: the prefixes of a window, each in exactly one of consecutive windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import ConfigError
from singer_arrow.storage.urls import Url, glob_match, has_glob
from tap_s3_files.paths import check_date_pattern, check_moment, has_date, matches_key, resolve_dates

NOW = datetime(2024, 5, 3, 12, tzinfo=UTC)


def url(key: str) -> Url:
    return Url("s3", "b", key)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def keys(path: str, start: str | None, end: str | None = None, begin: str | None = None) -> list[str]:
    moments = (at(start) if start else None, at(end) if end else None)
    return [u.key for u in resolve_dates([url(path)], *moments, NOW, begin=url(begin) if begin else None)]


@pytest.mark.parametrize(
    ("path", "start", "end", "expected"),
    [
        ("l/{date:%Y/%m/%d}/*", "2024-02-28", "2024-03-01", ["l/2024/02/28/*", "l/2024/02/29/*"]),
        ("l/dt={date:%Y-%m-%d}/**", "2023-12-31", "2024-01-02", ["l/dt=2023-12-31/**", "l/dt=2024-01-01/**"]),
        (
            "{date:%Y%m%d%H}.gz",
            "2024-05-01T22:00",
            "2024-05-02T01:00",
            ["2024050122.gz", "2024050123.gz", "2024050200.gz"],
        ),
        ("{date:%Y-%j}", "2024-12-31", "2025-01-02", ["2024-366", "2025-001"]),
        ("y={date:%Y}/m={date:%m}/*", "2024-01-01", "2024-04-01", ["y=2024/m=01/*", "y=2024/m=02/*", "y=2024/m=03/*"]),
        ("{date:%y}", "2023-01-01", "2025-01-01", ["23", "24"]),
        ("{date:%Y%m%d%H%M}", "2024-05-01T00:59", "2024-05-01T01:01", ["202405010059", "202405010100"]),
        ("l/{date:%Y-%m-%d}", "2024-05-02", None, ["l/2024-05-02", "l/2024-05-03", "l/2024-05-04"]),
        ("l/{date:%Y-%m}/*", None, None, ["l/[0-9][0-9][0-9][0-9]-[0-9][0-9]/*"]),
        ("plain/*", "2024-05-02", None, ["plain/*"]),
    ],
)
def test_the_places_of_a_window(path: str, start: str | None, end: str | None, expected: list[str]) -> None:
    assert keys(path, start, end) == expected


def test_places_before_a_known_key_are_left_out_where_keys_ascend() -> None:
    expected = ["l/2024-05-02/*", "l/2024-05-03/*", "l/2024-05-04/*"]
    assert keys("l/{date:%Y-%m-%d}/*", "2024-05-01", None, "l/2024-05-02/a.csv") == expected
    assert len(keys("l/{date:%Y-%m-%d}/*", "2024-05-01", None, "z/2024-05-02/a.csv")) == 4


@given(st.lists(st.integers(0, 400), min_size=2, max_size=6, unique=True))
def test_windows_that_follow_each_other_hold_each_place_once(days: list[int]) -> None:
    path = url("l/{date:%Y/%m/%d}/*")
    ends = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=d) for d in sorted(days)]
    apart = [u for a, b in pairwise(ends) for u in resolve_dates([path], a, b, NOW)]
    assert apart == resolve_dates([path], ends[0], ends[-1], NOW)
    (wild,) = resolve_dates([path], None, None, NOW)
    assert all(glob_match(wild.key, u.key.replace("*", "x")) for u in apart)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("{date:%Y/%m/%V}", "a date in a path has no %V"),
        ("{date:%Y/%d}", "names no date without %m"),
        ("{date:%H}", "names no date without %Y"),
        ("{date:x}", "has a date without directives"),
        ("{date:%Y%}", "a date in a path has no %"),
    ],
)
def test_a_date_pattern_without_steps_is_an_error(path: str, words: str) -> None:
    with pytest.raises(ConfigError, match="'streams") as caught:
        check_date_pattern(url(path), "streams[0].path")
    assert words in str(caught.value)


def test_a_window_begins_where_a_place_does() -> None:
    path = url("{date:%Y/%m/%d}/*")
    check_moment(path, at("2024-05-01"), "start_date")
    check_moment(path, datetime(2024, 5, 1, 2, tzinfo=timezone(timedelta(hours=2))), "start_date")
    check_moment(path, None, "start_date")
    with pytest.raises(ConfigError, match=r"'end_date': 2024-05-01T10:00:00\+00:00 lies within one of the dates"):
        check_moment(path, at("2024-05-01T10:00"), "end_date")
    with pytest.raises(ConfigError, match="use 2024-05-01"):
        check_moment(url("{date:%Y/%m}"), at("2024-05-02"), "start_date")


@pytest.mark.full
def test_too_many_folders_are_an_error() -> None:
    with pytest.raises(ConfigError, match="more than 100,000 places"):
        keys("{date:%Y%m%d%H%M}", "2020-01-01")


def test_other_braces_are_no_dates() -> None:
    assert not has_date(url("{a,b}/*"))
    assert has_date(url("{date:%Y}"))


PATHS = (
    "l/{date:%Y/%m/%d}/*.gz",
    "l/{date:%Y-%m-%d}",
    "l/{date:%Y-%m}/",
    "y={date:%Y}/**/{date:%Y%m%d}-*.gz",
    "{date:%Y-%j}/{a,b}/?",
    "{a/{date:%y},b/{date:%y%m}}/*",
)


@given(st.sampled_from(PATHS), st.data())
def test_a_key_is_named_where_one_of_the_places_names_it(path: str, data: st.DataObject) -> None:
    day = st.integers(0, 800).map(lambda n: at("2023-01-01") + timedelta(days=n))
    moment, other = data.draw(day), data.draw(day)
    key = data.draw(
        st.sampled_from(
            [
                f"l/{moment:%Y/%m/%d}/a.gz",
                f"l/{moment:%Y/%m/%d}/a/b.gz",
                f"l/{moment:%Y-%m-%d}",
                f"l/{moment:%Y-%m-%d}/x/y",
                f"l/{moment:%Y-%m}",
                f"l/{moment:%Y-%m}/x",
                f"y={moment:%Y}/{moment:%Y%m%d}-1.gz",
                f"y={moment:%Y}/a/b/{other:%Y%m%d}-1.gz",
                f"{moment:%Y-%j}/b/1",
                f"a/{moment:%y}/x",
                f"b/{moment:%y%m}/x",
                "l/2023/02/30/a.gz",
                "l/9999-99-99",
            ]
        )
    )
    floor = {"month": 1, "day": 1} if "%m" not in path.replace("%y%m", "") and "%j" not in path else {"day": 1}
    start, end = (data.draw(day).replace(**floor) for _ in range(2))
    end += timedelta(days=366)
    end = end.replace(**floor)
    places = resolve_dates([url(path)], start, end, NOW)
    folders = [p for p in places if not has_glob(p.key)]
    named = any(glob_match(p.key, key) for p in places) or any(
        key.startswith(p.key.removesuffix("/") + "/") for p in folders
    )
    if path.endswith("/"):
        named = named and key.count("/") > 1
    assert matches_key(url(path), key, start, end) == named


def test_without_a_start_every_date_is_named() -> None:
    for key in ("l/2024-05-02", "l/2024-05-02/a.csv", "l/2024-05-02/a/b.csv"):
        assert matches_key(url("l/{date:%Y-%m-%d}"), key, None, None)
        assert any(glob_match(k, key) for k in keys("l/{date:%Y-%m-%d}", None))
    assert not matches_key(url("l/{date:%Y-%m-%d}"), "l/2024-05-02x", None, None)


def test_without_an_end_there_is_none() -> None:
    assert matches_key(url("l/{date:%Y-%m-%d}/*"), "l/2099-01-01/a", at("2024-01-01"), None)
    assert not matches_key(url("l/{date:%Y-%m-%d}/*"), "l/2023-12-31/a", at("2024-01-01"), None)
