"""A window: the rows of a query within bounds of its replication key, as batch files. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from singer_arrow.batch.message import Batch, PlanLogId
from singer_arrow.naming import digest
from tap_flight_sql.sql import Bound

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
