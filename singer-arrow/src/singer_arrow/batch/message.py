"""The BATCH message: the SDK's keys, and what ours adds at the top level, where other targets ignore it.

{"type": "BATCH", "stream": "flights", "encoding": {"format": "parquet", "compression": "zstd"},
 "manifest": ["s3://stage/flights/3f9c-0.parquet"],
 "batch_id": "3f9c...", "row_count": 842, "byte_count": 31245, "version": 1763640000}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from singer_arrow.errors import DataError

FORMATS = ("parquet", "jsonl")


@dataclass(frozen=True, slots=True)
class Batch:
    """One BATCH message.

    `batch_id` is the same for the same input on every run; a foreign tap gives none. `row_count` and `byte_count`
    (bytes of the files) are None where the tap does not tell. `version` is that of ACTIVATE_VERSION.
    """

    stream: str
    format: str
    manifest: tuple[str, ...]
    compression: str | None = None
    batch_id: str | None = None
    row_count: int | None = None
    byte_count: int | None = None
    version: int | None = None

    def to_message(self) -> dict[str, Any]:
        """The message, ready for JSON; what is None is left out."""
        encoding = {"format": self.format, **({"compression": self.compression} if self.compression else {})}
        extra = {
            "batch_id": self.batch_id,
            "row_count": self.row_count,
            "byte_count": self.byte_count,
            "version": self.version,
        }
        return {
            "type": "BATCH",
            "stream": self.stream,
            "encoding": encoding,
            "manifest": list(self.manifest),
            **{k: v for k, v in extra.items() if v is not None},
        }

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Batch:
        """Read a message of any tap.

        Raises:
            DataError: It is malformed, or its format is none that a target can read.
        """
        stream, encoding, manifest = message.get("stream"), message.get("encoding"), message.get("manifest")
        if not isinstance(stream, str) or not stream:
            msg = "A BATCH message names no stream; the tap must set 'stream'"
            raise DataError(msg)
        where = f"BATCH message of stream {stream!r}"
        if not isinstance(encoding, Mapping) or not isinstance(encoding.get("format"), str):
            msg = f"{where} has no 'encoding' with a 'format'"
            raise DataError(msg)
        if encoding["format"] not in FORMATS:
            wanted = " or ".join(FORMATS)
            msg = f"{where} is in the format {encoding['format']!r}; set the tap's encoding.format to {wanted}"
            raise DataError(msg)
        if not isinstance(manifest, list | tuple) or not all(isinstance(u, str) and u for u in manifest):
            msg = f"{where}: 'manifest' must be a list of URLs"
            raise DataError(msg)
        return cls(
            stream=stream,
            format=encoding["format"],
            compression=encoding.get("compression"),
            manifest=tuple(manifest),
            batch_id=_optional(message, "batch_id", str, where),
            row_count=_optional(message, "row_count", int, where),
            byte_count=_optional(message, "byte_count", int, where),
            version=_optional(message, "version", int, where),
        )


def _optional(message: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = message.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        msg = f"{where}: {key!r} must be {'text' if kind is str else 'an integer'}, it is {value!r}"
        raise DataError(msg)
    return value
