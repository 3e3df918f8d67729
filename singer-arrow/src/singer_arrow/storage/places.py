"""Whether an address that was found in data is below a root that a setting allows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from singer_arrow.errors import ConfigError
from singer_arrow.storage.urls import CONTROL, Url

OBJECT_STORAGE = ("s3", "gs", "az")
"""Schemes of object stores."""
_SEPARATOR = re.compile(r"[/\\]")
_MOST_DECODED = 5  # a key that is still percent-encoded after so many decodings hides something


def place_of(address: str | Url, *, may_climb: bool = False) -> Url | None:
    """Return the place of an address: of a local file that to which symbolic links lead; None if it names none.

    A key with a `.` or `..` between slashes, also percent-encoded or with control characters in between, names no
    place, because programs differ in what they make of it; unless it `may_climb`, where no root limits it.
    """
    try:
        url = Url.parse(address) if isinstance(address, str) else address
        if url.scheme == "file":
            return Url("file", "", Path("/" + url.key).resolve().as_posix().lstrip("/"))
    except (ConfigError, OSError, ValueError, RuntimeError):  # no URL; a NUL in it; links in a circle
        return None
    return None if not may_climb and _climbs(url.key) else url


def is_within(place: Url | None, roots: Iterable[Url]) -> bool:
    """Return whether a place is one of the roots, or below one.

    A root is a bucket or a folder, never a beginning of a name: `s3://bucket/ab` holds `s3://bucket/ab/1.parquet`, and
    not `s3://bucket/abc`. Scheme, bucket and key must be equal letter by letter (`s3a` is `s3`).
    """
    return place is not None and any(_is_below(place, root) for root in roots)


def _is_below(url: Url, root: Url) -> bool:
    if (url.scheme, url.bucket) != (root.scheme, root.bucket):
        return False
    folder = root.key.rstrip("/")
    return not folder or url.key == folder or url.key.startswith(f"{folder}/")


def _climbs(key: str) -> bool:
    """Return whether any reading of a key has a part that is no name."""
    for _ in range(_MOST_DECODED):
        key = CONTROL.sub("", key)
        if any(part in (".", "..") for part in _SEPARATOR.split(key)):
            return True
        if (decoded := unquote(key)) == key:
            return False
        key = decoded
    return True
