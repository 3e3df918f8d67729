"""Schema errors of a stream name the file that causes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import ConfigError, SchemaError
from tap_s3_files.tap import TapS3Files

GOOD = pa.table({"id": [1, 2]})


def discover(folder: Path, **files: pa.Table) -> None:
    for name, table in files.items():
        pq.write_table(table, folder / f"{name}.parquet")
    TapS3Files(config={"streams": [{"name": "rows", "path": f"{folder}/*.parquet"}]}).discover_streams()


@pytest.mark.parametrize("name", ["_sdc_source_file", "_sdc_source_lineno"])
def test_a_file_with_a_column_that_the_tap_adds(tmp_path: Path, name: str) -> None:
    with pytest.raises(SchemaError, match=rf"/b\.parquet: it has a column '{name}'.*set metadata_columns to false"):
        discover(tmp_path, a=GOOD, b=GOOD.add_column(0, name, [["x", "y"]]), c=GOOD)


def test_columns_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"/b\.parquet: .*'id'"):
        discover(tmp_path, a=GOOD, b=pa.table([[1], [2]], names=["id", "id"]))


def test_files_without_a_column(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"no column was found in its files \(file:.*/a\.parquet, \.\.\.\)"):
        discover(tmp_path, a=GOOD.select([]), b=GOOD.select([]))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("folder", None, "cannot be read: Is a directory"),
        ("gone.json", None, "cannot be read: No such file"),
        ("c.yml", "streams: [", "is not valid YAML: .*, line 1, column 11"),
        ("c.yaml", "- name: a", "must hold a YAML mapping"),
        ("c.json", "[1]", "must hold a JSON object"),
        ("c.json", "{", "is not valid JSON"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_one_line(tmp_path: Path, name: str, text: str | None, why: str) -> None:
    (tmp_path / "folder").mkdir()
    if text is not None:
        (tmp_path / name).write_text(text)
    nothing: Any = None
    with pytest.raises(ConfigError, match=f"--config .*{name} {why}"):
        TapS3Files.cb_config(nothing, nothing, (str(tmp_path / name),))
