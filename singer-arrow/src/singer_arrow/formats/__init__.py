"""File formats by name; a format is imported when it is first used.

base           Protocols: Format, JoiningFormat, DivisibleFormat, WritableFormat
range_scan     Divide a file into ranges that are read independently
zip_archive    Any format inside zip archives
tar_archive    Any format inside tar archives
small_files    Parse many small files at once
columnar       Read a columnar file part by part; shared by Parquet, ORC, Arrow and Avro
delivery       Yield the blocks of text and JSON files as batches
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

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

from singer_arrow.compression.codecs import strip_suffix
from singer_arrow.formats.base import DivisibleFormat, Format, WritableFormat

__all__ = ["DIVISIBLE", "FORMATS", "WRITABLE", "Format", "Formats", "WritableFormat", "detect_format", "with_archives"]

_WRITABLE = {
    "jsonl": "singer_arrow.formats.json.json_format.JsonLinesFormat",
    "parquet": "singer_arrow.formats.parquet.parquet_format.ParquetFormat",
    "avro": "singer_arrow.formats.avro.avro_format.AvroFormat",
    "arrow": "singer_arrow.formats.arrow.arrow_format.ArrowFormat",
}
_ALL = {
    "csv": "singer_arrow.formats.csv.csv_format.CsvFormat",
    **_WRITABLE,
    "orc": "singer_arrow.formats.orc.orc_format.OrcFormat",
    "lines": "singer_arrow.formats.text.lines_format.LinesFormat",
    "fixed_width": "singer_arrow.formats.text.fixed_width.FixedWidthFormat",
    "excel": "singer_arrow.formats.excel.excel_format.ExcelFormat",
}
_DIVISIBLE = ("csv", "jsonl", "parquet")
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

F = TypeVar("F", bound=Format)


class Formats(Mapping[str, F], Generic[F]):
    """Formats by name, from the import paths of their classes; one is imported, and wrapped, on first access."""

    def __init__(self, paths: Mapping[str, str], wrap: Callable[[F], F] = lambda kind: kind) -> None:
        self._paths, self._wrap = dict(paths), wrap
        self._loaded: dict[str, F] = {}

    def __getitem__(self, name: str) -> F:
        if name not in self._loaded:  # two threads may both create it: formats are stateless
            module, _, kind = self._paths[name].rpartition(".")
            self._loaded[name] = self._wrap(getattr(import_module(module), kind)())
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def with_archives(kind: Format) -> Format:
    """Return a format that also reads zip and tar archives."""
    from singer_arrow.formats.zip_archive import ArchiveFormat

    return ArchiveFormat(kind)


FORMATS: Formats[Format] = Formats(_ALL, with_archives)
WRITABLE: Formats[WritableFormat] = Formats(_WRITABLE)
DIVISIBLE: Formats[DivisibleFormat] = Formats({name: _ALL[name] for name in _DIVISIBLE})


def detect_format(name: str) -> str | None:
    """Return the format of a file name, ignoring the suffix of its compression: `a.csv.gz` is csv."""
    base = strip_suffix(name).lower()
    return next((kind for kind, suffixes in _SUFFIXES.items() if base.endswith(suffixes)), None)
