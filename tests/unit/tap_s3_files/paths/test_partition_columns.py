"""Partition columns: values and types from folder names, without loss."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.storage.urls import Url, glob_prefix
from tap_s3_files.paths import ObjectFilter, Partitions, check_groups, dates_as_wildcards, group_names, without_names

HIVE = Partitions(hive=True)


def url(key: str, bucket: str = "b") -> Url:
    return Url("s3", bucket, key)


def test_folders_are_columns_and_names_of_objects_are_not() -> None:
    assert HIVE.texts(url("in/year=2024/re%20gion=a%2Fb=c/x=1.csv")) == {"year": "2024", "re gion": "a/b=c"}
    assert HIVE.texts(url("in/a=__HIVE_DEFAULT_PARTITION__/b=/x.csv")) == {"a": None, "b": None}
    assert HIVE.texts(url("=1/plain/x.csv")) == {}


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["2024", "0", "-5"], pa.int64()),
        (["01", "02"], pa.string()),
        (["1", "01"], pa.string()),
        (["1", "x"], pa.string()),
        (["2024-05-01"], pa.date32()),
        (["2024-05-01", "7"], pa.string()),
        (["20240501"], pa.int64()),
        (["2024-13-01"], pa.string()),
        (["99999999999999999999"], pa.string()),
        (["", "5"], pa.int64()),
        ([""], pa.string()),
    ],
)
def test_types_lose_nothing(texts: list[str], kind: pa.DataType) -> None:
    assert HIVE.infer(url(f"in/k={text}/x.csv") for text in texts) == [pa.field("k", kind)]


def test_columns_of_all_objects_are_found_in_order() -> None:
    assert [f.name for f in HIVE.infer([url("a=1/b=2/x"), url("c=3/a=2/x"), url("x")])] == ["a", "b", "c"]


def test_values_are_of_the_types_of_the_schema() -> None:
    schema = pa.schema(
        [("a", pa.int64()), ("b", pa.string()), ("c", pa.date32()), ("d", pa.decimal128(5, 2)), ("e", pa.bool_())]
    )
    key = "a=07/b=07/c=2024-05-01/d=1.50/e=true/not_selected=1/x.csv"
    expected = {"a": 7, "b": "07", "c": date(2024, 5, 1), "d": Decimal("1.50"), "e": True}
    assert HIVE.values(url(key), schema) == expected
    assert HIVE.values(url("a=__HIVE_DEFAULT_PARTITION__/x"), schema) == {"a": None}


def test_a_value_of_another_type_is_an_error() -> None:
    with pytest.raises(DataError) as caught:
        HIVE.values(url("year=next/x.csv"), pa.schema([("year", pa.int64())]))
    assert str(caught.value).startswith("s3://b/year=next/x.csv, column 'year': its key has 'next', which is no int64")


def texts_of(path: str, key: str, *, hive: bool = False) -> dict[str, str | None]:
    return Partitions((url(path),), hive).texts(url(key))


@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        ("{country:*}/{day:????-??-??}/*.csv", "de/2024-05-01/a.csv", {"country": "de", "day": "2024-05-01"}),
        ("in/**/{shop:s[0-9]}_{part:*}.csv", "in/a/b/s7_1_2.csv", {"shop": "s7", "part": "1_2"}),
        ("in/**/{shop:*}.csv", "in/s7.csv", {"shop": "s7"}),
        ("{region:eu,us-*}/**", "us-west/x/y", {"region": "us-west"}),
        ("{a,b}/{x:*}/{date:%Y/%m}/{y:*}", "b/1/2024/05/2", {"x": "1", "y": "2"}),
        ("{date:%Y}/{x:eu}", "2024/eu/below/it.csv", {"x": "eu"}),
        ("{x:eu}/", "eu/below/it.csv", {"x": "eu"}),
        ("{x:eu}.csv", "eu.csv", {"x": "eu"}),
        ("{a,b{x:?}}/*", "a/1", {"x": None}),
        ("{x:*}/{y:*}/1", "/__HIVE_DEFAULT_PARTITION__/1", {"x": None, "y": None}),
        ("{x:*}/1", "a%20=b+ü/1", {"x": "a%20=b+ü"}),
    ],
)
def test_values_of_keys(path: str, key: str, expected: dict[str, str | None]) -> None:
    check_groups([url(path)], "path")
    assert texts_of(path, key) == expected
    assert ObjectFilter("s", (without_names(url(path)),)).matches(url(key))


def test_groups_come_before_folders_of_the_same_name() -> None:
    assert texts_of("year={year:??}*/**", "year=2024/m=1/x", hive=True) == {"year": "20", "m": "1"}
    assert texts_of("year={year:??}*/**", "year=2024/m=1/x") == {"year": "20"}


def test_the_first_matching_path_gives_the_values() -> None:
    both = Partitions((url("in/{x:*}/{y:*}"), url("in/{y:*}/{x:*}"), url("{y:*}-{x:*}")))
    assert both.texts(url("in/1/2")) == {"x": "1", "y": "2"}
    assert both.texts(url("1-2")) == {"y": "1", "x": "2"}
    for other in (url("1_2"), url("1-2", "elsewhere")):
        with pytest.raises(DataError, match="so it has no value for x, y. A run with"):
            both.texts(other)


def test_columns_are_typed_as_those_of_folders_are() -> None:
    partitions = Partitions((url("{day:*}/{n:*}/{code:*}/*"),))
    keys = [url("2024-05-01/7/01/a"), url("2024-05-02//2/b")]
    schema = pa.schema(partitions.infer(keys))
    assert schema == pa.schema([("day", pa.date32()), ("n", pa.int64()), ("code", pa.string())])
    assert partitions.values(keys[1], schema) == {"day": date(2024, 5, 2), "n": None, "code": "2"}
    with pytest.raises(DataError, match="column 'n': its key has 'x', which is no int64"):
        partitions.values(url("2024-05-01/x/1/a"), schema)


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["{a:*}/x", "{b:*}/x"], "has b, the first a"),
        (["{a:*}/x", "x"], "has none, the first a"),
        (["{a:*}/{a:*}"], "has two groups named 'a'"),
        (["{a:}/x"], "has a group 'a' that is no pattern within one folder"),
        (["{a:**}/x"], "has a group 'a' that is no pattern within one folder"),
        (["{a:[}{b:]}"], "has a group 'a' that is no pattern within one folder"),
        (["{a:x/y}"], "has a named group that is none"),
        (["{a:{b,c}}"], "has a named group that is none"),
        (["{a:*}{b:*}"], "has a * right beside another one"),
        (["{a:*}*"], "has a * right beside another one"),
        (["**{a:*}"], "has a * right beside another one"),
        (["x[{a:b]}"], "has a named group between brackets"),
        (["{_sdc_etag:*}"], "names that begin with _sdc_ are the tap's own"),
        (["{a:[z-a]}"], "'[z-a]' is not a valid pattern"),
    ],
)
def test_invalid_groups_are_an_error(paths: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_groups([url(p) for p in paths], "streams[0].path")
    assert words in str(caught.value)


def test_dates_and_alternatives_are_no_groups() -> None:
    path = url("{date:%Y}/{a,b}/{1:2}/[{]x:y}")
    check_groups([path], "path")
    assert (group_names(path), without_names(path)) == ([], path)


TEXT = st.text("ab0-=% ü", min_size=1, max_size=4)
PIECES = st.one_of(  # a piece of a path, and its match in a key
    TEXT.map(lambda t: (t, t)),
    TEXT.map(lambda t: ("{ab,*}", t)),
    st.dates().map(lambda d: ("{date:%Y-%m-%d}", d.isoformat())),
    st.lists(TEXT, max_size=2).map(lambda folders: ("**", "/".join(folders) or "x")),
    *(
        values.map(lambda v, glob=glob: (glob, v))  # type: ignore[misc]
        for glob, values in {
            "{*}": st.text("ab0-=% ü", max_size=4),
            "{?[a-c]}": st.tuples(TEXT, st.sampled_from("abc")).map(lambda t: t[0][:1] + t[1]),
            "{a?,b*}": TEXT.map(lambda t: "b" + t),
        }.items()
    ),
)


@given(st.lists(PIECES, min_size=1, max_size=6))
def test_the_values_of_a_key_are_those_it_was_made_of(pieces: list[tuple[str, str]]) -> None:
    """Each piece is a folder of its own, so that only one way to match the key exists."""
    if [glob for glob, _ in pieces].count("**") > 1:
        return
    path, expected = [], {}
    for number, (glob, value) in enumerate(pieces):
        if glob.startswith("{") and not glob.startswith(("{date", "{ab")):
            expected[f"g{number}"] = value or None
            path.append(f"{{g{number}:{glob[1:-1]}}}")
        else:
            path.append(glob)
    made, key = url("/".join(path)), url("/".join(value for _, value in pieces))
    check_groups([made], "path")
    assert ObjectFilter("s", (without_names(made),)).matches(key)
    assert Partitions((made,)).texts(key) == expected
    bare = dates_as_wildcards(without_names(made).key)
    assert key.key.startswith(glob_prefix(bare))
    assert glob_prefix(bare).startswith("/".join(path).partition("{")[0].partition("*")[0])
