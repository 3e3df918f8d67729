"""Which objects belong to a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from singer_arrow.errors import NotFoundError
from singer_arrow.storage import ObjectInfo, Storage
from singer_arrow.urls import Url, glob_match, glob_prefix, has_glob

_OWN_NAME = re.compile(r"--[0-9a-f]{32}-\d+-\d+\.(parquet|jsonl)(\.gz)?$")


def find(storage: Storage, paths: Iterable[Url], *, own: Iterable[Url] = ()) -> Iterator[ObjectInfo]:
    """The objects that any of the paths names, each once, in no promised order.

    A path with wildcards is a pattern; one that ends with a slash, or that is no object but a folder, means all objects
    below it.

    Args:
        storage: Where they are.
        paths: Of one stream.
        own: Roots below which this tap writes: its plans and batch files there are no source.

    Raises:
        NotFoundError: A bucket does not exist.
    """
    seen: set[Url] = set()
    roots = list(own)
    for path in dict.fromkeys(paths):
        for info in _find(storage, path):
            if info.url not in seen and not any(_is_own(info.url, root) for root in roots):
                seen.add(info.url)
                yield info


def _find(storage: Storage, path: Url) -> Iterator[ObjectInfo]:
    if has_glob(path.key):
        for info in storage.list(Url(path.scheme, path.bucket, glob_prefix(path.key))):
            if glob_match(path.key, info.url.key):
                yield info
        return
    if path.key and not path.key.endswith("/"):
        with suppress(NotFoundError):  # it may be a folder; a missing bucket is met again below
            yield storage.head(path)
            return
    folder = path.key.rstrip("/") + "/" if path.key else ""
    yield from storage.list(Url(path.scheme, path.bucket, folder))


def belongs(url: Url, paths: Iterable[Url], *, own: Iterable[Url] = ()) -> bool:
    """Whether `find` would give an object of this URL, or a folder marker at its place, if it exists."""
    return any(_names(path, url) for path in paths) and not any(_is_own(url, root) for root in own)


def _names(path: Url, url: Url) -> bool:
    if (path.scheme, path.bucket) != (url.scheme, url.bucket):
        return False
    if has_glob(path.key):
        return glob_match(path.key, url.key)
    folder = path.key.rstrip("/") + "/" if path.key else ""
    return url.key.startswith(folder) or (url.key == path.key and not path.key.endswith("/"))


def _is_own(url: Url, root: Url) -> bool:
    if (url.scheme, url.bucket) != (root.scheme, root.bucket):
        return False
    folder = f"{root.key.rstrip('/')}/" if root.key else ""
    below = url.key.removeprefix(folder)
    return url.key.startswith(folder) and (below.startswith("_plans/") or _OWN_NAME.search(below) is not None)
