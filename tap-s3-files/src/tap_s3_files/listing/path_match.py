"""Which objects belong to a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from singer_arrow.errors import NotFoundError
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url, glob_match, glob_prefix, has_glob
from tap_s3_files.paths.date_paths import Window, has_date, matches_key

_CHOICE = re.compile(r"\{([^{}\[\]*?]*,[^{}\[\]*?]*)\}")
_OWN_NAME = re.compile(r"--[0-9a-f]{32}-\d+-\d+\.(parquet|jsonl)(\.gz)?$")


@dataclass(frozen=True, slots=True)
class ListedPrefix:
    """Where some of a stream's objects are listed: those whose keys begin with `prefix`, and of them what `path` names.

    `object` is the object itself where the path is no pattern and no folder; nothing is listed then.
    """

    path: Url
    prefix: Url
    object: ObjectInfo | None = None

    def matches(self, url: Url) -> bool:
        """Whether an object is one of the path's."""
        if self.object is not None:
            return url == self.object.url
        place = self.prefix
        if (url.scheme, url.bucket) != (place.scheme, place.bucket) or not url.key.startswith(place.key):
            return False
        return not has_glob(self.path.key) or glob_match(self.path.key, url.key)

    def overlaps(self, other: ListedPrefix) -> bool:
        """Whether an object might be of both."""
        mine, theirs = self.prefix.key, other.prefix.key
        return mine.startswith(theirs) or theirs.startswith(mine)


def listed_prefixes(storage: Storage, paths: Iterable[Url]) -> list[ListedPrefix]:
    """Where the objects of paths are listed. Alternatives before the first other wildcard are places of their own.

    A path with wildcards is a pattern; one that ends with a slash, or that is no object but a folder, means all objects
    below it.
    """
    return [_listed_prefix(storage, path) for path in dict.fromkeys(p for path in paths for p in _alternatives(path))]


def find(storage: Storage, paths: Iterable[Url], *, own: Iterable[Url] = ()) -> Iterator[ObjectInfo]:
    """The objects that any of the paths names, each once, in no promised order.

    Args:
        storage: Where they are.
        paths: Of one stream.
        own: Roots below which this tap writes: its plans and batch files there are no source.

    Raises:
        NotFoundError: A bucket does not exist.
    """
    earlier: list[ListedPrefix] = []
    roots = list(own)
    for part in listed_prefixes(storage, paths):
        listed = [part.object] if part.object else storage.list(part.prefix)
        yield from (info for info in listed if is_found_first(info.url, part, earlier, roots))
        earlier.append(part)


def is_found_first(url: Url, part: ListedPrefix, earlier: Iterable[ListedPrefix], own: Iterable[Url]) -> bool:
    """Whether an object that was listed for a part is the stream's, and was not found by an earlier part."""
    return (
        part.matches(url) and not any(p.matches(url) for p in earlier) and not any(_is_own(url, root) for root in own)
    )


def _listed_prefix(storage: Storage, path: Url) -> ListedPrefix:
    if has_glob(path.key):
        return ListedPrefix(path, Url(path.scheme, path.bucket, glob_prefix(path.key)))
    if path.key and not path.key.endswith("/"):
        with suppress(NotFoundError):  # it may be a folder; a missing bucket is met again when that is listed
            return ListedPrefix(path, path, storage.head(path))
    folder = path.key.rstrip("/") + "/" if path.key else ""
    return ListedPrefix(path, Url(path.scheme, path.bucket, folder))


def _alternatives(path: Url) -> list[Url]:
    """A path for each choice of its alternatives `{a,b}`, as long as these come before any other wildcard."""
    found = _CHOICE.search(path.key)
    if found is None or has_glob(path.key[: found.start()]):
        return [path]
    keys = [path.key[: found.start()] + choice + path.key[found.end() :] for choice in found[1].split(",")]
    return [p for key in keys for p in _alternatives(Url(path.scheme, path.bucket, key))]


@dataclass(frozen=True, slots=True)
class ObjectFilter:
    """Filter of the objects of a stream that an inventory or a queue names.

    Args:
        stream: Its name.
        paths: Where they are; their dates are those of `dates`.
        own: Roots below which this tap writes.
        dates: From when on, and before when.
        window: When an object must have been changed.
    """

    stream: str
    paths: tuple[Url, ...]
    own: tuple[Url, ...] = ()
    dates: Window = (None, None)
    window: Window = (None, None)

    def matches(self, url: Url) -> bool:
        """Whether `find` would give an object of this URL, or a folder marker at its place, if it exists."""
        return any(self._names(path, url) for path in self.paths) and not any(_is_own(url, root) for root in self.own)

    def _names(self, path: Url, url: Url) -> bool:
        if (path.scheme, path.bucket) != (url.scheme, url.bucket):
            return False
        if has_date(path):
            return matches_key(path, url.key, *self.dates)
        if has_glob(path.key):
            return url.key.startswith(glob_prefix(path.key)) and glob_match(path.key, url.key)
        folder = path.key.rstrip("/") + "/" if path.key else ""
        return url.key.startswith(folder) or (url.key == path.key and not path.key.endswith("/"))


def _is_own(url: Url, root: Url) -> bool:
    if (url.scheme, url.bucket) != (root.scheme, root.bucket):
        return False
    folder = f"{root.key.rstrip('/')}/" if root.key else ""
    below = url.key.removeprefix(folder)
    return url.key.startswith(folder) and (below.startswith("_plans/") or _OWN_NAME.search(below) is not None)
