"""Match objects against the paths of a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from singer_arrow.errors import NotFoundError
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.object_page import ObjectPage
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url, glob_match, glob_prefix, glob_regex, has_glob
from tap_s3_files.paths.date_paths import Window, date_pattern, has_date, matches_key

_CHOICE = re.compile(r"\{([^{}\[\]*?]*,[^{}\[\]*?]*)\}")
_OWN_NAME = r"--[0-9a-f]{32}-[0-9]+-[0-9]+\.(?:parquet|jsonl|arrow)(?:\.gz)?"


@dataclass(frozen=True, slots=True)
class ListedPrefix:
    """A path of a stream with the prefix by which its objects are listed: a bucket and the beginning of keys.

    `object` is set if the path names a single one; nothing is listed then.
    """

    path: Url
    prefix: Url
    object: ObjectInfo | None = None

    def matches(self, url: Url) -> bool:
        """Return whether the path matches an object."""
        if self.object is not None:
            return url == self.object.url
        place = self.prefix
        if (url.scheme, url.bucket) != (place.scheme, place.bucket) or not url.key.startswith(place.key):
            return False
        return not has_glob(self.path.key) or glob_match(self.path.key, url.key)

    def selects(self, keys: Iterable[str]) -> Iterator[bool]:
        """Yield for each key whether the path matches it; the keys must begin with the prefix."""
        if not has_glob(self.path.key):
            return (True for _ in keys)
        match = glob_regex(self.path.key).fullmatch
        return (match(key) is not None for key in keys)


def listed_prefixes(storage: Storage, paths: Iterable[Url]) -> list[ListedPrefix]:
    """Return the prefixes to list for some paths: one for each alternative before the first other wildcard.

    A path with wildcards is a pattern. A path that ends with a slash, or of which no object exists, is a folder, and
    matches all objects below it.
    """
    return [_listed_prefix(storage, path) for path in dict.fromkeys(p for path in paths for p in _alternatives(path))]


def find(storage: Storage, paths: Iterable[Url], *, own: Iterable[Url] = ()) -> Iterator[ObjectInfo]:
    """Yield the objects that match any of the paths, each once, in any order.

    `own` are folders to which this tap writes; its plans and batch files are left out.
    """
    parts, roots = listed_prefixes(storage, paths), list(own)
    for part, earlier in zip(parts, earlier_overlaps(parts), strict=True):
        for page in listed_pages(storage, part):
            yield from page.select(found_first(page.keys, part, earlier, roots)).objects(part.prefix)


def listed_pages(storage: Storage, part: ListedPrefix, *, after: str = "") -> Iterator[ObjectPage]:
    """Yield the objects of a listed prefix whose keys follow `after`, or its single object."""
    return iter([ObjectPage.of([part.object])]) if part.object else storage.list_pages(part.prefix, after=after)


def earlier_overlaps(parts: Sequence[ListedPrefix]) -> list[list[ListedPrefix]]:
    """Return for each prefix the earlier ones that may match the same objects: one begins with the other."""
    found: list[list[int]] = [[] for _ in parts]
    enclosing: list[int] = []
    prefixes = [str(part.prefix) for part in parts]
    for number in sorted(range(len(parts)), key=prefixes.__getitem__):
        while enclosing and not prefixes[number].startswith(prefixes[enclosing[-1]]):
            enclosing.pop()
        for other in enclosing:
            found[max(number, other)].append(min(number, other))
        enclosing.append(number)
    return [[parts[number] for number in sorted(earlier)] for earlier in found]


def found_first(
    keys: Sequence[str], part: ListedPrefix, earlier: Sequence[ListedPrefix], own: Iterable[Url]
) -> list[bool]:
    """Return for each listed key whether the path matches it, and no earlier path and no folder of `own` does."""
    mask = list(part.selects(keys))
    place = part.prefix
    roots = [root for root in own if (root.scheme, root.bucket) == (place.scheme, place.bucket)]
    if not earlier and not roots:
        return mask
    for number, key in enumerate(keys):
        if mask[number]:
            url = Url(place.scheme, place.bucket, key)
            mask[number] = not any(p.matches(url) for p in earlier) and not any(_is_own(url, root) for root in roots)
    return mask


def _listed_prefix(storage: Storage, path: Url) -> ListedPrefix:
    if has_glob(path.key):
        return ListedPrefix(path, Url(path.scheme, path.bucket, glob_prefix(path.key)))
    if path.key and not path.key.endswith("/"):
        with suppress(NotFoundError):  # it may be a folder; a missing bucket is met again when that is listed
            return ListedPrefix(path, path, storage.head(path))
    folder = path.key.rstrip("/") + "/" if path.key else ""
    return ListedPrefix(path, Url(path.scheme, path.bucket, folder))


def _alternatives(path: Url) -> list[Url]:
    """Return a path for each alternative of `{a,b}` that comes before any other wildcard."""
    found = _CHOICE.search(path.key)
    if found is None or has_glob(path.key[: found.start()]):
        return [path]
    keys = [path.key[: found.start()] + choice + path.key[found.end() :] for choice in found[1].split(",")]
    return [p for key in keys for p in _alternatives(Url(path.scheme, path.bucket, key))]


@dataclass(frozen=True, slots=True)
class ObjectFilter:
    """Filter of the objects that an inventory or a queue reports for a stream; in the folders `own` this tap writes.

    `dates` bound dates in paths, `window` the time of last modification: from the first on, before the second.
    """

    stream: str
    paths: tuple[Url, ...]
    own: tuple[Url, ...] = ()
    dates: Window = (None, None)
    window: Window = (None, None)

    def matches(self, url: Url) -> bool:
        """Return whether `find` would yield an object of this URL if it existed."""
        own = any(_is_own(url, root) for root in self.own)
        return not own and any(
            matches_key(path, url.key, *self.dates) if has_date(path) else _path_pattern(path).fullmatch(url.key)
            for path in self.paths
            if _is_same_bucket(path, url)
        )

    def select(self, bucket: Url, keys: pa.Array) -> pa.BooleanArray:
        """Return for each key of a bucket what `matches` returns, many times as fast; keys are without nulls."""
        import pyarrow.compute as pc

        mask = pa.repeat(False, len(keys))
        for path in (path for path in self.paths if _is_same_bucket(path, bucket)):
            named = _full_matches(date_pattern(path) if has_date(path) else _path_pattern(path), keys)
            if has_date(path) and self.dates[0] is not None:
                chosen = zip(named.to_pylist(), keys.to_pylist(), strict=True)
                named = pa.array([may and matches_key(path, key, *self.dates) for may, key in chosen], pa.bool_())
            mask = pc.or_(mask, named)
        for root in self.own:
            if _is_same_bucket(root, bucket):
                mask = pc.and_(mask, pc.invert(_full_matches(_own_pattern(root), keys)))
        return mask


def _full_matches(pattern: re.Pattern[str], keys: pa.Array) -> pa.BooleanArray:
    """Return for each key whether the pattern matches all of it."""
    import pyarrow.compute as pc

    try:
        return pc.match_substring_regex(keys, f"(?s)^(?:{pattern.pattern})$")
    except pa.ArrowInvalid:  # RE2, which Arrow uses, has no lookahead
        return pa.array([pattern.fullmatch(key) is not None for key in keys.to_pylist()], pa.bool_())


@lru_cache(maxsize=1024)
def _path_pattern(path: Url) -> re.Pattern[str]:
    """Return the pattern of the keys that a path without dates names."""
    if has_glob(path.key):
        return glob_regex(path.key)
    if not path.key or path.key.endswith("/"):
        return re.compile(re.escape(path.key) + ".*", re.DOTALL)
    return re.compile(re.escape(path.key) + "(?:/.*)?", re.DOTALL)


@lru_cache(maxsize=1024)
def _own_pattern(root: Url) -> re.Pattern[str]:
    """Return the pattern of the keys of plans and batch files below a folder."""
    folder = re.escape(f"{root.key.rstrip('/')}/") if root.key else ""
    return re.compile(f"{folder}(?:_plans/.*|.*{_OWN_NAME})", re.DOTALL)


def _is_own(url: Url, root: Url) -> bool:
    return _is_same_bucket(url, root) and _own_pattern(root).fullmatch(url.key) is not None


def _is_same_bucket(a: Url, b: Url) -> bool:
    return a.scheme == b.scheme and a.bucket == b.bucket
