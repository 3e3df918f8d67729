"""The window log of a stream: which batch files hold the rows of which window. It is only ever appended to.

<plan_root>/_windows/<stream>/00000017.json    window 17

A window is written down once all its files are durable, and before its first batch is sent. So what was sent once is
never read from the server again, which may have other rows by then: a run that follows the log sends the same batches.
A number is given once. A run that finds its number taken ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError, SupersededError
from singer_arrow.naming import digest, folder_name
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from tap_flight_sql.sql import Bound

VERSION = 1
_NAME = re.compile(r"(\d{8})\.json")
_ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class WindowFile:
    """A batch file of a window."""

    url: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a query within bounds of its replication key, as batch files.

    Attributes:
        number: In the log.
        token: Identifies the window; chosen when it is read.
        lower, upper: Bounds of the replication key; rows are above the lower one, up to the upper one.
        schema: The JSON Schema of the files.
        version: Of a full table.
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

    def batches(self) -> Iterator[Batch]:
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
            )

    def to_bytes(self) -> bytes:
        """Encode the window for the log."""
        value = asdict(self)
        del value["version"]
        return json.dumps({"version": VERSION, **value}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Window:
        """Decode a window of the log.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: It is something else.
        """
        value = json.loads(data)
        if value.pop("version") != VERSION:
            raise ValueError
        return cls(**{**value, "files": tuple(WindowFile(**file) for file in value["files"])})


class WindowLog:
    """The log of one stream below a plan root.

    Args:
        storage: Where it is kept.
        root: The plan root.
        stream: The stream's name.
        start: Number of the first window that matters; earlier ones are not listed.

    Raises:
        DataError: A window is missing.
    """

    def __init__(self, storage: Storage, root: Url, stream: str, start: int) -> None:
        self._storage = storage
        folder = root.join("_windows", folder_name(stream))
        self._folder = Url(folder.scheme, folder.bucket, folder.key + "/")
        after = self._url(start - 1).key if start else ""
        found = (_NAME.fullmatch(o.url.name) for o in storage.list(self._folder, after=after))
        self._numbers = sorted(int(match[1]) for match in found if match and int(match[1]) >= start)
        for expected, number in enumerate(self._numbers, start):
            if number != expected:
                hint = "Restore it, or set another plan_root and empty the table: all rows are then read again"
                raise DataError("the window log lacks this window", url=self._url(expected), hint=hint)
        self.next_number = start + len(self._numbers)

    def windows(self) -> Iterator[Window]:
        """Yield the windows that were written down, in order.

        Raises:
            DataError: One is damaged.
        """
        for number in self._numbers:
            yield self._read(number)

    def append(self, window: Window) -> None:
        """Make a window durable, under the number that it has.

        Raises:
            SupersededError: Another run has taken the number.
        """
        url = self._url(window.number)
        is_new = self._storage.put(url, window.to_bytes(), if_absent=True)
        if not is_new and self._read(window.number).token != window.token:
            self._storage.delete([Url.parse(file.url) for file in window.files])
            msg = f"{url} was written by another run of the stream meanwhile; nothing is lost: run again to follow it"
            raise SupersededError(msg)
        self.next_number = window.number + 1

    def _read(self, number: int) -> Window:
        url = self._url(number)
        try:
            return Window.from_bytes(bytes(self._storage.get(url).data))
        except (AttributeError, KeyError, TypeError, ValueError):
            msg = "it is no part of a window log that this version of the tap can follow"
            hint = "Restore it, or use the version of the tap that wrote it"
            raise DataError(msg, url=url, hint=hint) from None

    def _url(self, number: int) -> Url:
        return self._folder.join(f"{number:08d}.json")
