"""Which objects are divided into ranges, and into how many. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from singer_arrow.compression.codecs import detect
from singer_arrow.formats import DIVISIBLE, detect_format
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.text_blocks import PLAIN_ENCODINGS, codec_name
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import SCHEMES

_LEAST_RANGES = 1.5
"""How many times as large as a range an object must be to be divided."""


@dataclass(frozen=True, slots=True)
class Division:
    """Division of the objects of a stream into ranges of about `range_bytes`.

    Objects of the format `passed` are not read, as they go into manifests as they are.
    """

    range_bytes: int
    format: str = "auto"
    read: ReadOptions = field(default_factory=ReadOptions)
    passed: str = ""

    def ranges_of(self, info: ObjectInfo) -> int:
        """Return into how many ranges an object is divided; 1 if it is too small, or cannot be read from its middle."""
        name, read = info.url.name, self.read
        kind = detect_format(name) if self.format == "auto" else self.format
        is_plain = read.compression == "none" or (read.compression == "auto" and detect(name) == "none")
        is_simple = not (read.escape or read.comment) and codec_name(read.encoding) in PLAIN_ENCODINGS
        is_divisible = is_plain and kind in DIVISIBLE and (kind != "csv" or is_simple)
        if info.size < _LEAST_RANGES * self.range_bytes or not is_divisible or kind == self.passed:
            return 1
        return max(2, round(info.size / self.range_bytes)) if info.url.scheme in SCHEMES else 1
