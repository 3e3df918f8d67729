"""Where the plan of a stream is kept: its segments, and what is noted beside them.

<plan_root>/_plans/<stream>/000017.json             segment 17: what it holds, in which tasks
<plan_root>/_plans/<stream>/000017-form-1.json      from which row of which task on rows are of another form
<plan_root>/_plans/<stream>/000017-parts-3f9c.json  which batch files of a large object are made
<plan_root>/_plans/<stream>/history.json            what is kept of removed segments
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeVar

from singer_arrow.batch.encode import Part
from singer_arrow.errors import ConfigError, DataError, EmptyObjectError, NotFoundError
from singer_arrow.formats import Place
from singer_arrow.object_info import ObjectInfo
from singer_arrow.storage import Storage
from singer_arrow.urls import Url
from tap_s3_files.bookmarks import Watermark
from tap_s3_files.history import History, from_json, to_json
from tap_s3_files.plan import Form, Position, Segment, Task

T = TypeVar("T")
VERSION = 1
_NAME = re.compile(r"(\d{6,})\.json")


def safe_name(stream: str) -> str:
    """The stream's name for use in a key: its own if that is plain, else made so and kept apart by a hash."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", stream)[:100]
    return plain if plain == stream else f"{plain}-{hashlib.sha256(stream.encode()).hexdigest()[:8]}"


class SegmentStore:
    """The segments of one stream below a plan root."""

    def __init__(self, storage: Storage, root: Url, stream: str) -> None:
        self._storage = storage
        self._folder = root.join("_plans", safe_name(stream))

    def numbers(self) -> list[int]:
        """The numbers of all segments that exist, in order."""
        found = self._storage.list(Url(self._folder.scheme, self._folder.bucket, self._folder.key + "/"))
        return sorted(int(m[1]) for o in found if (m := _NAME.fullmatch(o.url.name)))

    def read(self, number: int) -> Segment:
        """A segment that exists.

        Raises:
            DataError: It is damaged, or of a version that this tap does not know.
        """
        url = self._url(number)
        try:
            return _from_json(json.loads(bytes(self._storage.get(url).data)))
        except (AttributeError, KeyError, TypeError, ValueError):
            msg = "this is no segment that this version of the tap can follow"
            hint = "Use the version that wrote it, or delete it: its objects are then planned again"
            raise DataError(msg, url=url, hint=hint) from None

    def write(self, segment: Segment) -> Segment:
        """Make a segment durable; if another run wrote this number first, its segment is returned, to be followed.

        Raises:
            ConfigError: That other run plans for other paths, or from another watermark.
        """
        url = self._url(segment.number)
        if self._storage.put(url, json.dumps(_to_json(segment)).encode(), if_absent=True):
            return segment
        theirs = self.read(segment.number)
        if (theirs.before, theirs.fingerprint) != (segment.before, segment.fingerprint):
            msg = (
                f"{url} was written by another run with another STATE or other paths at the same time; "
                "give each of them a plan_root of its own"
            )
            raise ConfigError(msg)
        return theirs

    def read_history(self) -> History:
        """What earlier runs kept of removed segments.

        Raises:
            DataError: It is damaged, or of a version that this tap does not know.
        """
        url = self._folder.join("history.json")
        try:
            return from_json(bytes(self._storage.get(url).data))
        except (NotFoundError, EmptyObjectError):
            return History()
        except (AttributeError, KeyError, TypeError, ValueError):
            msg = "this is no history that this version of the tap can read"
            hint = "Use the version that wrote it, or delete it: late objects of the last minutes may then be missed"
            raise DataError(msg, url=url, hint=hint) from None

    def write_history(self, history: History) -> None:
        """Keep what is known of segments that will be removed."""
        self._storage.put(self._folder.join("history.json"), to_json(history))

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove segments, and before them what is noted beside them."""
        listed = list(numbers)
        if not listed:
            return
        gone = {f"{n:06d}" for n in listed}
        found = self._storage.list(Url(self._folder.scheme, self._folder.bucket, self._folder.key + "/"))
        self._storage.delete([o.url for o in found if o.url.name.partition("-")[0] in gone])
        self._storage.delete([self._url(n) for n in listed])

    def read_changes(self, number: int) -> list[Change]:
        """From where on rows of a segment are of another form than its own, in the order in which that was decided.

        Raises:
            DataError: What is noted is damaged.
        """
        found: list[Change] = []
        while (change := self._note(self._change_url(number, len(found)), Change.from_json)) is not None:
            found.append(change)
        return found

    def write_change(self, number: int, place: int, change: Change) -> Change:
        """Make it durable that rows are of another form; if another run came first, its change is returned."""
        url = self._change_url(number, place)
        if self._storage.put(url, json.dumps(asdict(change)).encode(), if_absent=True):
            return change
        return self._note(url, Change.from_json) or change

    def parts(self, number: int, task: int, *, is_new: bool = False) -> PartsRecord:
        """What is known of the batch files of a task of a segment.

        Args:
            number: Of the segment.
            task: Its number in it.
            is_new: No earlier run knew the segment, so there is nothing to look for.
        """
        return PartsRecord(self._storage, self._folder.join(f"{number:06d}-parts-{task}.json"), is_new=is_new)

    def _change_url(self, number: int, place: int) -> Url:
        return self._folder.join(f"{number:06d}-form-{place + 1}.json")

    def _note(self, url: Url, read: Callable[[Any], T]) -> T | None:
        return _read_note(self._storage, url, read)

    def _url(self, number: int) -> Url:
        return self._folder.join(f"{number:06d}.json")


@dataclass(frozen=True, slots=True)
class Change:
    """From a row of a task of a segment on, rows are of another form."""

    task: int
    rows: int
    form: Form

    @classmethod
    def from_json(cls, value: Any) -> Change:
        """Read what was noted.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        return cls(int(value["task"]), int(value["rows"]), Form.from_json(value["form"]))


@dataclass(frozen=True, slots=True)
class DonePart:
    """A durable batch file of a large object that is not its last one, and where the object's reading goes on."""

    url: str
    first_row: int
    rows: int
    bytes: int
    after: Position

    def as_part(self) -> Part:
        """As it was when it was written."""
        return Part(Url.parse(self.url), self.first_row, self.rows, self.bytes, is_last=False, mark=self.after)

    @classmethod
    def from_json(cls, value: Any) -> DonePart:
        """Read what was noted.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        place = value["after"]["place"]
        after = Position(value["after"]["object"], value["after"]["rows"], Place(**place) if place else None)
        return cls(value["url"], value["first_row"], value["rows"], value["bytes"], after)


class PartsRecord:
    """Which batch files of a task are made: what an interrupted run need not do again."""

    def __init__(self, storage: Storage, url: Url, *, is_new: bool = False) -> None:
        self._storage, self._url = storage, url
        self._parts: list[DonePart] | None = [] if is_new else None

    def known(self) -> Sequence[DonePart]:
        """The files, in order.

        Raises:
            DataError: The record is damaged.
        """
        if self._parts is None:
            found = _read_note(self._storage, self._url, lambda v: [DonePart.from_json(p) for p in v["parts"]])
            self._parts = found or []
        return self._parts

    def placed(self, position: Position) -> Position:
        """The position, with the place where a reading can begin there, if that is known."""
        known = (p.after for p in self.known() if p.after.rows == position.rows)
        return position if position.place else next(known, position)

    def add(self, part: DonePart) -> None:
        """Note that a file is made."""
        self._parts = [*(p for p in self.known() if p.first_row < part.first_row), part]
        note = {"version": VERSION, "parts": [asdict(p) for p in self._parts]}
        self._storage.put(self._url, json.dumps(note).encode())


def _read_note(storage: Storage, url: Url, read: Callable[[Any], T]) -> T | None:
    try:
        return read(json.loads(bytes(storage.get(url).data)))
    except (NotFoundError, EmptyObjectError):
        return None
    except (AttributeError, KeyError, TypeError, ValueError):
        msg = "this is no note of a plan that this version of the tap can read"
        hint = "Use the version that wrote it, or delete it: its objects are then read again from their beginning"
        raise DataError(msg, url=url, hint=hint) from None


def _to_json(segment: Segment) -> dict[str, Any]:
    return {
        "version": VERSION,
        "stream": segment.stream,
        "number": segment.number,
        "fingerprint": segment.fingerprint,
        "target_bytes": segment.target_bytes,
        "form": asdict(segment.form) if segment.form else None,
        "before": segment.before.to_json() if segment.before else None,
        "after": segment.after.to_json() if segment.after else None,
        "tasks": [{"objects": [_object_to_json(o) for o in t.objects]} for t in segment.tasks],
    }


def _object_to_json(info: ObjectInfo) -> dict[str, Any]:
    return {"url": str(info.url), "etag": info.etag, "size": info.size, "modified": info.modified.isoformat()}


def _from_json(value: dict[str, Any]) -> Segment:
    if value["version"] != VERSION:
        raise ValueError
    return Segment(
        number=value["number"],
        stream=value["stream"],
        fingerprint=value["fingerprint"],
        target_bytes=value["target_bytes"],
        form=Form.from_json(value["form"]) if value.get("form") else None,
        before=Watermark.from_json(value["before"]) if value["before"] else None,
        tasks=tuple(Task(tuple(_object_from_json(o) for o in t["objects"])) for t in value["tasks"]),
    )


def _object_from_json(value: dict[str, Any]) -> ObjectInfo:
    url = Url.parse(value["url"])
    return ObjectInfo(url, value["size"], value["etag"], datetime.fromisoformat(value["modified"]))
