"""File formats by name; a format is imported when it is first used.

base           Protocols: Format, JoiningFormat, WritableFormat
registry       Mapping from names to lazily imported formats
zip_archive    Any format inside zip archives
tar_archive    Any format inside tar archives
small_files    Parse many small files at once
columnar       Read a columnar file part by part; shared by Parquet, ORC, Arrow and Avro
delivery       Yield the blocks of text and JSON files as batches
row_policy     Apply `on_bad_row` and `on_drift` to a block of text or JSON
varint         Variable-length integers
file_errors    Convert library errors to errors that name the file
arrow          Arrow IPC files and streams
avro           Avro object container files
csv            CSV, TSV and other delimited text
excel          Workbooks
json           JSON Lines, arrays and envelopes
orc            ORC
parquet        Parquet
text           Plain lines, fixed width, and what formats of lines share
"""

from __future__ import annotations

from singer_arrow.compression.codecs import strip_suffix
from singer_arrow.formats.base import Format, WritableFormat
from singer_arrow.formats.registry import Formats, with_archives

__all__ = ["FORMATS", "WRITABLE", "Format", "WritableFormat", "detect_format"]

_WRITABLE = {
    "jsonl": "singer_arrow.formats.json.json_format.JsonLinesFormat",
    "parquet": "singer_arrow.formats.parquet.parquet_format.Parquet",
    "avro": "singer_arrow.formats.avro.avro_format.Avro",
}
_ALL = {
    "csv": "singer_arrow.formats.csv.csv_format.CsvFormat",
    **_WRITABLE,
    "orc": "singer_arrow.formats.orc.orc_format.Orc",
    "arrow": "singer_arrow.formats.arrow.arrow_format.Arrow",
    "lines": "singer_arrow.formats.text.lines_format.LinesFormat",
    "fixed_width": "singer_arrow.formats.text.fixed_width.FixedWidthFormat",
    "excel": "singer_arrow.formats.excel.excel_format.ExcelFormat",
}
_SUFFIXES = {
    "csv": (".csv", ".tsv", ".tab", ".psv"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".parq", ".pq"),
    "avro": (".avro",),
    "orc": (".orc",),
    "arrow": (".arrow", ".arrows", ".ipc", ".feather"),
    "lines": (".log",),
    "fixed_width": (".fwf",),
    "excel": (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
}

FORMATS: Formats[Format] = Formats(_ALL, with_archives)
WRITABLE: Formats[WritableFormat] = Formats(_WRITABLE)


def detect_format(name: str) -> str | None:
    """Return the format of a file name, ignoring the suffix of its compression: `a.csv.gz` is csv."""
    base = strip_suffix(name).lower()
    return next((kind for kind, suffixes in _SUFFIXES.items() if base.endswith(suffixes)), None)
