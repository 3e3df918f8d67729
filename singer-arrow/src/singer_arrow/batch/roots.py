"""Where the files of a BATCH message may be: a manifest names any URL, and whoever writes it need not be trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.urls import CONTROL, Url, shown

_SEPARATOR = re.compile(r"[/\\]")
_MOST_DECODED = 5
"""A key that is still percent-encoded after so many decodings hides something."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Places below which all files of manifests must be; without any, they may be anywhere.

    A root is a bucket or a folder, never a beginning of a name: `s3://bucket/ab` holds `s3://bucket/ab/1.parquet`, and
    not `s3://bucket/abc`. Scheme, bucket and key must be equal letter by letter (`s3a` is `s3`). Of local files the
    place counts to which symbolic links lead. Keys with a `.` or `..` between slashes, also percent-encoded or with
    control characters in between, are in no root, because programs differ in what they make of them.
    """

    roots: tuple[Url, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Roots:
        """Read the setting `manifest_roots`.

        Raises:
            ConfigError: One is no URL, or has a `.` or `..` between slashes.
        """
        roots = []
        for text in texts:
            try:
                url = Url.parse(text)
                roots.append(_real(url) if url.scheme == "file" else url)
            except (ConfigError, OSError, ValueError, RuntimeError):
                url = None
            if url is None or (url.scheme != "file" and _climbs(url.key)):
                msg = f"Setting 'manifest_roots' has {shown(text)!r}; a root reads s3://bucket/folder or /local/folder"
                raise ConfigError(msg)
        return cls(tuple(roots))

    def check(self, stream: str, manifest: Iterable[str]) -> None:
        """Refuse a manifest with a file elsewhere.

        Raises:
            DataError: Names the first such file, without what may be secret in its URL.
        """
        if not self.roots:
            return
        for text in manifest:
            if not self._holds(text):
                places = ", ".join(shown(str(root)) for root in self.roots)
                msg = f"{shown(text)!r} in the manifest of stream {stream!r} is outside of manifest_roots ({places})"
                raise DataError(msg, hint="Add its folder there if the tap may write to it")

    def _holds(self, text: str) -> bool:
        try:
            url = Url.parse(text)
            if url.scheme == "file":
                url = _real(url)
            elif _climbs(url.key):
                return False
        except (ConfigError, OSError, ValueError, RuntimeError):  # no URL; a NUL in it; links in a circle
            return False
        return any(_is_below(url, root) for root in self.roots)


def _is_below(url: Url, root: Url) -> bool:
    if (url.scheme, url.bucket) != (root.scheme, root.bucket):
        return False
    folder = root.key.rstrip("/")
    return not folder or url.key == folder or url.key.startswith(f"{folder}/")


def _real(url: Url) -> Url:
    """Where a local file is, with its links followed and its `..` taken out."""
    return Url("file", "", Path("/" + url.key).resolve().as_posix().lstrip("/"))


def _climbs(key: str) -> bool:
    """Whether any reading of a key has a part that is no name."""
    for _ in range(_MOST_DECODED):
        key = CONTROL.sub("", key)
        if _has_dots(key):
            return True
        if (decoded := unquote(key)) == key:
            return False
        key = decoded
    return True


def _has_dots(key: str) -> bool:
    return any(part in (".", "..") for part in _SEPARATOR.split(key))
