"""The setting `after_load`: objects whose rows are loaded are deleted, moved or tagged.

A target lets a STATE leave once all before it is loaded. So the segments of the plan log that the given STATE of a run
has passed are loaded, and their objects are needed no more. Nothing else is touched: no object of another segment, no
other version of an object.

<plan_root>/_plans/<stream>/after-load-000012-000007-3f2a9c1e.json

is a mark, written before the first object is removed, with the STATE as its content. From then on objects of segments
before 12 may be gone, and a run that would have to send one of them again (without STATE, or with an older one) ends
with one line: `PlanLog.check_gone`. For segments before 7 all is done that the setting with this hash asks for: there a
later call continues, also after a kill.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from singer_arrow.errors import ConfigError, FatalError, NotFoundError, ObjectChangedError, SingerArrowError
from singer_arrow.naming import counted, digest
from singer_arrow.runtime.threads import LAST_SECONDS, DaemonPool, ordered_results
from singer_arrow.settings import setting
from singer_arrow.storage.listing import MAX_COPY_BYTES
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.paths import ObjectFilter

logger = logging.getLogger("tap-s3-files")
WORKERS = 32
SECONDS_BETWEEN_LINES = 10.0
MOST_FAILURES = 1000
"""Objects that fail before the others are left to the next call."""
_NO_VERSION = f'"{0:032x}"'
_REPLACED = "stay: replaced since"
_MARK = re.compile(r"after-load-(\d{6,})-(\d{6,})-(\w+)\.json")


@dataclass(frozen=True, slots=True)
class AfterLoad:
    """What is done with an object."""

    delete: bool = setting("`true`: delete it. In a bucket with versions it gets a delete marker.", default=False)
    move: Url | None = setting("URL on S3 below which it is moved, with its key.", kind=str, parse=Url.parse)
    tag: Mapping[str, str] = setting("Tags that it gets besides those that it has.", default={})

    @property
    def verb(self) -> str:
        """What is done, in a word."""
        return "delete" if self.delete else "move" if self.move else "tag"


class Mark(NamedTuple):
    """A file beside the plan log: what may be gone, what is done, and by which setting. The largest one counts."""

    gone: int
    done: int
    setting: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"after-load-{self.gone:06d}-{self.done:06d}-{self.setting}.json"


def marks_in(names: Iterable[str]) -> list[Mark]:
    """Return the marks among file names."""
    return [Mark(int(found[1]), int(found[2]), found[3]) for found in map(_MARK.fullmatch, names) if found]


def clean_up(
    storage: Storage,
    given: AfterLoad,
    *,
    stream: str,
    state: Mapping[str, Any],
    end: int,
    folder: Url,
    marks: Sequence[Mark],
    objects: Callable[[int, int], Iterable[tuple[int, ObjectInfo, str]]],
    others: Sequence[ObjectFilter] = (),
    show: Callable[[str], None] | None = None,
) -> None:
    """Do what a setting asks for with the objects that the STATE of a stream has passed: of all segments before `end`.

    `folder` is that of the plan log, with the `marks`; `objects` returns the objects of segments, with the numbers of
    these, and a reason for one to stay, or ""; what `others` read stays too. With `show` nothing is changed: it gets a
    line for each object. FatalError: some failed, and the next call tries them again.
    """
    # What is left to do, written down before it is done
    own = digest(repr((given.delete, given.move, sorted(given.tag.items()))))
    start = max([0, *(mark.done for mark in marks if mark.setting == own)])
    if start >= end or any(mark.gone > end for mark in marks):  # a run with a newer STATE does it
        return
    gone = max([0 if given.tag else end, *(mark.gone for mark in marks)])
    known = {folder.join(mark.name) for mark in marks}

    def write_down(done: int) -> None:
        url = folder.join(Mark(gone, done, own).name)
        storage.put(url, json.dumps({"bookmarks": {stream: state}}).encode())
        storage.delete(known - {url})
        known.clear()
        known.add(url)

    if show is None:
        write_down(start)

    # One object: "", or why it stays as it is
    lock, answers, places = Lock(), list[bool](), set[Url]()

    def treat(info: ObjectInfo) -> str:
        if reader := next((other.stream for other in others if other.matches(info.url)), None):
            raise ConfigError(f"{info.url} is read by stream {reader!r} too; let 'path' of one of them leave it out")
        try:
            now, to = storage.head(info.url), None
            if not now.same_version(info) or now.modified.replace(microsecond=0) > info.modified:
                return _REPLACED
            if given.move is not None:
                if info.size > MAX_COPY_BYTES:
                    return "stay: larger than 5 GB, which S3 does not copy at once"
                to, is_there = _place(storage, now, given.move)
                with lock:  # two objects of this call, of other buckets, may have one key
                    if to in places:
                        to, is_there = _with_hash(now, to), False
                    places.add(to)
            if show is not None:
                show(f"{given.verb} {info.url}" + (f" to {to}" if to else ""))
            elif given.tag:
                storage.tag_version(now, given.tag)
            else:
                if to is not None and not is_there:
                    try:
                        storage.copy_version(now, to)
                    except NotFoundError:
                        storage.head(info.url)  # it is gone, or else the bucket of `to` is
                        raise ConfigError(f"Setting 'after_load.move': bucket {to.bucket!r} does not exist") from None
                with lock:  # once, with an object that is due
                    if not answers:
                        answers.append(_has_conditions(storage, now))
                if not answers[0]:
                    raise ConfigError(
                        f"s3://{info.url.bucket}: the storage deletes an object although the request is for another "
                        "version of it (If-Match), so one that was replaced could be lost; leave out 'after_load'"
                    )
                storage.delete_version(now)
        except NotFoundError:
            return "were gone"
        except ObjectChangedError:
            return _REPLACED
        return ""

    # All objects, by many threads; what becomes of them comes in the order of the log
    counts, failures, reached = Counter[str](), list[tuple[int, SingerArrowError]](), start

    def attempt(number: int, info: ObjectInfo, reason: str) -> tuple[int, str | SingerArrowError]:
        try:
            return number, f"stay: {reason}" if reason else treat(info)
        except SingerArrowError as error:
            return number, error

    def log() -> None:
        did = f"would {given.verb}" if show else "tagged" if given.tag else f"{given.verb}d"
        stay = "".join(f"; {count:,} {why}" for why, count in sorted(counts.items()) if why)
        failed = f"; {len(failures):,} failed" if failures else ""
        logger.info("Stream %r: after_load %s %s%s%s", stream, did, counted(counts[""], "object"), stay, failed)

    tasks = (partial(attempt, *one) for one in objects(start, end))
    due = time.monotonic() + SECONDS_BETWEEN_LINES
    pool = DaemonPool(WORKERS, "after-load")
    try:
        for number, outcome in ordered_results(pool, tasks, 4 * WORKERS):
            if isinstance(outcome, str):
                counts[outcome] += 1
            else:
                failures.append((number, outcome))
                if len(failures) == MOST_FAILURES:
                    break
            reached = failures[0][0] if failures else number
            if show is None and time.monotonic() >= due:
                due = time.monotonic() + SECONDS_BETWEEN_LINES
                log()
                write_down(reached)
    finally:
        pool.stop(LAST_SECONDS)
    if show is None:
        write_down(failures[0][0] if failures else end)
    log()
    if failures:
        first_error = failures[0][1]
        error = FatalError(
            f"Stream {stream!r}: all that its STATE has passed is loaded, but after_load failed for "
            f"{counted(len(failures), 'object')}, which the next run tries again; the first: {first_error}"
        )
        error.code = first_error.code
        raise error


def _has_conditions(storage: Storage, info: ObjectInfo) -> bool:
    """Return whether a storage keeps an object if a request is to delete another version of it."""
    try:
        storage.delete_version(info._replace(etag=_NO_VERSION))
    except ObjectChangedError:
        return True
    return False


def _place(storage: Storage, info: ObjectInfo, root: Url) -> tuple[Url, bool]:
    """Return where an object is moved, and whether it is there; if another one has that name, it gets a hash."""
    to = root.join(info.url.key)
    try:
        found = storage.head(to)
    except NotFoundError:
        return to, False
    if found.size == info.size and found.etag == info.etag:
        return to, True
    return _with_hash(info, to), False


def _with_hash(info: ObjectInfo, to: Url) -> Url:
    folder, slash, name = to.key.rpartition("/")
    stem, dot, suffix = name.partition(".")
    return to._replace(key=f"{folder}{slash}{stem}-{digest(f'{info.url} {info.etag}')}{dot}{suffix}")
