"""`Url`: parse, join and glob URLs; objects and their versions. Pure."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from singer_arrow.errors import ConfigError

# URLs of objects: parsing, joining and globbing. Pure.

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""Control characters, which some programs drop from URLs."""
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_ONE_SLASH = re.compile(r"(s3[an]?|gc?s|az|abfss?|https?):/(?!/)", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[{]")
_QUERY = re.compile(r"[?#]")
_USER = re.compile(r"[^/]*@|[^/:]*:(?!\d*(?:/|$)).*@", re.DOTALL)
"""User and password, also a password that contains a slash (the text after the colon is not a port)."""
_MOST_SHOWN = 200
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "az", "abfss": "az", "local": "file"}


class Url(NamedTuple):
    """URL of an object, or of a prefix of objects.

    `Url.parse(str(url))` equals the URL. A local file has no bucket, and its key is the absolute path without the
    leading slash: `Url("file", "", "data/a.csv")` is `file:///data/a.csv`. Keys are never
    percent-decoded, except in `file://` URLs: there `str` writes `%25` for `%`.
    """

    scheme: str
    bucket: str
    key: str

    @classmethod
    def parse(cls, text: str) -> Url:
        """Parse `s3://bucket/key`, `gs://`, `az://`, `https://`, `file:///path`, or a local path.

        ConfigError: the text is empty, names no bucket, or has one slash where two are due.
        """
        if not text.strip():
            raise ConfigError("A path or URL is empty; omit the setting, or set a location")
        match = _SCHEME.match(text)
        if match is None and (one := _ONE_SLASH.match(text)):
            raise ConfigError(f"{shown(text)!r} has one slash after {one[1]}:; write it as {one[1]}://bucket/path")
        if match is None:
            return cls("file", "", Path(text.removeprefix("file:")).expanduser().absolute().as_posix().lstrip("/"))
        scheme = _ALIASES.get(match[1].lower(), match[1].lower())
        rest = text[match.end() :]
        if scheme == "file":  # file://relative/path is not standard, but used in Meltano's examples
            path = unquote(rest)
            path = path if path.startswith("/") else Path(path).absolute().as_posix()
            return cls("file", "", path.lstrip("/"))
        bucket, _, key = rest.partition("/")
        if not bucket:
            raise ConfigError(f"{shown(text)!r} names no bucket; write it as {scheme}://bucket/path")
        return cls(scheme, bucket, key)

    def __str__(self) -> str:
        key = self.key.replace("%", "%25") if self.scheme == "file" else self.key
        return f"{self.scheme}://{self.bucket}/{key}"

    @property
    def name(self) -> str:
        """Last part of the key."""
        return self.key.rstrip("/").rpartition("/")[2]

    def join(self, *parts: str) -> Url:
        """Return the URL with parts appended, separated by one slash."""
        pieces = [p.strip("/") for p in (self.key, *parts)]
        return Url(self.scheme, self.bucket, "/".join(p for p in pieces if p))

    def local_path(self) -> Path:
        """Return the path of a local file."""
        if self.scheme != "file":
            raise ValueError(f"{self} is not a local file")
        return Path("/" + self.key)


def shown(text: str) -> str:
    """Return a URL for messages: at most 200 characters, without user, password, query and fragment unless local."""
    scheme, mark, rest = text.partition("://")
    if not mark or scheme.lower() in ("file", "local"):
        return text[:_MOST_SHOWN]
    user = _USER.match(rest)
    rest = _QUERY.split(rest[user.end() if user else 0 :], maxsplit=1)[0]
    return f"{scheme}://{rest}"[:_MOST_SHOWN]


def has_glob(pattern: str) -> bool:
    """Return whether a key contains a wildcard."""
    return _GLOB.search(pattern) is not None


def glob_prefix(pattern: str) -> str:
    """Return the longest prefix that all matching keys share."""
    match = _GLOB.search(pattern)
    return pattern if match is None else pattern[: match.start()]


def glob_match(pattern: str, key: str) -> bool:
    """Return whether the pattern matches the whole key.

    `*` and `?` stay within one folder, `**` crosses folders (`a/**/b` also matches `a/b`), `[abc]` is a set of
    characters (`[!abc]`: all others), none of which is `/`, and `{a,b}` are alternatives. An invalid one is a
    ConfigError.
    """
    return glob_regex(pattern).fullmatch(key) is not None


@lru_cache(maxsize=1024)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a glob pattern (see `glob_match`)."""
    out, i, depth = [], 0, 0
    while i < len(pattern):
        rest = pattern[i:]
        if rest.startswith("**/"):
            out.append("(?:.*/)?")
            i += 3
        elif rest.startswith("**"):
            out.append(".*")
            i += 2
        elif rest[0] in "*?":
            out.append("[^/]*" if rest[0] == "*" else "[^/]")
            i += 1
        elif rest[0] == "[" and (end := rest.find("]", 2)) > 0:
            body = re.sub(r"[\\\[&~|]", r"\\\g<0>", rest[1:end])
            out.append(f"(?!/)[{'^' + body[1:] if body[0] in '!^' else body}]")
            i += end + 1
        elif rest[0] == "{" and "}" in rest:
            out.append("(?:")
            depth += 1
            i += 1
        elif depth and rest[0] in "},":
            out.append("|" if rest[0] == "," else ")")
            depth -= rest[0] == "}"
            i += 1
        else:
            out.append(re.escape(rest[0]))
            i += 1
    try:
        return re.compile("".join(out), re.DOTALL)
    except re.error as error:
        raise ConfigError(f"{pattern!r} is not a valid pattern ({error.msg}); check its brackets and braces") from None


# Metadata and fetched bytes of objects: `ObjectInfo`, `Lifetime`, `Fetched`, `VersionCache`.


IMMUTABLE = ""
"""Used instead of the ETag of an object whose name is written once, as those of tables: its size identifies it."""


class ObjectInfo(NamedTuple):
    """Metadata of an object version: size in bytes, ETag, and time of its last modification in UTC."""

    url: Url
    size: int
    etag: str | None
    modified: datetime

    def same_version(self, other: ObjectInfo) -> bool:
        """Return whether both describe the same version of the object."""
        if self.etag and other.etag:
            return self.etag == other.etag
        if IMMUTABLE in (self.etag, other.etag):
            return self.size == other.size
        return self.size == other.size and self.modified == other.modified


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Days to keep an object, recorded for the lifecycle rules of its bucket, which remove it.

    On S3 the object gets the tag `sdc-expires` with the days (`3d`); on Google Cloud Storage the day of its writing is
    its custom time, from which rules count.
    """

    days: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes `start` to `start + len(data)` of an object. `data` supports the buffer protocol without a copy."""

    data: Any
    start: int
    info: ObjectInfo


LIMIT = 32 << 20
"""Approximate maximum of cached bytes."""


class VersionCache:
    """Cache of values derived from objects; a key identifies the kind of value and the object version. Thread-safe."""

    def __init__(self) -> None:
        self._size = 0
        self._entries: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, ...]) -> Any:
        """Return the cached value, or None."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: tuple[Any, ...], value: Any, size: int) -> None:
        """Add a value of about `size` bytes, evicting the least recently used; values above a quarter are ignored."""
        if size > LIMIT // 4:
            return
        with self._lock:
            self._size += size - self._entries.pop(key, (None, 0))[1]
            self._entries[key] = value, size
            while self._size > LIMIT:
                self._size -= self._entries.popitem(last=False)[1][1]
