"""What a stream has done so far, and a line about it every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from singer_arrow.storage import Fetched, Storage
from singer_arrow.urls import Url

SECONDS_BETWEEN_LINES = 5.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a stream: `bytes` were asked of the storage, `skipped` objects were empty or replaced."""

    objects: int = 0
    skipped: int = 0
    rows: int = 0
    bytes: int = 0
    batch_files: int = 0


class Progress:
    """Counts that several threads add to."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._counts = Counts()
        self._lock = threading.Lock()
        self._started = time.monotonic()

    @property
    def counts(self) -> Counts:
        """The counts now."""
        return self._counts

    @property
    def seconds(self) -> float:
        """Seconds since the stream began."""
        return time.monotonic() - self._started

    def add(self, **more: int) -> None:
        """Add to some counts."""
        with self._lock:
            known = asdict(self._counts)
            self._counts = Counts(**{**known, **{name: known[name] + n for name, n in more.items()}})

    def line(self) -> str:
        """The counts in words."""
        c = self._counts
        skipped = f" ({c.skipped} skipped)" if c.skipped else ""
        files = f", {c.batch_files:,} batch files" if c.batch_files else ""
        read = f"{c.objects:,} objects{skipped}, {c.rows:,} rows, {c.bytes / 1e6:,.1f} MB read"
        return f"{self.stream}: {read}{files}, {self.seconds:.1f} s"

    @contextmanager
    def told(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Tell a line every few seconds while the block runs, if something has changed."""
        ended = threading.Event()

        def watch() -> None:
            last = self._counts
            while not ended.wait(SECONDS_BETWEEN_LINES):
                if self._counts != last:
                    last = self._counts
                    tell(self.line())

        self._started = time.monotonic()
        watcher = threading.Thread(target=watch, name="progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


class CountedStorage(Storage):
    """A storage for reading, which counts the bytes that it gives."""

    def __init__(self, storage: Storage, progress: Progress) -> None:
        super().__init__()
        self._storage, self._progress = storage, progress

    def get(self, url: Url, **options: Any) -> Fetched:
        """See Storage."""
        fetched = self._storage.get(url, **options)
        self._progress.add(bytes=len(fetched.data))
        return fetched

    def open(self, url: Url) -> BinaryIO:
        """See Storage; these bytes are not counted."""
        return self._storage.open(url)
