"""A window: its bounds, files and messages; windows written down before they are sent."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from singer_arrow.batch.message import Batch, PlanLogId
from singer_arrow.errors import DataError, IdentityError, NotFoundError, SupersededError
from singer_arrow.naming import digest, folder_name
from singer_arrow.storage.log_head import (
    LogHead,
    compactions,
    foreign_entry,
    head_numbers,
    newest_cover,
    read_head,
    write_head,
)
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_flight_sql.settings import Bookmark
from tap_flight_sql.sql import Bound

# A window: the rows of a query within bounds of its replication key, as batch files. Pure.

VERSION = 1
_ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class WindowFile:
    """A batch file of a window."""

    url: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a query above `lower`, up to `upper` by its replication key, as batch files.

    `number` is its place in the log, `token`, chosen when it is read, identifies it; `version` is that of a full table,
    `query` a digest of the query and its replication key, empty in windows of former versions.
    """

    stream: str
    number: int
    token: str
    lower: Bound | None
    upper: Bound | None
    format: str
    compression: str | None
    schema: Mapping[str, Any]
    files: tuple[WindowFile, ...]
    version: int | None = None
    query: str = ""

    def batches(self, plan_log: PlanLogId | None = None) -> Iterator[Batch]:
        """Yield the BATCH messages of the window, one for each file, the same ones at any time."""
        for number, file in enumerate(self.files):
            yield Batch(
                stream=self.stream,
                format=self.format,
                compression=self.compression,
                manifest=(file.url,),
                batch_id=digest(f"{self.stream}\n{self.token}\n{number}", _ID_DIGITS),
                row_count=file.rows,
                byte_count=file.bytes,
                version=self.version,
                plan_log=plan_log,
            )

    def to_bytes(self) -> bytes:
        value = asdict(self)
        del value["version"]
        return json.dumps({"version": VERSION, **value}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Window:
        """Decode a window of the log; AttributeError, KeyError, TypeError or ValueError: it is something else."""
        value = json.loads(data)
        if value.pop("version") != VERSION:
            raise ValueError
        return cls(**{**value, "files": tuple(WindowFile(**file) for file in value["files"])})


# The window log of a stream: which batch files hold the rows of which window. Nothing in it is changed or lost.
#
# <plan_root>/_windows/<stream>/log-000000.json                  identifies the log, see `storage.log_head`
# <plan_root>/_windows/<stream>/00000017.json                    window 17
# <plan_root>/_windows/<stream>/00000000-00000015.jsonl.zst      windows 0 to 15, compacted: a line each
#
# A window is written down once all its files are durable, and before its first batch is sent. So what was sent once is
# never read from the server again, which may have other rows by then: a run that follows the log sends the same
# batches. A number is given once. A run that finds its number taken ends.
#
# Windows are compacted into checkpoints, so that the log of any number of runs has few files. A checkpoint is durable
# before what it replaces is removed. What a killed run left there is removed by the next compaction.

GAP_LISTINGS = 3
"""How often a log with a gap is listed again: a listing while another run compacts may show one."""
_NAME = re.compile(r"(\d{8})(?:\.json|-(\d{8})\.jsonl\.zst)")


@dataclass(frozen=True, slots=True)
class WindowLogFile:
    """A file of the log, with the numbers of its first and last window."""

    first: int
    last: int
    bytes: int

    @property
    def is_checkpoint(self) -> bool:
        """Whether it holds windows that had files of their own before."""
        return self.last > self.first

    @property
    def name(self) -> str:
        return f"{self.first:08d}-{self.last:08d}.jsonl.zst" if self.is_checkpoint else f"{self.first:08d}.json"


class WindowLog:
    """The log of one stream below a plan root, for a run that begins at the STATE `at`."""

    def __init__(self, storage: Storage, root: Url, stream: str, at: Bookmark) -> None:
        self._storage, self._stream, self._start = storage, stream, at.window
        folder = root.join("_windows", folder_name(stream))
        self._folder = Url(folder.scheme, folder.bucket, folder.key + "/")
        self._replaced: list[WindowLogFile] = []
        self._files: list[WindowLogFile] = []
        self.head: LogHead | None = None
        self._list()
        self._check(at)

    def _check(self, at: Bookmark) -> None:
        """Check that a STATE is of this log; without one, that the log has all that was ever sent."""
        head, own = self.head, self.head.log if self.head else ""
        end = self._files[-1].last + 1 if self._files else head.first if head else at.window
        problem = ""
        if at.log and at.log != own:
            problem = f"its STATE is of another window log than {self._folder}"
        elif at.window > end:
            problem = f"its STATE is at window {at.window}, and {self._folder} ends before window {end}"
        elif head and not at.log and not head.first <= at.window <= head.unnamed:
            problem = f"its STATE, or that it has none, does not fit the window log {self._folder}"
        elif head and not at.log and at.window == head.first and at.value != head.before:
            problem = f"the window log {self._folder} begins elsewhere than its STATE"
        if problem:
            msg = (
                f"Stream {self._stream!r}: {problem}; rows would be lost or sent twice, so nothing was read. Was "
                "plan_root, or the root of the batch storage, changed, or files of the log removed? Restore them; or, "
                "to read all rows again into an empty table, set another plan_root and run without STATE"
            )
            raise IdentityError(msg)

    @property
    def next_number(self) -> int:
        """Number of the next window."""
        return max(self._start, self._files[-1].last + 1) if self._files else self._start

    def windows(self) -> Iterator[Window]:
        """Yield the windows that were written down, in order."""
        start = self._start
        while (file := next((f for f in self._files if f.last >= start), None)) is not None:
            try:
                for window in self._windows_of(file):
                    if window.number >= start:
                        yield window
                        start = window.number + 1
            except NotFoundError:  # another run has compacted it
                before = self._files
                self._list()
                if self._files == before:
                    raise

    def append(self, window: Window) -> None:
        """Make a window durable, under the number that it has, and compact what is due."""
        if self.head is None:
            first, unnamed = (self._files[0].first, self.next_number) if self._files else (window.number, None)
            before = None if self._files else window.lower
            self.head = write_head(
                self._storage, self._folder, LogHead.new(self._stream, first, before, unnamed=unnamed)
            )
        data, head = window.to_bytes(), self.head
        file = WindowLogFile(window.number, window.number, len(data))
        is_new = self._storage.put(self._url(file), data, if_absent=True)
        self._list()  # while this run slept, the number may have been taken, or this window compacted, by another one
        holder = next(f for f in self._files if f.first <= window.number <= f.last)
        if self.head != head or window.token not in (w.token for w in self._windows_of(holder)):
            written = [Url.parse(f.url) for f in window.files]
            self._storage.delete([*written, self._url(file)] if is_new else written)
            url = self._url(file)
            msg = f"{url} was written by another run of the stream meanwhile; nothing is lost: run again to follow it"
            raise SupersededError(msg)
        self._compact()

    def _list(self) -> None:
        for _ in range(GAP_LISTINGS):
            sizes = {o.url.name: o.size for o in self._storage.list(self._folder)}
            listed = [
                WindowLogFile(int(found[1]), int(found[2] or found[1]), size)
                for name, size in sizes.items()
                if (found := _NAME.fullmatch(name))
            ]
            if heads := head_numbers(sizes):
                self.head = read_head(self._storage, self._folder, heads[-1], self._stream)
            self._files = newest_cover(listed)
            self._replaced = [file for file in listed if file not in self._files]
            missing = self._start  # the first number from there on that the log lacks before its last one
            for file in self._files:
                if file.first > missing:
                    break
                missing = max(missing, file.last + 1)
            else:
                return
        hint = "Restore it, or set another plan_root and empty the table: all rows are then read again"
        url = self._url(WindowLogFile(missing, missing, 0))
        raise DataError("the window log lacks this window", url=url, hint=hint)

    def _windows_of(self, file: WindowLogFile) -> Iterator[Window]:
        url, expected = self._url(file), file.first
        data = bytes(self._storage.get(url).data)
        try:
            stream = pa.CompressedInputStream(pa.BufferReader(data), "zstd") if file.is_checkpoint else None
            for line in io.BufferedReader(stream) if stream is not None else [data]:
                window = Window.from_bytes(line)
                if window.number != expected:
                    raise ValueError
                if window.stream != self._stream:
                    raise foreign_entry(url, window.stream, self._stream)
                yield window
                expected += 1
            if expected <= file.last:
                raise ValueError
        except (AttributeError, KeyError, TypeError, ValueError, OSError):
            msg = "it is no part of a window log that this version of the tap can follow"
            hint = "Restore it, or use the version of the tap that wrote it"
            raise DataError(msg, url=url, hint=hint) from None

    def _compact(self) -> None:
        """Write the checkpoints that are due, then remove what they and earlier ones replaced."""
        while files := compactions(_without_gaps(self._files)):
            try:
                lines = b"".join(w.to_bytes() + b"\n" for file in files for w in self._windows_of(file))
            except NotFoundError:  # another run compacts
                return
            sink = pa.BufferOutputStream()
            with pa.CompressedOutputStream(sink, "zstd") as stream:
                stream.write(lines)
            data = bytes(sink.getvalue())
            made = WindowLogFile(files[0].first, files[-1].last, len(data))
            self._storage.put(self._url(made), data)
            self._files = newest_cover([*self._files, made])
            self._replaced += files
        self._storage.delete([self._url(file) for file in self._replaced])
        self._replaced = []

    def _url(self, file: WindowLogFile) -> Url:
        return self._folder.join(file.name)


def _without_gaps(files: Sequence[WindowLogFile]) -> Sequence[WindowLogFile]:
    """Return the files after the last gap: windows that STATE has passed may have been removed by users."""
    gaps = (n for n in range(len(files) - 1, 0, -1) if files[n - 1].last + 1 != files[n].first)
    return files[next(gaps, 0) :]
