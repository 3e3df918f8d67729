"""The setting `batch_config` of taps: declared here once, as JSON Schema, and read here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from singer_arrow.errors import ConfigError
from singer_arrow.storage.urls import Url

COMPRESSIONS = {
    "parquet": ("zstd", "snappy", "gzip", "none"),
    "jsonl": ("gzip", "none"),
    "arrow": ("zstd", "lz4", "none"),
}
"""Compressions of batch files by format; the first is the default, except for Arrow files on local disk."""


def _text(description: str, *kinds: str, **more: Any) -> dict[str, Any]:
    return {"type": ["string", *kinds], "description": description, **more}


BATCH_CONFIG: dict[str, Any] = {
    "type": ["object", "null"],
    "description": "Send BATCH messages: format and place of the batch files. Without it, RECORD messages are sent.",
    "properties": {
        "encoding": {
            "type": "object",
            "description": "Format of batch files.",
            "properties": {
                "format": _text(
                    "Format of batch files. `arrow` is Arrow IPC: cheap to write and large, for other targets on the "
                    "same machine.",
                    enum=[*COMPRESSIONS],
                ),
                "compression": _text(
                    "Compression of batch files: `zstd` (default), `snappy`, `gzip` or `none` for parquet, `gzip` "
                    "(default) or `none` for jsonl, `zstd`, `lz4` or `none` for arrow (default: `none` on local disk, "
                    "else `zstd`).",
                    "null",
                    enum=["zstd", "snappy", "gzip", "lz4", "none"],
                ),
            },
            "required": ["format"],
        },
        "storage": {
            "type": "object",
            "description": "Where batch files are written.",
            "properties": {
                "root": _text("URL below which batch files are written: `s3://`, `gs://`, `az://`, `file://`."),
                "prefix": _text("Prefix of the names of batch files.", "null"),
            },
            "required": ["root"],
        },
        "target_file_mb": {
            "type": ["number", "null"],
            "exclusiveMinimum": 0,
            "default": 128,
            "description": (
                "Roughly how many megabytes a batch file holds; see the operations guide for how they are counted."
            ),
        },
    },
    "required": ["encoding", "storage"],
}


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The setting `batch_config`."""

    root: Url
    prefix: str
    format: str
    compression: str
    target_bytes: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> BatchSettings | None:
        """Read a value that `BATCH_CONFIG` allows; None without one.

        Raises ConfigError if batch files of the format have no such compression, or the root is no URL.
        """
        if config is None:
            return None
        encoding, storage = config["encoding"], config["storage"]
        root, allowed = Url.parse(storage["root"]), COMPRESSIONS[encoding["format"]]
        default = "none" if encoding["format"] == "arrow" and root.scheme == "file" else allowed[0]
        compression = encoding.get("compression") or default
        if compression not in allowed:
            msg = (
                f"Setting 'batch_config.encoding.compression' is {compression!r}, "
                f"{encoding['format']} batch files have {' or '.join(allowed)}"
            )
            raise ConfigError(msg)
        return cls(
            root=root,
            prefix=storage.get("prefix") or "",
            format=encoding["format"],
            compression=compression,
            target_bytes=max(1, int((config.get("target_file_mb") or 128) * (1 << 20))),
        )

    @property
    def can_pass(self) -> bool:
        """Whether objects of this format may be batch files as they are: Parquet and compressed JSON Lines."""
        return self.format == "parquet" or (self.format, self.compression) == ("jsonl", "gzip")

    @property
    def suffix(self) -> str:
        """Suffix of the names of batch files, without a dot."""
        return "jsonl.gz" if (self.format, self.compression) == ("jsonl", "gzip") else self.format

    @property
    def message_compression(self) -> str | None:
        """The compression as BATCH messages name it."""
        return None if self.compression == "none" else self.compression
