"""File formats: one file each, behind one Protocol, in one dict that imports a format when it is asked for."""

from __future__ import annotations

from singer_arrow.compression.codecs import strip_suffix
from singer_arrow.formats.base import Format, WritableFormat
from singer_arrow.formats.registry import Formats, zipped
from singer_arrow.read_options import RESCUED, FixedColumn, ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint

__all__ = [
    "FORMATS",
    "RESCUED",
    "WRITABLE",
    "FixedColumn",
    "Format",
    "ReadOptions",
    "ReadProgress",
    "ResumePoint",
    "WritableFormat",
    "detect_format",
]

_WRITABLE = {
    "jsonl": "singer_arrow.formats.json.json_format.JsonLines",
    "parquet": "singer_arrow.formats.parquet.parquet_format.Parquet",
    "avro": "singer_arrow.formats.avro.avro_format.Avro",
}
_ALL = {
    "csv": "singer_arrow.formats.csv.csv_format.Csv",
    **_WRITABLE,
    "orc": "singer_arrow.formats.orc.Orc",
    "arrow": "singer_arrow.formats.arrow.arrow_format.Arrow",
    "lines": "singer_arrow.formats.text.lines_format.Lines",
    "fixed_width": "singer_arrow.formats.text.fixed_width.FixedWidth",
    "excel": "singer_arrow.formats.excel.excel_format.Excel",
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

FORMATS: Formats[Format] = Formats(_ALL, zipped)
WRITABLE: Formats[WritableFormat] = Formats(_WRITABLE)


def detect_format(name: str) -> str | None:
    """The format of a file, by its suffix below that of its compression: `a.csv.gz` is csv."""
    base = strip_suffix(name).lower()
    return next((kind for kind, suffixes in _SUFFIXES.items() if base.endswith(suffixes)), None)
