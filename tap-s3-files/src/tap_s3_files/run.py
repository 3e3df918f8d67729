"""What the streams of one run share: settings, storage, memory, threads, and the objects that were listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from singer_arrow.reading.memory_budget import Budget
from singer_arrow.runtime.threads import ThreadPool
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.bookmark import Bookmark
from tap_s3_files.listing.inventory import read_inventory
from tap_s3_files.listing.listing import Listing
from tap_s3_files.listing.parallel import list_objects
from tap_s3_files.listing.path_match import ObjectFilter
from tap_s3_files.settings import Settings, StreamSettings


class TapRun:
    """The shared parts of one run of the tap. Each is made when it is first used.

    Attributes:
        settings: The settings of the tap.
    """

    def __init__(self, settings: Settings, given_state: Callable[[str], Mapping[str, Any]]) -> None:
        """Share these settings.

        Args:
            settings: The settings of the tap.
            given_state: Returns the STATE that the stream of a name was started with.
        """
        self.settings = settings
        self._given_state = given_state
        self._listings: dict[str, Listing] = {}

    @cached_property
    def storage(self) -> Storage:
        """Where objects are read and batch files are written."""
        return Storage(self.settings.aws)

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """The threads that run tasks."""
        return ThreadPool(self.settings.max_workers, "task")

    @cached_property
    def budget(self) -> Budget:
        """The memory for objects that are read: half of the limit; rows that are written need the rest."""
        return Budget(fetched=self.settings.memory_bytes // 4, decoded=self.settings.memory_bytes // 4)

    @cached_property
    def own_roots(self) -> list[Url]:
        """The folders that this tap writes to."""
        root, batch = self.settings.plan_root, self.settings.batch
        return [*([root] if root else []), *([batch.root] if batch and batch.root != root else [])]

    def bookmark(self, stream: str) -> Bookmark | None:
        """Return the bookmark that a stream was started with."""
        return Bookmark.from_state(self._given_state(stream), stream)

    def object_filter(self, stream: StreamSettings) -> ObjectFilter:
        """Return which objects belong to a stream, without listing them."""
        settings = self.settings
        dates = (settings.start, settings.end)
        return ObjectFilter(stream.name, stream.paths, tuple(self.own_roots), dates, settings.window(stream))

    def list_for_discovery(self, stream: StreamSettings) -> Listing:
        """List all objects of a stream, and keep the listing for the run that follows."""
        self._listings[stream.name] = self.listing(stream)
        return self._listings[stream.name]

    def listing(self, stream: StreamSettings, *, begin: Url | None = None) -> Listing:
        """Return all objects of a stream; a listing kept by discovery is returned once.

        Args:
            stream: The stream.
            begin: Where the listing may begin, see `list_objects`.

        Raises:
            NotFoundError: The bucket does not exist.
        """
        kept = self._listings.pop(stream.name, None)
        if kept is not None:
            return kept
        if self.settings.manifest:
            claim = self.object_filter(stream)
            return Listing(o for o in self._inventory if claim.matches(o.url))
        return list_objects(self.storage, self.settings.paths(stream, begin=begin), own=self.own_roots, begin=begin)

    @cached_property
    def _inventory(self) -> Listing:
        """The objects of the inventory that belong to any stream; it is read once for all of them."""
        assert self.settings.manifest is not None
        claims = [self.object_filter(s) for s in self.settings.streams]
        objects = read_inventory(self.storage, self.settings.manifest, self.budget)
        return Listing(o for o in objects if any(claim.matches(o.url) for claim in claims))
