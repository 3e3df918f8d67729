"""Read what earlier versions of the tap kept below `_plans/`; pure.

000017.json              segment 17 with the schema of its rows, on which the ids of its batches depend
000017-form-1.json       from which row of which task on rows have another schema
000017-parts-3.json      which batch files of task 3 were made
history.json             what remained of segments that were removed
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url
from tap_s3_files.bookmark import Watermark
from tap_s3_files.plan.cuts import Cut
from tap_s3_files.plan.model import Segment, Task, Version

HISTORY = "history.json"


def change_name(number: int, change: int) -> str:
    """Return the name of the file of a change of schema, from 1."""
    return f"{number:06d}-form-{change}.json"


def parts_name(number: int, task: int) -> str:
    """Return the name of the file of a task's batch files."""
    return f"{number:06d}-parts-{task}.json"


def segment_of(value: Any, changes: Sequence[Any]) -> Segment:
    """Convert a segment, so that the ids of its batches stay the same.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: It is something else.
    """
    if value["version"] != 1:
        raise ValueError
    before, after = (Watermark.from_json(value[n]) if value[n] else None for n in ("before", "after"))
    return Segment(
        number=value["number"],
        stream=value["stream"],
        target_bytes=value["target_bytes"],
        before=before,
        after=after,
        tasks=tuple(
            Task(tuple(_object(o) for o in t["objects"]), tuple(_columns_of(value, number, changes)))
            for number, t in enumerate(value["tasks"])
        ),
        from_queue=value["fingerprint"] == "queue",
    )


def cuts_of(value: Any) -> list[Cut]:
    """Convert what was kept of a task's batch files.

    Raises:
        KeyError, TypeError, ValueError: It is something else.
    """
    return [Cut.from_json(part) for part in value["parts"]]


@dataclass(frozen=True, slots=True)
class History:
    """What remained of removed segments.

    Attributes:
        marks: Of the objects that were planned in the last minutes, or came from a queue.
        since: The place after which all planned objects are among them.
        number: The lowest number of a new segment.
    """

    marks: frozenset[str] = frozenset()
    since: Watermark | None = None
    number: int = 0


def history_of(value: Any) -> History:
    """Convert what remained of removed segments.

    Raises:
        KeyError, TypeError, ValueError: It is something else.
    """
    planned = (version_hash((str(url), str(etag))) for url, etag, _ in value["planned"])
    marks = frozenset([*planned, *map(str, value.get("told", ()))])
    since = Watermark.from_json(value["since"]) if value["since"] else None
    return History(marks, since, int(value["number"]))


def version_hash(version: Version) -> str:
    """Return a short text that identifies a version of an object."""
    return hashlib.sha256("\n".join(version).encode()).hexdigest()[:16]


def id_columns(schema: pa.Schema) -> list[list[Any]]:
    """Return what was made part of the ids of batches: names and types of the columns."""
    return [[f.name, str(f.type), bool(f.metadata)] for f in schema]


def _columns_of(value: Any, task: int, changes: Sequence[Any]) -> list[tuple[int, Any]]:
    forms = [(0, 0, value["form"])] if value.get("form") else []
    forms += [(int(c["task"]), int(c["rows"]), c["form"]) for c in changes]
    first = [f for f in forms if f[:2] <= (task, 0)]
    later = [f for f in forms if f[0] == task and f[1] > 0]
    begin = [(0, max(first, key=lambda f: f[:2])[2])] if first else []
    found = [*begin, *((rows, form) for _, rows, form in later)]
    return [(rows, id_columns(from_json_schema(form["schema"]))) for rows, form in found]


def _object(value: Any) -> ObjectInfo:
    modified = datetime.fromisoformat(value["modified"])
    return ObjectInfo(Url.parse(value["url"]), value["size"], value["etag"], modified)
