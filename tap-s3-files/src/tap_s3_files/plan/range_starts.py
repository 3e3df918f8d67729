"""Where the ranges of a divided object begin: a part of the plan log, written before the first of its rows is sent.

<plan_root>/_plans/<stream>.cuts/<object>-<number of ranges>-ranges.json

A later run, and each of several runs, reads the ranges from the same rows on. Settings that decide where rows begin
must not change in between: a row would be lost, or read twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple

from singer_arrow.errors import DataError, NotFoundError
from singer_arrow.read_progress import ResumePoint
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url

Syntax = Mapping[str, str]
"""The settings that decide where the rows of an object begin."""


class RangeStarts:
    """A record, in the file `url`, of where the ranges of one object begin, which may not be written yet."""

    def __init__(self, storage: Storage, url: Url) -> None:
        self._storage, self.url = storage, url
        self._lock = threading.Lock()
        self._known: tuple[Syntax, Sequence[ResumePoint]] | None = None

    def known(self, syntax: Syntax) -> Sequence[ResumePoint] | None:
        """Return where the ranges begin; None if no run has found it yet, an error if it did with other settings."""
        if self._known is None:
            try:
                found = json.loads(bytes(self._storage.get(self.url).data))
                self._known = dict(found["syntax"]), [ResumePoint(*point) for point in found["starts"]]
            except NotFoundError:
                return None
            except (KeyError, TypeError, ValueError):
                msg = "it does not describe where the ranges of an object begin"
                raise DataError(msg, url=self.url, hint="Restore it, or remove it if no row was sent yet") from None
        old = self._known[0]
        if name := next((name for name in (*syntax, *old) if old.get(name) != syntax.get(name)), None):
            then, now = old.get(name), syntax.get(name)
            msg = f"the object was divided with {name} {then!r}, which is {now!r} now"
            hint = "Read it as the earlier run did, or remove this file if no row of the object was sent yet"
            raise DataError(msg, url=self.url, hint=hint)
        return self._known[1]

    def get(self, syntax: Syntax, find: Callable[[], Sequence[ResumePoint]]) -> Sequence[ResumePoint]:
        """Return where the ranges begin; `find` is called, by one thread at a time, if no run has found it yet."""
        with self._lock:
            return self.known(syntax) or self.save(syntax, find())

    def save(self, syntax: Syntax, starts: Sequence[ResumePoint]) -> Sequence[ResumePoint]:
        """Make durable where the ranges begin; return it, as another run may have saved it before."""
        data = json.dumps({"syntax": syntax, "starts": [astuple(point) for point in starts]}).encode()
        if self._storage.put(self.url, data, if_absent=True):
            self._known = syntax, starts
        found = self.known(syntax)
        assert found is not None
        return found
