"""Convert objects on local disk to batch files within this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from singer_arrow.batch.message import Batch, BatchSettings
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.convert import Step, convert_task
from tap_s3_files.discover import METADATA
from tap_s3_files.plan_model import PendingTask, Position, Segment, Task
from tap_s3_files.progress import Progress
from tap_s3_files.read import read
from tap_s3_files.run import StreamJob, TaskContext

SOURCE = pa.schema([("id", pa.int64()), ("name", pa.string())])
JOB = StreamJob("orders", pa.schema([*SOURCE, *METADATA]), True, "auto", ReadOptions())


class Folder:
    """Objects on local disk, and the context in which tasks read them."""

    def __init__(self, path: Path) -> None:
        self.path, self.storage = path, Storage()
        self.batch = BatchSettings("parquet", Url.parse(str(path / "out")), "zstd", target_bytes=1 << 20)
        self.context = TaskContext(JOB, self.storage, Budget(), Progress("orders"))

    def csv(self, name: str, first: int, rows: int) -> ObjectInfo:
        lines = "".join(f"{n},n{n}\n" for n in range(first, first + rows))
        return self.write(name, f"id,name\n{lines}")

    def write(self, name: str, text: str | bytes) -> ObjectInfo:
        path = self.path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return self.storage.head(Url.parse(str(path)))

    def steps(
        self,
        task: Task,
        *,
        job: StreamJob = JOB,
        target_bytes: int = 1 << 20,
        start: Position | None = None,
        cuts: Any = None,
        **batch: Any,
    ) -> Iterator[Step]:
        """Convert a task, from a position on."""
        context = replace(self.context, job=replace(job, batch=replace(self.batch, **batch)))
        segment = Segment(0, job.stream, target_bytes, None, None, (task,))
        return convert_task(context, PendingTask(segment, 0, task, start or Position(), cuts=cuts, reading="00000000"))

    def convert(self, *objects: ObjectInfo, **options: Any) -> list[Batch]:
        found = []
        for step in self.steps(Task(objects), **options):
            self.context.progress.add(step.counts)
            found += [step.batch] if step.batch else []
        return found

    def rows(self, *objects: ObjectInfo, job: StreamJob = JOB) -> list[dict[str, Any]]:
        pieces = read(replace(self.context, job=job), Task(objects))
        return [row for piece in pieces if piece.batch for row in piece.batch.to_pylist()]


def file_of(batch: Batch) -> Path:
    (url,) = batch.manifest
    return Url.parse(url).local_path()
