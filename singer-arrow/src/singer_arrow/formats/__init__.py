"""File formats: one file each, behind one Protocol, in one dict."""

from __future__ import annotations

from singer_arrow.compression import strip_suffix
from singer_arrow.formats.arrow import Arrow
from singer_arrow.formats.avro import Avro
from singer_arrow.formats.csv import Csv
from singer_arrow.formats.excel import Excel
from singer_arrow.formats.fixed_width import FixedWidth
from singer_arrow.formats.jsonl import JsonLines
from singer_arrow.formats.lines import Lines
from singer_arrow.formats.orc import Orc
from singer_arrow.formats.parquet import Parquet
from singer_arrow.formats.protocol import RESCUED, Course, FixedColumn, Format, Place, ReadOptions, WritableFormat
from singer_arrow.formats.zipped import Zipped

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

_WRITABLE: tuple[WritableFormat, ...] = (JsonLines(), Parquet(), Avro())
_ALL: tuple[Format, ...] = (
    Csv(),
    *_WRITABLE,
    Orc(),
    Arrow(),
    Lines(),
    FixedWidth(),
    Excel(),
)

FORMATS: dict[str, Format] = {f.name: Zipped(f) for f in _ALL}
WRITABLE: dict[str, WritableFormat] = {f.name: f for f in _WRITABLE}


def detect_format(name: str) -> str | None:
    """The format of a file, by its suffix below that of its compression: `a.csv.gz` is csv."""
    base = strip_suffix(name).lower()
    return next((f.name for f in FORMATS.values() if base.endswith(f.suffixes)), None)
