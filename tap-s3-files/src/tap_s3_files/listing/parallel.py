"""List the objects of a stream by several requests at a time.

A service returns a thousand keys in an answer, and the next answer can only be requested after that. So each path is
listed separately, and a path with many objects is divided by folders: a bucket of millions is listed in parallel.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace

from singer_arrow.runtime.threads import ThreadPool
from singer_arrow.storage.storage import Storage, lists_in_order
from singer_arrow.storage.urls import Url
from tap_s3_files.listing.listing import Listing
from tap_s3_files.listing.path_match import ListedPrefix, earlier_overlaps, found_first, listed_pages, listed_prefixes

logger = logging.getLogger("tap-s3-files")
PARALLEL = 16
"""Maximum number of concurrent listings."""
MANY = 5_000
"""Number of objects after which a listing is divided by folders."""
FOLDERS = 64
"""Number of folders it is divided into; the rest is listed as one."""
LINE_SECONDS = 30.0
"""Seconds between log lines with the number of listed objects."""
_LAST = "\U0010ffff"
"""Comes after every other character of a key."""


@dataclass(frozen=True, slots=True)
class _Scan:
    part: int
    prefix: Url
    after: str = ""


def list_objects(
    storage: Storage, paths: Iterable[Url], *, own: Iterable[Url] = (), begin: Url | None = None
) -> Listing:
    """Return the objects that match any of the paths, as `find` does.

    Up to `begin` all are known, if keys ascend with time: the path that matches it is listed from there on.
    """
    return _Lister(storage, listed_prefixes(storage, paths), list(own), begin).run()


class _Lister:
    def __init__(
        self, storage: Storage, all_parts: Sequence[ListedPrefix], own: Sequence[Url], begin: Url | None
    ) -> None:
        self._storage, self._parts, self._own, self._begin = storage, all_parts, own, begin
        self._earlier = earlier_overlaps(all_parts)
        self._listing = Listing()
        self._waiting: list[Future[None]] = []
        self._failed = threading.Event()

    def run(self) -> Listing:
        with ThreadPool(PARALLEL, "list") as pool:
            try:
                for number, part in enumerate(self._parts):
                    known = self._begin
                    if part.object:
                        self._list(pool, _Scan(number, part.prefix))
                        continue
                    is_begun = known is not None and part.matches(known) and lists_in_order(known)
                    self._submit(pool, _Scan(number, part.prefix, known.key if known and is_begun else ""))
                self._wait()
            except BaseException:
                self._failed.set()
                raise
        return self._listing

    def _wait(self) -> None:
        """Wait for all scans; log the number of objects from time to time."""
        logged = time.monotonic()
        while self._waiting:  # each adds those that it finds before it ends
            scan = self._waiting.pop()
            while not wait([scan], max(0.0, logged + LINE_SECONDS - time.monotonic())).done:
                logger.info("Listing %s: %s objects so far", self._parts[0].prefix, f"{len(self._listing):,}")
                logged = time.monotonic()
            scan.result()

    def _submit(self, pool: ThreadPool, scan: _Scan) -> None:
        self._waiting.append(pool.submit(self._list, pool, scan))

    def _list(self, pool: ThreadPool, scan: _Scan) -> None:
        part, earlier = self._parts[scan.part], self._earlier[scan.part]
        left = MANY
        for page in listed_pages(self._storage, replace(part, prefix=scan.prefix), after=scan.after):
            if self._failed.is_set():
                return
            if not page.keys:
                continue
            found = page.select(found_first(page.keys, part, earlier, self._own))
            self._listing.add_rows(part.prefix, found.to_arrow())
            left -= len(page.keys)
            if left <= 0 and lists_in_order(scan.prefix):
                if scans := self._folders(scan, page.keys[-1]):
                    for one in scans:
                        self._submit(pool, one)
                    return
                left = MANY

    def _folders(self, scan: _Scan, key: str) -> list[_Scan]:
        """Return listings that together hold the rest after a key, by folder; none if the key is in no folder."""
        top = scan.prefix.key.rpartition("/")[0]
        base = f"{top}/" if top else ""
        found: list[_Scan] = []
        while len(found) < FOLDERS and "/" in key[len(base) :]:
            folder = base + key[len(base) :].partition("/")[0] + "/"
            inner = Url(scan.prefix.scheme, scan.prefix.bucket, folder)
            found.append(_Scan(scan.part, inner, "" if found else key))
            following = next(self._storage.list(scan.prefix, after=folder + _LAST), None)
            if following is None:
                return found
            key = following.url.key
        return [*found, _Scan(scan.part, scan.prefix, found[-1].prefix.key + _LAST)] if found else []
