"""What a run would read, as a table: `tap-s3-files --config C --plan`. Lists objects, reads none, changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

from tap_s3_files.plan.model import PendingTask

_HEADS = ("stream", "objects", "bytes", "tasks", "batch files (about)")


@dataclass(frozen=True, slots=True)
class Row:
    """What a run would read of a stream; the number of batch files is estimated from object sizes."""

    stream: str
    objects: int = 0
    bytes: int = 0
    tasks: int = 0
    batch_files: int = 0

    @classmethod
    def of(cls, stream: str, tasks: Iterable[PendingTask], *, batches: bool) -> Row:
        """Count the tasks of a stream's plan."""
        row = cls(stream)
        for pending in tasks:
            task, size = pending.task, pending.segment.target_bytes
            if not task.objects:
                continue
            files = max(1, round(task.bytes / size)) if batches else 0
            row = cls(
                stream,
                row.objects + len(task.objects),
                row.bytes + task.bytes,
                row.tasks + 1,
                row.batch_files + files,
            )
        return row


def format_table(rows: Iterable[Row]) -> Iterator[str]:
    """Format the table, with a total where there are several streams."""
    listed = list(rows)
    if len(listed) > 1:
        sums = [sum(column) for column in zip(*(astuple(r)[1:] for r in listed), strict=True)]
        listed.append(Row("all", *sums))
    cells = [_HEADS, *((r.stream, *(f"{n:,}" for n in astuple(r)[1:])) for r in listed)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADS))]
    for name, *numbers in cells:
        aligned = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
        yield "  ".join((name.ljust(widths[0]), *aligned))
