"""Which objects are divided into ranges, and into how many. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from singer_arrow.compression.codecs import detect
from singer_arrow.formats import DIVISIBLE, detect_format
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import SCHEMES

_LEAST_RANGES = 1.5
"""How many times as large as a range an object must be to be divided."""


@dataclass(frozen=True, slots=True)
class Division:
    """Division of the objects of a stream.

    Attributes:
        range_bytes: Approximate size of a range.
        format: The stream's setting `format`.
        compression: The stream's setting `compression`.
    """

    range_bytes: int
    format: str = "auto"
    compression: str = "auto"

    def ranges_of(self, info: ObjectInfo) -> int:
        """Return into how many ranges an object is divided; 1 if it is too small, or cannot be read from its middle."""
        name = info.url.name
        kind = detect_format(name) if self.format == "auto" else self.format
        is_plain = self.compression == "none" or (self.compression == "auto" and detect(name) == "none")
        if info.size < _LEAST_RANGES * self.range_bytes or not is_plain or kind not in DIVISIBLE:
            return 1
        return max(2, round(info.size / self.range_bytes)) if info.url.scheme in SCHEMES else 1
