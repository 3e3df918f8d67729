"""File formats by name; a format is imported when it is first used.

base            Protocols: Format, JoiningFormat, DivisibleFormat, WritableFormat; ranges of a file; errors that name it
zip_archive     Any format inside zip archives
tar_archive     Any format inside tar archives
small_files     Parse many small files at once
blocks          The blocks of text and JSON files as batches; columnar files part by part
arrow           Arrow IPC files and streams: schema, record batches, size checks before decompression, writing
avro            Avro files: read and written
avro_container  Avro: header and blocks of a container file; Arrow schema <-> Avro schema
csv_read        CSV: header, blocks, parsed blocks, batches, rows that cannot be read; types; small files joined
csv_dialect     CSV: delimiter, quotes, header, and where the rows of a range begin
excel           Read a sheet of a workbook, and infer the types of its columns
excel_sheet     Program that writes the cells of one sheet to an Arrow file, in a process with limited memory
json_read       JSON Lines and lists: source, parsed blocks, batches; types; small files joined
json_array      Convert a document that is a list to JSON Lines
json_checks     What Arrow's JSON reader accepts although it must not, and keys that are unknown
json_fast       Whole lines by Arrow's reader; records within messages
json_exact      Read lines of which some are bad, and find the error of each
json_write      Write JSON Lines
orc             ORC: footers, columns and batches of rows
parquet_read    Parquet: footer, column ranges, row groups
parquet_write   Arrow batches -> a Parquet file; the encoding is chosen from its first rows
parquet_concat  Concatenate Parquet files by copying row groups
text            Columns of text -> batches of a schema; types; the formats `lines` and `fixed_width`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

from singer_arrow.compression import strip_suffix
from singer_arrow.formats.base import DivisibleFormat, Format, WritableFormat

__all__ = ["DIVISIBLE", "FORMATS", "WRITABLE", "Format", "Formats", "WritableFormat", "detect_format", "with_archives"]

_WRITABLE = {
    "jsonl": "singer_arrow.formats.json_read.JsonLinesFormat",
    "parquet": "singer_arrow.formats.parquet_read.ParquetFormat",
    "avro": "singer_arrow.formats.avro.AvroFormat",
    "arrow": "singer_arrow.formats.arrow.ArrowFormat",
}
_ALL = {
    "csv": "singer_arrow.formats.csv_read.CsvFormat",
    **_WRITABLE,
    "orc": "singer_arrow.formats.orc.OrcFormat",
    "lines": "singer_arrow.formats.text.LinesFormat",
    "fixed_width": "singer_arrow.formats.text.FixedWidthFormat",
    "excel": "singer_arrow.formats.excel.ExcelFormat",
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
