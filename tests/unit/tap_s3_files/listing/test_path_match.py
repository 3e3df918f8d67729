"""Selection of a stream's objects: patterns, folders, several paths; the tap's own files are excluded."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.paths import ObjectFilter, Window, find


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a/1.csv", "a/2.csv", "a/deep/3.csv", "a/x.json", "a b/c%20d.csv", "ab.csv", "a/_SUCCESS"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path


def found(folder: Path, *patterns: str, own: Iterable[str] = ()) -> list[str]:
    paths = [Url.parse(f"{folder}/{p}") if p else Url.parse(str(folder)) for p in patterns]
    objects = find(Storage(), paths, own=[Url.parse(f"{folder}/{o}") for o in own])
    return sorted(os.path.relpath(o.url.local_path(), folder) for o in objects)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["a/*.csv"], ["a/1.csv", "a/2.csv"]),
        (["a/**/*.csv"], ["a/1.csv", "a/2.csv", "a/deep/3.csv"]),
        (["**/*.csv"], ["a b/c%20d.csv", "a/1.csv", "a/2.csv", "a/deep/3.csv", "ab.csv"]),
        (["a/1.csv", "a/*.csv"], ["a/1.csv", "a/2.csv"]),
        (["a/{1,x}.*"], ["a/1.csv", "a/x.json"]),
        (["a b/*"], ["a b/c%20d.csv"]),
        (["a/1.csv"], ["a/1.csv"]),
        (["a/deep"], ["a/deep/3.csv"]),
        (["a/deep/"], ["a/deep/3.csv"]),
        (["nothing/*.csv"], []),
        (["nothing"], []),
    ],
)
def test_paths(folder: Path, patterns: list[str], expected: list[str]) -> None:
    assert found(folder, *patterns) == expected


@pytest.mark.parametrize(
    "pattern", ["a/*.csv", "a/**/*.csv", "**/*.csv", "a/{1,x}.*", "a b/*", "a/1.csv", "a/deep", "a/deep/", "", "x"]
)
def test_an_object_belongs_to_a_path_where_it_is_found_below_it(folder: Path, pattern: str) -> None:
    path = Url.parse(f"{folder}/{pattern}") if pattern else Url.parse(str(folder))
    objects = [p for p in folder.rglob("*") if p.is_file()]
    claim = ObjectFilter("orders", (path,))
    held = sorted(os.path.relpath(o, folder) for o in objects if claim.matches(Url.parse(str(o))))
    assert held == found(folder, pattern)
    assert not claim.matches(Url("s3", "b", path.key))


def test_a_folder_is_no_prefix_of_its_neighbours(folder: Path) -> None:
    assert "ab.csv" not in found(folder, "a")


def test_what_the_tap_writes_is_no_source(folder: Path) -> None:
    for name in (f"a/rows--{'0' * 32}-0-100.parquet", f"a/rows--{'0' * 32}-0-9.jsonl.gz", "a/_plans/rows/000000.json"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert found(folder, "a/**", own=["a"]) == ["a/1.csv", "a/2.csv", "a/_SUCCESS", "a/deep/3.csv", "a/x.json"]
    assert f"a/rows--{'0' * 32}-0-100.parquet" in found(folder, "a/**", own=["elsewhere"])


@given(
    st.lists(st.text("a=01/\né%-.", max_size=8), max_size=20),
    st.sampled_from(["", "a", "a/", "a/*", "**/[!0]", "[a0]*", "a={0,1}/**", "a\n?", "a/{date:%Y}/*", "{date:%Y}"]),
    st.sampled_from([(None, None), (datetime(1000, 1, 1, tzinfo=UTC), None)]),
)
def test_columns_of_keys_are_matched_like_objects(keys: list[str], path: str, dates: Window) -> None:
    own = f"a--{'0' * 32}-0-9.jsonl.gz"
    keys += ["1010", "a/1000/0", "a/0999/0", own, f"{own}\n", f"a/{own}", f"a/{own}/", "a/_plans/0", "_plans/0"]
    for roots in ([], [Url("s3", "b", "")], [Url("s3", "b", "a/"), Url("s3", "c", "")]):
        match = ObjectFilter("orders", (Url("s3", "c", ""), Url("s3", "b", path)), tuple(roots), dates)
        mask = match.select(Url("s3", "b", ""), pa.array(keys, pa.string())).to_pylist()
        assert mask == [match.matches(Url("s3", "b", key)) for key in keys]
