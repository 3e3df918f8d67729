"""Formats are imported on first use, and match their entries in the registry."""

from __future__ import annotations

import subprocess
import sys

import pytest

from singer_arrow.formats import DIVISIBLE, FORMATS, WRITABLE, WritableFormat, detect_format

IMPORTED = """
import sys
import singer_arrow.formats as formats
heavy = ("pyarrow.compute", "pyarrow.parquet", "polars", "fastavro", "singer_arrow.formats.parquet_read")
def loaded(): return [name for name in heavy if name in sys.modules]
assert formats.detect_format("a.PARQUET.gz") == "parquet" and "parquet" in formats.FORMATS
assert len(formats.FORMATS) == 10
assert loaded() == [], loaded()
formats.FORMATS["parquet"]
assert "singer_arrow.formats.parquet_read" in loaded() and "polars" not in loaded()
"""


@pytest.mark.full
def test_names_and_suffixes_import_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SUFFIXES = {
    "csv": [".csv", ".tsv", ".TAB", ".psv"],
    "jsonl": [".jsonl", ".ndjson", ".json"],
    "parquet": [".parquet", ".parq", ".pq"],
    "avro": [".avro"],
    "arrow": [".arrow", ".arrows", ".ipc", ".feather"],
    "orc": [".orc"],
    "lines": [".log"],
    "fixed_width": [".fwf"],
    "excel": [".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"],
    "xml": [".xml"],
}


def test_the_order_of_the_formats() -> None:
    assert list(FORMATS) == list(SUFFIXES)
    assert list(WRITABLE) == ["jsonl", "parquet", "avro", "arrow"]
    assert list(DIVISIBLE) == ["csv", "jsonl", "parquet"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_known_by_its_name_and_suffixes(name: str) -> None:
    assert FORMATS[name] is FORMATS[name]
    assert {detect_format(f"x{suffix}.gz") for suffix in SUFFIXES[name]} == {name}
    assert (name in WRITABLE) is isinstance(WRITABLE.get(name), WritableFormat)


def test_a_format_that_there_is_not() -> None:
    assert [detect_format(name) for name in ("a.docx", "csv", "a.csv/b", "")] == [None] * 4
    assert FORMATS.get("docx") is None
    with pytest.raises(KeyError):
        FORMATS["docx"]
