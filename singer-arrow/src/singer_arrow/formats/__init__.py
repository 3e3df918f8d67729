"""File formats: one file each, behind one Protocol, in one dict that imports a format when it is asked for."""

from __future__ import annotations

from singer_arrow.compression import strip_suffix
from singer_arrow.formats.protocol import RESCUED, Course, FixedColumn, Format, Place, ReadOptions, WritableFormat
from singer_arrow.formats.registry import Formats, zipped

__all__ = [
    "FORMATS",
    "RESCUED",
    "WRITABLE",
    "Course",
    "FixedColumn",
    "Format",
    "Place",
    "ReadOptions",
    "WritableFormat",
    "detect_format",
]

_WRITABLE = {
    "jsonl": "singer_arrow.formats.jsonl.JsonLines",
    "parquet": "singer_arrow.formats.parquet.Parquet",
    "avro": "singer_arrow.formats.avro.Avro",
}
_ALL = {
    "csv": "singer_arrow.formats.csv.Csv",
    **_WRITABLE,
    "orc": "singer_arrow.formats.orc.Orc",
    "arrow": "singer_arrow.formats.arrow.Arrow",
    "lines": "singer_arrow.formats.lines.Lines",
    "fixed_width": "singer_arrow.formats.fixed_width.FixedWidth",
    "excel": "singer_arrow.formats.excel.Excel",
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
