"""URLs and globs."""

from __future__ import annotations

from pathlib import Path

import pytest

from singer_arrow.errors import ConfigError
from singer_arrow.storage.urls import Url, glob_match, glob_prefix, has_glob, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://b/a/x.csv", Url("s3", "b", "a/x.csv")),
        ("s3a://b", Url("s3", "b", "")),
        ("gcs://b/k", Url("gs", "b", "k")),
        ("s3://b/with space+plus%20", Url("s3", "b", "with space+plus%20")),
        ("file:///a/b%20c", Url("file", "", "a/b c")),
        ("/a/b", Url("file", "", "a/b")),
        ("https://host/p/q.csv", Url("https", "host", "p/q.csv")),
    ],
)
def test_parse(text: str, expected: Url) -> None:
    assert Url.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["/a%20b/c", "file:///a%2520b", "/x%", "/a b/%2e%2e/%41", "s3://b/a%20b", "https://h/%"]
)
def test_a_url_is_the_same_after_it_was_written(text: str) -> None:
    url = Url.parse(text)
    assert Url.parse(str(url)) == url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sftp://u:PW@h/data", "sftp://h/data"),
        ("FTPS://u:PW@h:21/x?y#z", "FTPS://h:21/x"),
        (" https://u:PW@h/", " https://h/"),
        ("https://PW@h", "https://h"),
        ("https://u:P@PW@h/x", "https://h/x"),
        ("sftp://u:P/W?#@h/d", "sftp://h/d"),
        ("sftp:///u:PW@h?PW", "sftp:///u:PW@h"),
        ("az://c/x?sig=PW", "az://c/x"),
        ("webhdfs://u:PW@h/x#PW", "webhdfs://h/x"),
        ("s3://b/day=1/a@b:c", "s3://b/day=1/a@b:c"),
        ("https://h:80/a@b", "https://h:80/a@b"),
        ("file:///a?b#c@d", "file:///a?b#c@d"),
        ("/a?b#c@d", "/a?b#c@d"),
        ("s3://b/" + "k" * 300, "s3://b/" + "k" * 193),
    ],
)
def test_messages_show_no_password(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_relative_path_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Url.parse("x/y.csv").local_path() == tmp_path / "x" / "y.csv"
    assert Url.parse("file://x/y.csv").local_path() == tmp_path / "x" / "y.csv"


def test_join_and_name() -> None:
    url = Url.parse("s3://b/root/").join("flights/", "f 1.parquet")
    assert str(url) == "s3://b/root/flights/f 1.parquet"
    assert url.name == "f 1.parquet"
    assert str(Url.parse("s3://b").join("k")) == "s3://b/k"


def test_no_bucket_is_refused() -> None:
    with pytest.raises(ConfigError, match="names no bucket"):
        Url.parse("s3:///key")


def test_a_remote_url_has_no_path() -> None:
    with pytest.raises(ValueError, match="not a local file"):
        Url.parse("s3://b/k").local_path()


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a/*.csv", ["a/x.csv", "a/.csv"], ["a/b/x.csv", "a/x.csv.gz", "b/x.csv"]),
        ("a/**/*.csv", ["a/x.csv", "a/b/x.csv", "a/b/c/x.csv"], ["ab/x.csv", "a/x.tsv"]),
        ("a/**", ["a/x", "a/b/c"], ["b/a/x"]),
        ("a/{x,y}/*.{csv,csv.gz}", ["a/x/1.csv", "a/y/1.csv.gz"], ["a/z/1.csv", "a/x/1.gz"]),
        ("f[0-9]?.csv", ["f1a.csv"], ["fa1.csv", "f1/.csv"]),
        ("f[!0-9].csv", ["fa.csv"], ["f1.csv", "f/.csv"]),
        ("f[^0-9]*[+-9].csv", ["fa9.csv", "fab+.csv"], ["f/9.csv", "fa/.csv"]),
        ("a+b(c).csv", ["a+b(c).csv"], ["aab(c).csv"]),
        ("a,b.csv", ["a,b.csv"], ["a"]),
    ],
)
def test_globs(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [k for k in yes if not glob_match(pattern, k)] == []
    assert [k for k in no if glob_match(pattern, k)] == []
    assert all(k.startswith(glob_prefix(pattern)) for k in yes)


def test_a_key_without_wildcard_is_its_own_prefix() -> None:
    assert not has_glob("a/b.csv")
    assert glob_prefix("a/b.csv") == "a/b.csv"


def test_a_bracket_in_a_set_is_itself() -> None:
    assert glob_match("a[[]1].csv", "a[1].csv")
    assert glob_match("[a&&b].csv", "&.csv")


@pytest.mark.parametrize("pattern", ["[z-a].csv", "{a{b}.csv"])
def test_an_invalid_pattern_is_an_error(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid pattern"):
        glob_match(pattern, "a")


def test_nothing_is_no_url() -> None:
    with pytest.raises(ConfigError, match="empty"):
        Url.parse(" ")
