"""`--preview` shows types and rows, and reads little more than they need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Fetched, Url
from tap_s3_files import tables
from tap_s3_files.tap import TapS3Files

MIB = 1 << 20


class CountingStorage(Storage):
    """A storage that counts the bytes it returns."""

    bytes = 0

    def get(self, url: Url, **options: Any) -> Fetched:
        fetched = super().get(url, **options)
        self.bytes += len(fetched.data)
        return fetched


def preview(path: Path | str, count: int = 10, **settings: Any) -> tuple[list[str], int]:
    """Return the lines, and the bytes that were read."""
    tap = TapS3Files(config={"streams": [{"name": "rows", "path": str(path), **settings}]}, setup_mapper=False)
    tap.shared.storage = storage = CountingStorage(tap.settings.aws)  # type: ignore[misc]  # a cached property
    return list(tap.preview_lines(count)), storage.bytes


def test_types_and_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,name,price,day\n1,anna,1.5,2024-01-31\n20,"b\n\x1bü漢",,\n')
    lines, _ = preview(tmp_path / "a.csv")
    assert lines == [
        f"rows: 1 object, 2 rows shown, of file://{tmp_path}/a.csv",
        "     id  name         price  day",
        "integer  string      number  date",
        "-------  ------      ------  ----",
        "      1  anna           1.5  2024-01-31",
        "     20  b\\n\\x1bü漢    null  null",
        "(and 5 columns about the object: _sdc_source_...)",
    ]


def test_nested_values_and_long_texts(tmp_path: Path) -> None:
    table = pa.table({"o": [{"a": 1, "b": [1.5, None]}], "text": ["x" * 100], "raw": [b"\xff"], "d": [None]})
    pq.write_table(table, tmp_path / "a.parquet")
    lines, _ = preview(tmp_path / "a.parquet")
    assert lines[2].split() == ["object", "string", "binary", "string"]
    assert lines[4].split() == ['{"a":', "1,", '"b":', "[1.5,", "null]}", f"{'x' * 39}…", '"ff"', "null"]


@pytest.mark.parametrize("count", [1, 3, 10])
def test_as_many_rows_as_asked_for_also_of_several_objects(tmp_path: Path, count: int) -> None:
    for n in range(3):
        (tmp_path / f"{n}.csv").write_text(f"id\n{n}0\n{n}1\n")
    lines, _ = preview(tmp_path / "*.csv", count)
    assert len(lines) == 4 + min(count, 6) + 1
    assert ("more" in lines[0]) is (count > 2)


def csv(path: Path) -> None:
    path.write_text("id,text\n" + "".join(f"{n},{'x' * 1000}\n" for n in range(60_000)))


def parquet(path: Path) -> None:
    import random

    noise = [random.randbytes(500).hex() for _ in range(40_000)]
    pq.write_table(pa.table({"id": range(40_000), "text": noise}), path, row_group_size=1000)


@pytest.mark.parametrize(("write", "most"), [(csv, 12 * MIB), (parquet, 4 * MIB)])
def test_little_is_read_of_large_objects(tmp_path: Path, write: Callable[[Path], None], most: int) -> None:
    path = tmp_path / f"large.{write.__name__}"
    write(path)
    lines, read = preview(path)
    assert len(lines) == 15
    assert path.stat().st_size > 4 * most
    assert read < most


def test_wide_tables_continue_below() -> None:
    rows = [["a" * 10, "b" * 10, "c" * 10], ["1", "2", "3"]]
    assert list(tables.lines(rows, {2}, limit=25)) == [
        "aaaaaaaaaa  bbbbbbbbbb",
        "1           2",
        "",
        "cccccccccc",
        "         3",
    ]


def test_options_without_a_number_show_ten_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(20)))
    run, path = CliRunner(), str(tmp_path / "a.csv")
    assert len(run.invoke(TapS3Files.cli, [path, "--preview"]).stdout.splitlines()) == 15
    assert len(run.invoke(TapS3Files.cli, ["--preview", "2", path]).stdout.splitlines()) == 7
    refused = run.invoke(TapS3Files.cli, ["--preview", path])
    assert refused.exit_code == 2
    assert "put paths before --preview, or write --preview 10" in refused.stderr


def test_a_first_line_that_looks_like_a_row_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("1,Ann,2024-01-31\n2,Ben,2024-02-29\n")
    words = "the first line (1, Ann, 2024-01-31) names the columns, and looks like a row; set csv.header to false if it"
    lines, _ = preview(tmp_path / "*.csv")
    assert lines[1] == f"T{words[1:]} is one, to true if it is not"
    assert [text.startswith(f"Stream 'rows': {words}") for text in caplog.messages if "looks like" in text] == [True]
    caplog.clear()
    for header in (False, True):
        lines, _ = preview(tmp_path / "*.csv", csv={"header": header})
        assert "looks like a row" not in "".join([*lines, *caplog.messages])
    lines, _ = preview(tmp_path / "*.csv", csv={"header": False})
    assert lines[4].split() == ["1", "Ann", "2024-01-31"]


def test_short_rows_are_filled_in_the_stream(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,Ann\n2\n")
    lines, _ = preview(tmp_path / "a.csv", csv={"short_rows": "fill"})
    assert [line.split() for line in lines[4:6]] == [["1", "Ann"], ["2", "null"]]
