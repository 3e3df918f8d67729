"""Where a large object was cut into batch files: a part of the plan log, written before a batch file is sent.

<plan_root>/_plans/<stream>.cuts/<object>-<first row>.json

A later run cuts the object at the same places, whatever its settings, so that its batches keep their ids.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from singer_arrow.errors import DataError, EmptyObjectError, NotFoundError, SupersededError
from singer_arrow.read_progress import ResumePoint
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url


@dataclass(frozen=True, slots=True)
class Position:
    """Between two rows of a task: after `rows` rows of its object number `object`.

    `place` is where a reading of the object can begin there; without one it is read from its start, and its first
    `rows` rows are dropped.
    """

    object: int = 0
    rows: int = 0
    place: ResumePoint | None = field(default_factory=ResumePoint)


@dataclass(frozen=True, slots=True)
class Cut:
    """A durable batch file of an object, whose rows begin at `first_row`, from 0, as when it was first written.

    The object's reading continues at `after`; None: it is the object's last file. With it `bad_rows` rows were
    rejected, which are found again by reading alone.
    """

    url: str
    first_row: int
    rows: int
    bytes: int
    after: Position | None
    bad_rows: int = 0

    @classmethod
    def from_json(cls, value: Any) -> Cut:
        """Decode a cut; KeyError, TypeError or ValueError: it is something else."""
        after = None
        if (found := value["after"]) is not None:
            place = ResumePoint(**found["place"]) if found["place"] else None
            after = Position(found["object"], found["rows"], place)
        return cls(value["url"], value["first_row"], value["rows"], value["bytes"], after, value.get("bad_rows", 0))


class Cuts:
    """The cuts of one object, which `name` identifies in its version; `is_new`: no earlier run has begun the object."""

    def __init__(self, storage: Storage, folder: Url, name: str, *, is_new: bool = False) -> None:
        self._storage, self._folder, self._name = storage, folder, name
        self._known: list[Cut] | None = [] if is_new else None
        self.place = folder, name
        """With which another process finds them; any of them may have been made meanwhile."""
        self.lock = threading.Lock()
        """For one reading of the object at a time."""

    def known(self) -> list[Cut]:
        """Return the cuts, in order, without a gap."""
        if self._known is None:
            self._known = list(self._read())
        return self._known

    def add(self, cut: Cut) -> None:
        """Make a cut durable; a SupersededError means that another run has cut the object elsewhere meanwhile."""
        url = self._url(cut.first_row)
        if not self._storage.put(url, json.dumps(asdict(cut)).encode(), if_absent=True):
            theirs = self._get(cut.first_row)
            if theirs is None or theirs.after != cut.after:
                msg = f"{url} was written by another run of the stream at the same time; run again to follow it"
                raise SupersededError(msg)
        self.known().append(cut)

    def with_resume_point(self, position: Position) -> Position:
        """Return the position with the place where a reading can begin there, if that is known."""
        return next((c.after for c in self.known() if c.after and c.after.rows == position.rows), position)

    def _read(self) -> Iterator[Cut]:
        after: Position | None = Position()
        while after is not None and (cut := self._get(after.rows)) is not None:
            yield cut
            after = cut.after

    def _get(self, first_row: int) -> Cut | None:
        url = self._url(first_row)
        try:
            return Cut.from_json(json.loads(bytes(self._storage.get(url).data)))
        except (NotFoundError, EmptyObjectError):
            return None
        except (AttributeError, KeyError, TypeError, ValueError):
            msg = "it does not describe where an object was cut into batch files"
            hint = "Restore it, or use the version of the tap that wrote it"
            raise DataError(msg, url=url, hint=hint) from None

    def _url(self, first_row: int) -> Url:
        return self._folder.join(f"{self._name}-{first_row}.json")
