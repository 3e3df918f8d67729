"""File formats by name, from the entry points of this and other packages; one is imported when it is first used.

base            Protocols: Format, JoiningFormat, DivisibleFormat, WritableFormat; ranges of a file; errors that name it
zip_archive     Any format inside zip archives
tar_archive     Any format inside tar archives
blocks          The blocks of text and JSON files as batches; columnar files part by part
arrow           Arrow IPC files and streams: schema, record batches, size checks before decompression, writing
avro            Avro files: read and written
avro_container  Avro: header and blocks of a container file; Arrow schema <-> Avro schema
csv_read        CSV: header, blocks, parsed blocks, batches, rows that cannot be read; types; small files joined
csv_dialect     CSV: delimiter, quotes, header, and where the rows of a range begin
excel           Read a sheet of a workbook, and infer the types of its columns
excel_repair    Change a workbook where the library would read other cells than Excel shows
excel_sheet     Program that writes the cells of one sheet to an Arrow file, in a process with limited memory
json_read       JSON Lines and lists: source, parsed blocks, batches; types; small files joined
json_array      Convert a document that is a list to JSON Lines
json_keys       Keys of JSON records that are unknown, and their values
json_blocks     Blocks of lines -> columns, by pyarrow.json
json_lines      Whole lines by `json_blocks` or the native parser, and one by one what these do not read
json_write      Write JSON Lines
openpgp         An encrypted object, decrypted and checked
orc             ORC: footers, columns and batches of rows
parquet_read    Parquet: footer, column ranges, row groups
parquet_write   Arrow batches -> a Parquet file; the encoding is chosen from its first rows
parquet_concat  Concatenate Parquet files by copying row groups
text            Columns of text -> batches of a schema; types; the formats `lines` and `fixed_width`
xml             XML: elements as rows, types of elements, rows in the shape of a schema
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, distributions
from typing import Any, Generic, TypeVar

from singer_arrow.compression import strip_suffix
from singer_arrow.errors import ConfigError
from singer_arrow.formats.base import DivisibleFormat, Format, JoiningFormat, WritableFormat, WriteOptions

__all__ = [
    "DIVISIBLE",
    "FORMATS",
    "WRITABLE",
    "Format",
    "WritableFormat",
    "WriteOptions",
    "detect_format",
    "with_archives",
]

_FIRST = ("csv", "jsonl", "parquet", "avro", "arrow", "orc", "lines", "fixed_width", "excel", "xml")
"""Formats that settings and messages list first, in this order; others follow by name."""

F = TypeVar("F", bound=Format)


@cache
def _registered() -> tuple[Mapping[str, EntryPoint], Mapping[str, str]]:
    """Return the classes of formats by name, and names of formats by suffix, of all packages; ours take precedence."""
    formats, suffixes = dict[str, EntryPoint](), dict[str, str]()
    for package in distributions():  # the function `entry_points` parses those of every package, in twice the time
        if "[singer_arrow." in (package.read_text("entry_points.txt") or ""):
            ours = package.name == "singer-arrow"
            for entry in package.entry_points:
                if entry.group == "singer_arrow.formats" and (ours or entry.name not in formats):
                    formats[entry.name] = entry
                elif entry.group == "singer_arrow.suffixes" and (ours or entry.name not in suffixes):
                    suffixes[entry.name] = entry.value
    if not formats:
        raise ConfigError("singer-arrow is not installed with its entry points; in a checkout, run make setup")
    order = {name: number for number, name in enumerate(_FIRST)}
    return {name: formats[name] for name in sorted(formats, key=lambda n: (order.get(n, len(order)), n))}, suffixes


@cache
def _load(name: str) -> Any:  # two threads may both create one: formats are stateless
    return _registered()[0][name].load()()


@cache
def with_archives(kind: Format) -> JoiningFormat:
    """Return a format that also reads zip and tar archives; its `join` is None where the format has none."""
    from singer_arrow.formats.zip_archive import ArchiveFormat

    return ArchiveFormat(kind)


class Formats(Mapping[str, F], Generic[F]):
    """Formats by name; if only those that have a method, each is imported when it is looked for."""

    def __init__(self, method: str = "") -> None:
        self._method = method

    def __getitem__(self, name: str) -> F:
        kind = _load(name)
        if not self._method:
            kind = with_archives(kind)
        elif not hasattr(kind, self._method):
            raise KeyError(name)
        found: F = kind
        return found

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) if self._method else name in _registered()[0]

    def __iter__(self) -> Iterator[str]:
        return (name for name in _registered()[0] if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


FORMATS: Formats[JoiningFormat] = Formats()
WRITABLE: Formats[WritableFormat] = Formats("write")
DIVISIBLE: Formats[DivisibleFormat] = Formats("scan")


def detect_format(name: str) -> str | None:
    """Return the format of a file name, ignoring the suffix of its compression: `a.csv.gz` is csv."""
    _, dot, suffix = strip_suffix(name).lower().rpartition(".")
    return _registered()[1].get(dot + suffix)
