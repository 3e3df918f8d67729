"""Files that a target puts into a bucket for its loads: where they are, and who removes them when.

Each run has a folder of its own, with a unique name, so a file there is of this run alone, and a later run
never takes one for its own. What is staged is removed once the STATE behind it is out (`removable_files`, `Remover`); a
run that fails leaves it for analysis. What is left has a lifetime, which rules of the bucket
understand, and later runs remove it too, once it is older than any load may be.
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

from singer_arrow.errors import CredentialsError, NotFoundError, ServiceError, SingerArrowError, one_line
from singer_arrow.load.backoff import Waiting, pauses
from singer_arrow.storage.object_info import Lifetime
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url

FOLDER = "_sdc_loads"
"""Folder in the stage that has a folder for each run, named by its time."""
LEFTOVER = timedelta(days=2)
"""Files of other runs that are older are removed: no load lasts so long. A service whose clock differs from ours by
more than some minutes refuses our credentials, so their age is right."""
LIFETIME = Lifetime(3)
DEADLINE_SECONDS = 300.0
"""How long a file is put again and again, on top of the tries of the storage itself."""
PARTS = 3
"""How many parts of a file are sent at once; as many files as there are workers are put beside each other."""
_TIME = "%Y%m%dT%H%M%SZ"
_OTHER = re.compile(r"[^A-Za-z0-9_.-]+")


class StagingFolder:
    """This run's folder in a bucket; safe to use from any thread."""

    def __init__(self, storage: Storage, root: Url, logger: logging.Logger) -> None:
        self._storage, self._logger = storage, logger
        self._runs = root.join(FOLDER)
        self._folder = self._runs.join(f"{datetime.now(UTC).strftime(_TIME)}_{uuid.uuid4().hex[:12]}")
        self._numbers = itertools.count()
        self._lifetime: Lifetime | None = LIFETIME
        self._lock = threading.Lock()

    def name(self, *parts: str, suffix: str = "") -> Url:
        """Return a URL that this run has not used; its name has the purpose."""
        readable = [_OTHER.sub("_", part)[:80] for part in parts]
        return self._folder.join("-".join([*readable, f"{next(self._numbers):05d}{suffix}"]))

    def put(self, url: Url, data: bytes | Path) -> int:
        """Write an object, whole or not at all, of bytes or of a local file, which stays; its size in bytes."""
        size = data.stat().st_size if isinstance(data, Path) else len(data)
        waiting = Waiting(self._logger)
        for pause in pauses(DEADLINE_SECONDS):
            try:
                self._put(url, data)
                break
            except NotFoundError:
                if not self._is_there(url, size):
                    raise
                break  # only the answer to the end of an upload in parts was lost, and it cannot be ended twice
            except ServiceError as error:
                if pause is None:
                    raise
                waiting.before_again(pause, error)
        return size

    def remove(self, urls: Iterable[Url]) -> None:
        """Remove objects of this run at once, which nothing needs any more; where that fails they stay."""
        remove(self._storage, list(urls), self._logger)

    def remove_leftovers(self) -> None:
        """Remove what other runs left behind, but nothing that may still be in use."""
        before = datetime.now(UTC) - LEFTOVER
        runs = Url(self._runs.scheme, self._runs.bucket, f"{self._runs.key}/")
        try:
            old = [o.url for o in self._storage.list(runs) if o.modified < before]
        except SingerArrowError as error:
            self._logger.debug("Leftovers could not be listed: %s", error)
            return
        if old:
            self._logger.info("Removing %d files that earlier runs left in %s", len(old), self._runs)
            self.remove(old)

    def _is_there(self, url: Url, size: int) -> bool:
        """Return whether the whole object exists; no other run writes this name."""
        try:
            return self._storage.head(url).size == size
        except NotFoundError:
            return False

    def _put(self, url: Url, data: bytes | Path) -> None:
        lifetime = self._lifetime
        try:
            self._storage.put(url, data, lifetime=lifetime, parts=PARTS)
        except CredentialsError as error:
            if lifetime is None or url.scheme != "s3":
                raise
            self._storage.put(url, data, parts=PARTS)  # which raises itself if it was not the tag that is not allowed
            with self._lock:
                is_first, self._lifetime = self._lifetime is not None, None
            if is_first:
                why = "staged files get no tag, which needs s3:PutObjectTagging; leftovers are for a rule by prefix"
                self._logger.warning("%s: %s", error, why)


class Remover:
    """Removes objects beside everything else, many at once; what cannot be removed stays, and is logged.

    `storage` is called with the first of them.
    """

    def __init__(self, storage: Callable[[], Storage], logger: logging.Logger) -> None:
        self._storage, self._logger = storage, logger
        self._changed = threading.Condition()
        self._waiting: list[Url] = []
        self._is_busy = False

    def remove(self, urls: Iterable[Url]) -> None:
        """Have objects removed; returns at once."""
        with self._changed:
            self._waiting += urls
            if self._waiting and not self._is_busy:
                self._is_busy = True
                threading.Thread(target=self._work, name="remover", daemon=True).start()

    def close(self, seconds: float) -> None:
        """Wait until everything is removed, but not longer than that."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_busy, timeout=seconds):
                self._logger.warning("Files that are not needed any more are still being removed; some may stay")

    def _work(self) -> None:
        while True:
            with self._changed:
                urls, self._waiting = self._waiting, []
                if not urls:
                    self._is_busy = False
                    self._changed.notify_all()
                    return
            remove(self._storage(), urls, self._logger)


def remove(storage: Storage, urls: list[Url], logger: logging.Logger) -> None:
    """Remove objects; those that cannot be removed are logged, and the others are still removed."""
    for _, group in groupby(sorted(urls), key=lambda url: (url.scheme, url.bucket)):
        some = list(group)
        try:
            storage.delete(some)
        except Exception as error:  # noqa: BLE001 - what they held is loaded, or will be loaded anew: nothing to end for
            logger.warning("Of %d files some could not be removed, and stay: %s", len(some), one_line(str(error)))
