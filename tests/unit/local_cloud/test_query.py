"""The table that `local-cloud query` prints, and how it finds the data of `make demo`."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from local_cloud.errors import LocalCloudError
from local_cloud.query import Answer, query, table


def test_numbers_are_right_of_their_column_and_null_is_said() -> None:
    rows = [["LAX", 126, Decimal("1.5"), None], ["Ålesund", -7, None, date(2013, 1, 2)]]

    assert table(Answer(["faa", "alt", "share", "day"], rows, has_more=False)).splitlines() == [
        "faa      alt  share  day",
        "-------  ---  -----  ----------",
        "LAX      126    1.5  NULL",
        "Ålesund   -7   NULL  2013-01-02",
        "(2 rows)",
    ]


def test_wide_characters_count_as_two_columns() -> None:
    rows = [["東京", "a"], ["e\u0301", "b"]]

    assert table(Answer(["x", "y"], rows, has_more=False)).splitlines()[2:4] == ["東京  a", "e\u0301     b"]


def test_long_values_are_cut_and_control_characters_are_escaped() -> None:
    rows = [["x" * 61, "a\n\x1b[31mb", {"é": [1, None]}, True]]

    line = table(Answer(["long", "odd", "nested", "flag"], rows, has_more=False)).splitlines()[2]
    assert line == "x" * 57 + '...  a\\n\\x1b[31mb  {"é": [1, null]}  True'


@pytest.mark.parametrize(
    ("rows", "has_more", "last"),
    [
        ([], False, "(0 rows)"),
        ([[1]], False, "(1 row)"),
        ([[1]] * 1000, True, "(the first 1,000 rows; there are more)"),
    ],
)
def test_the_number_of_rows_is_the_last_line(rows: list[list[int]], has_more: bool, last: str) -> None:
    assert table(Answer(["n"], rows, has_more=has_more)).splitlines()[-1] == last


def test_a_statement_without_rows_is_done() -> None:
    assert table(Answer([], [], has_more=False)) == "done"


def test_without_a_cloud_the_message_says_where_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TARGET_BIGQUERY_API_ENDPOINT", "TARGET_REDSHIFT_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(LocalCloudError, match=r"no local cloud found: .*`local-cloud run`.*`make demo`.*--data-dir"):
        query("SELECT 1")


def test_a_real_warehouse_is_never_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET_REDSHIFT_HOST", "my-cluster.example.com")
    monkeypatch.setenv("TARGET_BIGQUERY_API_ENDPOINT", "https://bigquery.googleapis.com")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(LocalCloudError, match="no local cloud found"):
        query("SELECT 1")


def test_a_folder_without_the_warehouse_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TARGET_BIGQUERY_API_ENDPOINT", raising=False)
    (tmp_path / ".demo/bigquery").mkdir(parents=True)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    with pytest.raises(LocalCloudError, match=r"/\.demo has no data of redshift"):
        query("SELECT 1", warehouse="redshift")
